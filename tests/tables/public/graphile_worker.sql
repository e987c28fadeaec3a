-- dialect: postgres
CREATE TABLE app_users (id serial PRIMARY KEY, username text NOT NULL UNIQUE, email text NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO app_users (username, email, created_at) SELECT 'u' || g, 'u' || g || '@site.example', timestamptz '2026-10-01 10:00+00' + g * interval '1 day' FROM generate_series(1, 6) g;
CREATE SCHEMA graphile_worker;
CREATE TABLE graphile_worker.migrations (id integer PRIMARY KEY, ts timestamptz NOT NULL DEFAULT now(), breaking boolean NOT NULL DEFAULT false);
INSERT INTO graphile_worker.migrations SELECT g, '2026-10-01 10:00+00', g IN (1, 3, 11, 13, 16) FROM generate_series(1, 18) g;
CREATE TABLE graphile_worker._private_job_queues (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_name text NOT NULL UNIQUE CHECK (length(queue_name) <= 128),
  locked_at timestamptz,
  locked_by text,
  is_available boolean GENERATED ALWAYS AS (locked_at IS NULL) STORED NOT NULL
);
INSERT INTO graphile_worker._private_job_queues (queue_name) VALUES ('exports'), ('billing');
CREATE TABLE graphile_worker._private_tasks (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identifier text NOT NULL UNIQUE CHECK (length(identifier) <= 128)
);
INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('send_email'), ('export_csv'), ('charge_card'), ('refresh_feed');

CREATE TABLE graphile_worker._private_jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_queue_id integer,
  task_id integer NOT NULL,
  payload json NOT NULL DEFAULT '{}'::json,
  priority smallint NOT NULL DEFAULT 0,
  run_at timestamptz NOT NULL DEFAULT now(),
  attempts smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL DEFAULT 25 CONSTRAINT jobs_max_attempts_check CHECK (max_attempts >= 1),
  last_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  key text UNIQUE CONSTRAINT jobs_key_check CHECK (length(key) > 0 AND length(key) <= 512),
  locked_at timestamptz,
  locked_by text,
  revision integer NOT NULL DEFAULT 0,
  flags jsonb,
  is_available boolean GENERATED ALWAYS AS (locked_at IS NULL AND attempts < max_attempts) STORED NOT NULL
);
CREATE INDEX jobs_main_index ON graphile_worker._private_jobs (priority, run_at) INCLUDE (id, task_id, job_queue_id) WHERE is_available = true;
CREATE INDEX jobs_no_queue_index ON graphile_worker._private_jobs (priority, run_at) INCLUDE (id, task_id) WHERE is_available = true AND job_queue_id IS NULL;

INSERT INTO graphile_worker._private_jobs (id, job_queue_id, task_id, payload, priority, run_at, attempts, max_attempts, last_error, created_at, updated_at, key, locked_at, locked_by, revision, flags)
OVERRIDING SYSTEM VALUE
SELECT 48211 + i * 37 + i % 5,
  CASE i % 6 WHEN 0 THEN 1 WHEN 3 THEN 2 END,
  1 + i % 4,
  json_build_object('userId', 1 + i % 6, 'template', 'tpl_' || i % 7),
  CASE WHEN i % 10 = 0 THEN 10 ELSE 0 END,
  CASE k WHEN 'dead' THEN c + interval '2 days' WHEN 'retry' THEN timestamptz '2026-11-24 11:50+00' + (i % 12) * interval '23 minutes' WHEN 'later' THEN timestamptz '2026-11-24 14:00+00' + (i % 17) * interval '7 hours' ELSE c END,
  CASE k WHEN 'dead' THEN m WHEN 'retry' THEN 1 + i % (m - 1) WHEN 'run' THEN 1 + i % 2 ELSE 0 END,
  m,
  CASE WHEN k IN ('dead', 'retry') OR (k = 'run' AND i % 2 = 1) THEN CASE i % 3 WHEN 0 THEN 'connect ECONNREFUSED 10.0.3.9:587' WHEN 1 THEN 'Your card was declined.' ELSE 'TypeError: Cannot read properties of undefined (reading ''id'')' END END,
  c,
  CASE k WHEN 'dead' THEN c + interval '2 days' WHEN 'retry' THEN timestamptz '2026-11-24 11:40+00' WHEN 'run' THEN timestamptz '2026-11-24 11:59:20+00' ELSE c END,
  CASE WHEN i % 8 = 0 THEN 'refresh:' || i END,
  CASE k WHEN 'run' THEN timestamptz '2026-11-24 11:59:20+00' END,
  CASE k WHEN 'run' THEN 'worker-9f31c2' END,
  CASE WHEN i % 8 = 0 THEN 2 ELSE 0 END, NULL
FROM (
  SELECT i, CASE WHEN i % 4 = 2 THEN 5 ELSE 25 END::int AS m,
    CASE WHEN i <= 14 THEN timestamptz '2026-10-06 05:13:01+00' + i * interval '57 hours' ELSE timestamptz '2026-11-24 09:00:07+00' + i * interval '140 seconds' END AS c,
    CASE WHEN i <= 14 THEN 'dead' WHEN i <= 30 THEN 'retry' WHEN i <= 33 THEN 'run' WHEN i <= 58 THEN 'new' ELSE 'later' END AS k
  FROM generate_series(1, 76) i
) s ORDER BY i;
CREATE VIEW graphile_worker.jobs AS
SELECT j.id, q.queue_name, t.identifier AS task_identifier, j.priority, j.run_at, j.attempts, j.max_attempts, j.last_error, j.created_at, j.updated_at, j.key, j.locked_at, j.locked_by, j.revision, j.flags
FROM graphile_worker._private_jobs j JOIN graphile_worker._private_tasks t ON t.id = j.task_id LEFT JOIN graphile_worker._private_job_queues q ON q.id = j.job_queue_id;
