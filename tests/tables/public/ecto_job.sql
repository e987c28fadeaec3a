-- dialect: postgres
CREATE TABLE schema_migrations (version bigint PRIMARY KEY, inserted_at timestamp(0));
INSERT INTO schema_migrations VALUES (20260911081502, '2026-10-01 06:00:03'), (20260911081633, '2026-10-01 06:00:03'), (20260914120920, '2026-10-01 06:00:04');
CREATE TABLE users (id bigserial PRIMARY KEY, email varchar(255) NOT NULL, name varchar(255), inserted_at timestamp(0) NOT NULL, updated_at timestamp(0) NOT NULL);
CREATE UNIQUE INDEX users_email_index ON users (email);
INSERT INTO users (email, name, inserted_at, updated_at) SELECT 'member' || g || '@club.example', 'Member ' || g, timestamp '2026-10-01 07:10:00' + g * interval '19 hours', timestamp '2026-10-01 07:10:00' + g * interval '23 hours' FROM generate_series(1, 14) g;

CREATE FUNCTION fn_notify_inserted() RETURNS trigger AS $$
DECLARE
BEGIN
  PERFORM pg_notify(TG_TABLE_NAME, '');
  RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE TABLE jobs (
  id bigserial PRIMARY KEY,
  state varchar(255) NOT NULL DEFAULT 'AVAILABLE',
  expires timestamp,
  schedule timestamp NOT NULL DEFAULT timezone('UTC', now()),
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 5,
  params jsonb NOT NULL,
  notify varchar(255),
  priority integer NOT NULL DEFAULT 0,
  inserted_at timestamp(0) NOT NULL,
  updated_at timestamp(0) NOT NULL
);
CREATE INDEX jobs_priority_schedule_id_index ON jobs (priority, schedule, id);
CREATE TRIGGER tr_notify_inserted_jobs AFTER INSERT ON jobs FOR EACH ROW EXECUTE PROCEDURE fn_notify_inserted();

-- A job that succeeded is deleted, so the ids have gaps.
INSERT INTO jobs (id, state, expires, schedule, attempt, max_attempts, params, notify, priority, inserted_at, updated_at)
SELECT CASE WHEN i <= 148 THEN 20417 + i * 31 + (i * i) % 17 ELSE 25040 + (i - 148) END, st,
  CASE WHEN st = 'RETRY' OR (st = 'AVAILABLE' AND a > 0) THEN date_trunc('second', started + a * interval '5 minutes') WHEN st = 'IN_PROGRESS' THEN date_trunc('second', started + a * interval '5 minutes') WHEN st = 'RESERVED' THEN date_trunc('second', started + interval '1 minute') END,
  CASE WHEN st = 'SCHEDULED' THEN timestamp '2026-11-24 17:30:00' + ((i * 7) % 23) * interval '1 day 30 minutes'
    WHEN st = 'FAILED' AND m = 1 THEN c
    WHEN st = 'FAILED' THEN date_trunc('second', started - (20 + i % 31) * interval '1 second')
    WHEN st IN ('RETRY', 'RESERVED') OR (st = 'AVAILABLE' AND a > 0) OR (st = 'IN_PROGRESS' AND a > 1) THEN date_trunc('second', failed + (CASE st WHEN 'IN_PROGRESS' THEN a ELSE a + 1 END) * interval '30 seconds')
    ELSE c END,
  a, m, params, CASE WHEN i % 21 = 5 THEN 'import-' || i END, CASE WHEN params ->> 'type' = 'ImportRow' THEN 1 ELSE 0 END,
  c + interval '0.4 seconds',
  CASE st WHEN 'SCHEDULED' THEN c + interval '0.4 seconds' WHEN 'AVAILABLE' THEN CASE WHEN a > 0 THEN timestamp '2026-11-24 11:59:31' ELSE c + interval '0.4 seconds' END ELSE started END
