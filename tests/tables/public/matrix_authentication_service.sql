-- dialect: postgres
CREATE TABLE queue_workers (
  queue_worker_id UUID NOT NULL PRIMARY KEY,
  registered_at TIMESTAMP WITH TIME ZONE NOT NULL,
  last_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
  shutdown_at TIMESTAMP WITH TIME ZONE
);
INSERT INTO queue_workers VALUES
  ('01a00c4e-7b12-6a1c-3f0e-5d2b8a9c7e01', '2026-10-26 06:01:12.402911+00', '2026-11-09 03:12:40.118204+00', '2026-11-09 03:14:51.902113+00'),
  ('01a04f1b-22c9-41d7-9b66-0e7f3a5c1d02', '2026-11-09 03:14:50.771204+00', '2026-11-24 11:59:58.310447+00', NULL);
CREATE TYPE queue_job_status AS ENUM ('available', 'running', 'completed', 'lost', 'failed', 'scheduled');
CREATE TABLE queue_jobs (
  queue_job_id UUID NOT NULL PRIMARY KEY,
  status queue_job_status NOT NULL DEFAULT 'available',
  created_at TIMESTAMP WITH TIME ZONE NOT NULL,
  started_at TIMESTAMP WITH TIME ZONE,
  started_by UUID REFERENCES queue_workers (queue_worker_id),
  completed_at TIMESTAMP WITH TIME ZONE,
  queue_name TEXT NOT NULL,
  payload JSONB NOT NULL DEFAULT '{}',
  metadata JSONB NOT NULL DEFAULT '{}',
  failed_at TIMESTAMP WITH TIME ZONE,
  failed_reason TEXT,
  attempt INTEGER NOT NULL DEFAULT 0,
  next_attempt_id UUID REFERENCES queue_jobs (queue_job_id) ON DELETE SET NULL,
  scheduled_at TIMESTAMP WITH TIME ZONE
);
CREATE TABLE queue_schedules (
  schedule_name TEXT NOT NULL PRIMARY KEY,
  last_scheduled_at TIMESTAMP WITH TIME ZONE,
  last_scheduled_job_id UUID REFERENCES queue_jobs (queue_job_id) ON DELETE SET NULL
);
INSERT INTO queue_schedules (schedule_name) VALUES ('cleanup-expired-tokens'), ('expire-inactive-sessions'), ('prune-stale-policy-data');
ALTER TABLE queue_jobs ADD COLUMN schedule_name TEXT REFERENCES queue_schedules (schedule_name);
CREATE INDEX idx_queue_jobs_status_queue_job_id ON queue_jobs (status, queue_name, queue_job_id);
CREATE INDEX queue_jobs_scheduled_at_idx ON queue_jobs (scheduled_at) WHERE status = 'scheduled';
CREATE INDEX queue_jobs_started_by_fk ON queue_jobs (started_by);
CREATE INDEX queue_jobs_next_attempt_fk ON queue_jobs (next_attempt_id);
CREATE INDEX queue_jobs_schedule_name_fk ON queue_jobs (schedule_name);
CREATE FUNCTION queue_job_notify() RETURNS TRIGGER AS $$
BEGIN
  IF NEW.status = 'available' THEN
    PERFORM pg_notify('queue_available', json_build_object('queue', NEW.queue_name)::text);
  END IF;
  RETURN NULL;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER queue_job_notify_trigger AFTER INSERT OR UPDATE OF status ON queue_jobs FOR EACH ROW EXECUTE PROCEDURE queue_job_notify();

-- ULIDs as UUIDs: 48 bits of milliseconds, then random
CREATE FUNCTION pg_temp.ulid(at timestamptz, seed text) RETURNS uuid AS $$ SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || substr(md5(seed), 1, 20))::uuid $$ LANGUAGE sql;

