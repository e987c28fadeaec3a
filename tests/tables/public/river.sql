-- dialect: postgres
CREATE TABLE river_migration (line text NOT NULL, version bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP, CONSTRAINT line_length CHECK (char_length(line) > 0 AND char_length(line) < 128), CONSTRAINT version_gte_1 CHECK (version >= 1), PRIMARY KEY (line, version));
INSERT INTO river_migration SELECT 'main', g, timestamptz '2026-10-01 06:00:00.4+00' + g * interval '12 milliseconds' FROM generate_series(1, 6) g;
CREATE UNLOGGED TABLE river_leader (elected_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, leader_id text NOT NULL, name text NOT NULL DEFAULT 'default' PRIMARY KEY, CONSTRAINT leader_id_length CHECK (char_length(leader_id) > 0 AND char_length(leader_id) < 128));
INSERT INTO river_leader VALUES ('2026-11-24 11:59:50+00', '2026-11-24 12:00:05+00', 'api-6b7d_2026_11_24T06_10_31_118', 'default');
CREATE TABLE river_queue (name text PRIMARY KEY NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), metadata jsonb NOT NULL DEFAULT '{}', paused_at timestamptz, updated_at timestamptz NOT NULL);
INSERT INTO river_queue VALUES ('default', '2026-10-01 06:00:02+00', '{}', NULL, '2026-11-24 11:59:41+00'), ('mail', '2026-10-01 06:00:02+00', '{}', NULL, '2026-11-24 11:59:41+00');

CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
CREATE TABLE river_job (
  id bigserial PRIMARY KEY,
  state river_job_state NOT NULL DEFAULT 'available',
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL,
  attempted_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  finalized_at timestamptz,
  scheduled_at timestamptz NOT NULL DEFAULT now(),
  priority smallint NOT NULL DEFAULT 1,
  args jsonb NOT NULL DEFAULT '{}',
  attempted_by text[],
  errors jsonb[],
  kind text NOT NULL,
  metadata jsonb NOT NULL DEFAULT '{}',
  queue text NOT NULL DEFAULT 'default',
  tags varchar(255)[] NOT NULL DEFAULT '{}',
  unique_key bytea,
  unique_states bit(8),
  CONSTRAINT finalized_or_finalized_at_null CHECK ((finalized_at IS NULL AND state NOT IN ('cancelled', 'completed', 'discarded')) OR (finalized_at IS NOT NULL AND state IN ('cancelled', 'completed', 'discarded'))),
  CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0),
  CONSTRAINT priority_in_range CHECK (priority >= 1 AND priority <= 4),
  CONSTRAINT queue_length CHECK (char_length(queue) > 0 AND char_length(queue) < 128),
  CONSTRAINT kind_length CHECK (char_length(kind) > 0 AND char_length(kind) < 128)
);
CREATE INDEX river_job_kind ON river_job (kind);
CREATE INDEX river_job_state_and_finalized_at_index ON river_job (state, finalized_at) WHERE finalized_at IS NOT NULL;
CREATE INDEX river_job_prioritized_fetching_index ON river_job (state, queue, priority, scheduled_at, id);
CREATE INDEX river_job_args_index ON river_job USING gin (args);