FROM (
  SELECT b.*,
    CASE st WHEN 'FAILED' THEN CASE m WHEN 1 THEN c + interval '2 seconds' ELSE c + interval '11 minutes 7 seconds' + (i % 50) * interval '1 second' END
      WHEN 'RETRY' THEN timestamp '2026-11-24 11:58:31' + (i % 9) * interval '3 seconds' WHEN 'AVAILABLE' THEN timestamp '2026-11-24 11:57:31' WHEN 'IN_PROGRESS' THEN timestamp '2026-11-24 11:59:40' ELSE timestamp '2026-11-24 11:59:58' END AS started,
    CASE st WHEN 'RETRY' THEN timestamp '2026-11-24 11:58:33' + (i % 9) * interval '3 seconds' WHEN 'IN_PROGRESS' THEN timestamp '2026-11-24 11:58:20' ELSE timestamp '2026-11-24 11:57:55' - (i % 5) * interval '2 seconds' END AS failed,
    CASE WHEN i <= 132 THEN
      CASE st WHEN 'SCHEDULED' THEN jsonb_build_object('type', 'SendReminder', 'user_id', 1 + i % 14, 'event_id', 300 + i)
        ELSE CASE i % 4 WHEN 0 THEN jsonb_build_object('type', 'SyncCRM', 'user_id', 1 + i % 14) WHEN 1 THEN jsonb_build_object('type', 'SendEmail', 'address', 'member' || 1 + i % 14 || '@club.example', 'template', 'welcome') WHEN 2 THEN jsonb_build_object('type', 'DeliverWebhook', 'url', 'https://hooks.example/club/' || i % 5, 'event', 'booking.created', 'id', 9000 + i) ELSE jsonb_build_object('type', 'SendReminder', 'user_id', 1 + i % 14, 'event_id', 200 + i) END END
      WHEN i <= 148 THEN jsonb_build_object('type', CASE WHEN i % 2 = 0 THEN 'DeliverWebhook' ELSE 'SyncCRM' END, 'id', 9000 + i, 'user_id', 1 + i % 14)
      ELSE jsonb_build_object('type', 'ImportRow', 'import_id', 77, 'row', i - 148) END AS params
  FROM (
    SELECT i, st,
      CASE WHEN i <= 132 THEN timestamp '2026-10-05 08:20:11.480219' + i * interval '9 hours 1 minute 13.0731 seconds' WHEN i <= 148 THEN timestamp '2026-11-24 11:46:02.119407' + (i - 132) * interval '43.31907 seconds' ELSE timestamp '2026-11-24 11:58:12.770113' + (i - 148) * interval '0.051977 seconds' END AS c,
      CASE WHEN st = 'FAILED' AND i % 4 = 2 AND i % 3 = 1 THEN 1 WHEN i % 29 = 3 THEN 3 ELSE 5 END AS m,
      CASE st WHEN 'FAILED' THEN CASE WHEN i % 4 = 2 AND i % 3 = 1 THEN 1 WHEN i % 29 = 3 THEN 3 ELSE 5 END WHEN 'RETRY' THEN 4 - (i - 133) / 4 WHEN 'AVAILABLE' THEN CASE WHEN i <= 148 THEN 2 ELSE 0 END WHEN 'IN_PROGRESS' THEN 2 WHEN 'RESERVED' THEN 2 ELSE 0 END AS a
    FROM (
      SELECT i, CASE WHEN i <= 132 THEN CASE WHEN i % 3 = 0 AND i > 60 THEN 'SCHEDULED' ELSE 'FAILED' END WHEN i <= 142 THEN 'RETRY' WHEN i <= 146 THEN 'AVAILABLE' WHEN i = 147 THEN 'RESERVED' WHEN i = 148 THEN 'IN_PROGRESS' ELSE 'AVAILABLE' END AS st
      FROM generate_series(1, 190) i WHERE i > 60 OR i % 2 = 1
    ) r
  ) b
) s ORDER BY i;
SELECT setval('jobs_id_seq', (SELECT max(id) + 5 FROM jobs));