-- Each job is a chain of attempts, one row each: attempt a starts some seconds after 5 s * (2^a - 1). Homeserver down on 2026-11-12 from 08:10 to 09:48 and today since 11:21.
CREATE TEMP TABLE att AS
SELECT j, a, n, q, fate, cre + CASE WHEN a > 0 THEN a * interval '0.412 seconds' + ((1 << a) - 1) * interval '5 seconds' + a * interval '2.207113 seconds' ELSE interval '0' END AS begins,
  CASE WHEN a > 0 THEN cre + ((1 << (a - 1)) - 1) * interval '5 seconds' + a * interval '0.412 seconds' + (a - 1) * interval '2.207113 seconds' ELSE cre END AS created
FROM (
  SELECT j, cre, q, fate, CASE fate WHEN 'dead' THEN 10 WHEN 'retry' THEN ceil(log(2.0, (extract(epoch FROM timestamptz '2026-11-24 11:59:20+00' - cre) / 5 + 1)::numeric))::int WHEN 'second' THEN 1 + j % 2 ELSE 0 END AS n
  FROM (
    SELECT j, cre, CASE WHEN j IN (88, 89, 141, 142, 143, 144, 145, 146, 147) THEN (ARRAY['provision-user', 'sync-devices'])[1 + j % 2] WHEN j IN (31, 113) THEN 'send-email-authentication-code' ELSE (ARRAY['sync-devices', 'provision-user', 'sync-devices', 'send-email-authentication-code', 'sync-devices', 'send-account-recovery-email', 'provision-user'])[1 + j * 3 % 7] END AS q,
      CASE WHEN j IN (88, 89) THEN 'dead' WHEN j BETWEEN 141 AND 147 THEN 'retry' WHEN j IN (31, 113) THEN 'fail' WHEN j % 29 = 7 AND j < 141 THEN 'second' WHEN j = 68 THEN 'stuck' WHEN j = 148 THEN 'running' WHEN j > 148 THEN 'new' ELSE 'done' END AS fate
    FROM (SELECT j, CASE WHEN j <= 67 THEN timestamptz '2026-10-26 06:40:11.118204+00' + j * interval '4 hours 57 minutes 3.1171 seconds' WHEN j = 68 THEN timestamptz '2026-11-09 03:12:39.402117+00' WHEN j <= 87 THEN timestamptz '2026-11-09 05:01:40.201177+00' + (j - 69) * interval '3 hours 50 minutes 17.0911 seconds' WHEN j <= 89 THEN timestamptz '2026-11-12 08:10:22.910338+00' + (j - 88) * interval '11 minutes 3.2017 seconds'
        WHEN j <= 140 THEN timestamptz '2026-11-12 15:31:17.310204+00' + (j - 90) * interval '5 hours 33 minutes 41.8801 seconds' WHEN j <= 147 THEN timestamptz '2026-11-24 11:21:10.604411+00' + (j - 141) * interval '5 minutes 47.3107 seconds' WHEN j = 148 THEN timestamptz '2026-11-24 11:59:57.712044+00' ELSE timestamptz '2026-11-24 11:59:58.640117+00' + (j - 149) * interval '0.203117 seconds' END AS cre FROM generate_series(1, 154) j) x
  ) y
) z, LATERAL generate_series(0, n) a;