INSERT INTO river_job (state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, attempted_by, errors, kind, metadata, queue, tags)
SELECT st::river_job_state, att, mx,
  CASE WHEN att > 0 THEN CASE st WHEN 'running' THEN timestamptz '2026-11-24 11:59:52.3+00' WHEN 'retryable' THEN least(c + att * att * interval '7 minutes', timestamptz '2026-11-24 11:58:10+00') WHEN 'discarded' THEN c + interval '14 hours 41 minutes' ELSE c + wait END END,
  c,
  CASE st WHEN 'completed' THEN c + wait + (37 + i * 131 % 4000) * interval '1 millisecond' WHEN 'discarded' THEN c + interval '14 hours 41 minutes 3 seconds' WHEN 'cancelled' THEN c + interval '2 hours' END,
  CASE st WHEN 'scheduled' THEN timestamptz '2026-11-24 14:00+00' + (i % 13) * interval '5 hours' WHEN 'retryable' THEN timestamptz '2026-11-24 12:00:30+00' + (i % 8) * interval '17 minutes' WHEN 'discarded' THEN c + interval '14 hours 41 minutes' ELSE c END,
  CASE WHEN kd = 'send_email' THEN 2 ELSE 1 END,
  CASE kd WHEN 'send_email' THEN jsonb_build_object('template', 'receipt', 'user_id', 3000 + i) WHEN 'resize_image' THEN jsonb_build_object('object_key', 'uploads/' || md5('k' || i) || '.jpg', 'width', 640) ELSE jsonb_build_object('account_id', 40 + i % 21, 'full', i % 5 = 0) END,
  CASE WHEN att > 0 THEN (SELECT array_agg('worker-' || (i + g) % 3 || '_2026_11_01T08_02_14_55012') FROM generate_series(1, att) g) END,
  CASE WHEN st IN ('retryable', 'discarded') OR (st = 'completed' AND att > 1) THEN (SELECT array_agg(jsonb_build_object('at', least(c + g * g * interval '6 minutes', timestamptz '2026-11-24 11:58:10+00' - (att - g) * interval '4 minutes'), 'attempt', g, 'error', CASE (i + g) % 3 WHEN 0 THEN 'Post "https://mail.example/v3/send": dial tcp 10.4.0.7:443: i/o timeout' WHEN 1 THEN 'image: unknown format' ELSE 'ERROR: deadlock detected (SQLSTATE 40P01)' END, 'trace', '')) FROM generate_series(1, greatest(1, CASE WHEN st = 'completed' THEN att - 1 ELSE att END)) g) END,
  kd, CASE WHEN i % 25 = 0 THEN '{"snoozes": 1}' ELSE '{}' END::jsonb,
  CASE WHEN kd = 'send_email' THEN 'mail' ELSE 'default' END,
  CASE WHEN i % 7 = 0 THEN '{billing}' ELSE '{}' END::varchar(255)[]
FROM (
  SELECT *, CASE st WHEN 'completed' THEN CASE WHEN i % 14 = 3 THEN 2 ELSE 1 END WHEN 'discarded' THEN mx WHEN 'retryable' THEN 1 + i % 6 WHEN 'running' THEN 1 ELSE 0 END AS att,
    CASE WHEN st = 'completed' AND i % 14 = 3 THEN interval '19 seconds' ELSE (i % 5) * interval '210 milliseconds' END AS wait
  FROM (
    SELECT i, CASE i % 3 WHEN 0 THEN 'send_email' WHEN 1 THEN 'resize_image' ELSE 'sync_account' END AS kd, CASE WHEN i % 3 = 1 THEN 10 ELSE 8 END AS mx,
      CASE WHEN i <= 176 THEN timestamptz '2026-10-24 05:03:11.220714+00' + i * interval '4 hours 9 minutes' + (i * 53 % 71) * interval '97 seconds' ELSE timestamptz '2026-11-24 11:22:40.017733+00' + (i - 176) * interval '61 seconds' END AS c,
      CASE WHEN i IN (31, 77, 128, 149, 163) THEN 'scheduled' WHEN i IN (171, 173, 175) THEN 'retryable' WHEN i <= 168 AND i % 18 = 9 THEN 'discarded' WHEN i <= 168 AND i % 61 = 20 THEN 'cancelled' WHEN i <= 180 THEN 'completed' WHEN i <= 184 THEN 'retryable' WHEN i <= 187 THEN 'running' WHEN i <= 200 THEN 'available' ELSE 'scheduled' END AS st
    FROM generate_series(1, 208) i) a) b ORDER BY i;