INSERT INTO queue_jobs (queue_job_id, status, created_at, started_at, started_by, completed_at, queue_name, payload, metadata, failed_at, failed_reason, attempt, next_attempt_id, scheduled_at, schedule_name)
SELECT pg_temp.ulid(created, 'a' || j || '-' || a),
  st::queue_job_status, created,
  CASE WHEN st NOT IN ('available', 'scheduled') THEN s END,
  CASE WHEN st IN ('available', 'scheduled') THEN NULL WHEN created < '2026-11-09 03:13:00+00' THEN '01a00c4e-7b12-6a1c-3f0e-5d2b8a9c7e01'::uuid ELSE '01a04f1b-22c9-41d7-9b66-0e7f3a5c1d02'::uuid END,
  CASE WHEN st = 'completed' THEN s + interval '0.118 seconds' + (j % 17) * interval '0.071203 seconds' END,
  q,
  CASE q WHEN 'send-email-authentication-code' THEN jsonb_build_object('user_email_authentication_id', '01K' || upper(substr(md5('ea' || j), 1, 23)), 'language', 'en') WHEN 'send-account-recovery-email' THEN jsonb_build_object('user_recovery_session_id', '01K' || upper(substr(md5('rs' || j), 1, 23))) WHEN 'provision-user' THEN jsonb_build_object('user_id', '01K' || upper(substr(md5('us' || j % 40), 1, 23)), 'set_display_name', 'User ' || j % 40) ELSE jsonb_build_object('user_id', '01K' || upper(substr(md5('us' || j % 40), 1, 23))) END,
  jsonb_build_object('trace_id', md5('t' || j), 'span_id', substr(md5('s' || j), 1, 16), 'trace_flags', 1),
  CASE WHEN st = 'failed' THEN failed END,
  CASE WHEN st = 'failed' THEN CASE fate WHEN 'fail' THEN E'Failed to send email\n\nCaused by:\n    0: permanent error (550): 5.1.1 mailbox unavailable' WHEN 'second' THEN E'error sending request for url (http://synapse:8008/)\n\nCaused by:\n    operation timed out' ELSE E'error sending request for url (http://synapse:8008/)\n\nCaused by:\n    0: client error (Connect)\n    1: tcp connect error: Connection refused (os error 111)' END END,
  a,
  CASE WHEN st = 'failed' AND a < n THEN pg_temp.ulid(next_created, 'a' || j || '-' || a + 1) END,
  CASE WHEN a > 0 THEN created + (1 << (a - 1)) * interval '5 seconds' END, NULL
FROM (
  SELECT *, begins + interval '0.309 seconds' AS s, CASE WHEN a < n THEN lead(created) OVER (PARTITION BY j ORDER BY a) ELSE begins + interval '0.731 seconds' END AS failed, lead(created) OVER (PARTITION BY j ORDER BY a) AS next_created,
    CASE WHEN a < n THEN 'failed' ELSE CASE fate WHEN 'dead' THEN 'failed' WHEN 'fail' THEN 'failed' WHEN 'retry' THEN 'scheduled' WHEN 'stuck' THEN 'running' WHEN 'running' THEN 'running' WHEN 'new' THEN 'available' ELSE 'completed' END END AS st
  FROM att
) b ORDER BY created, j, a;

-- recurring jobs: the next run is inserted when the previous one is due; an administrator has deleted those older than a day
INSERT INTO queue_jobs (queue_job_id, status, created_at, started_at, started_by, completed_at, queue_name, payload, metadata, scheduled_at, schedule_name)
SELECT pg_temp.ulid(at - every + interval '0.9 seconds', name || at), CASE WHEN at > timestamptz '2026-11-24 12:00:00+00' - interval '1 second' THEN 'scheduled' ELSE 'completed' END::queue_job_status, at - every + interval '0.902117 seconds',
  CASE WHEN at < timestamptz '2026-11-24 11:59:59+00' THEN at + interval '0.611204 seconds' END, CASE WHEN at < timestamptz '2026-11-24 11:59:59+00' THEN '01a04f1b-22c9-41d7-9b66-0e7f3a5c1d02'::uuid END, CASE WHEN at < timestamptz '2026-11-24 11:59:59+00' THEN at + interval '0.702931 seconds' END,
  name, 'null', '{}', at, name
FROM (VALUES ('cleanup-expired-tokens', interval '1 hour', timestamptz '2026-11-23 12:00:00+00'), ('expire-inactive-sessions', interval '15 minutes', timestamptz '2026-11-23 12:00:30+00'), ('prune-stale-policy-data', interval '1 day', timestamptz '2026-11-24 02:00:00+00')) v(name, every, first),
  LATERAL generate_series(first, timestamptz '2026-11-24 11:59:59+00' + every, every) at;
UPDATE queue_schedules s SET last_scheduled_at = j.scheduled_at, last_scheduled_job_id = j.queue_job_id FROM queue_jobs j WHERE j.schedule_name = s.schedule_name AND j.status = 'scheduled';
DROP TABLE att;
