-- dialect: postgres
CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, inserted_at timestamp(0) without time zone);
INSERT INTO schema_migrations SELECT 20260110093000 + g, timestamp '2026-10-01 09:30' FROM generate_series(1, 5) g;
CREATE TABLE users (
  id bigserial PRIMARY KEY,
  email varchar(255) NOT NULL,
  confirmed_at timestamp(0) without time zone,
  inserted_at timestamp(0) without time zone NOT NULL,
  updated_at timestamp(0) without time zone NOT NULL
);
CREATE UNIQUE INDEX users_email_index ON users (email);
INSERT INTO users (email, confirmed_at, inserted_at, updated_at)
SELECT 'u' || g || '@app.example', CASE WHEN g % 3 > 0 THEN timestamp '2026-10-02 10:00' END, timestamp '2026-10-02 09:00', timestamp '2026-10-02 10:00' FROM generate_series(1, 9) g;
CREATE UNLOGGED TABLE oban_peers (
  name text NOT NULL PRIMARY KEY,
  node text NOT NULL,
  started_at timestamp without time zone NOT NULL,
  expires_at timestamp without time zone NOT NULL
);
INSERT INTO oban_peers VALUES ('Oban', 'app@10.1.4.7', '2026-11-24 06:00:01.114', '2026-11-24 12:00:20.77');

CREATE TYPE oban_job_state AS ENUM ('available', 'scheduled', 'executing', 'retryable', 'completed', 'discarded', 'cancelled');
CREATE TABLE oban_jobs (
  id bigserial PRIMARY KEY,
  state oban_job_state NOT NULL DEFAULT 'available',
  queue text NOT NULL DEFAULT 'default',
  worker text NOT NULL,
  args jsonb NOT NULL DEFAULT '{}',
  errors jsonb[] NOT NULL DEFAULT ARRAY[]::jsonb[],
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL DEFAULT 20,
  inserted_at timestamp without time zone NOT NULL DEFAULT timezone('UTC', now()),
  scheduled_at timestamp without time zone NOT NULL DEFAULT timezone('UTC', now()),
  attempted_at timestamp without time zone,
  completed_at timestamp without time zone,
  attempted_by text[],
  discarded_at timestamp without time zone,
  priority integer NOT NULL DEFAULT 0,
  tags text[] DEFAULT ARRAY[]::text[],
  meta jsonb DEFAULT '{}',
  cancelled_at timestamp without time zone,
  CONSTRAINT attempt_range CHECK (attempt >= 0 AND attempt <= max_attempts),
  CONSTRAINT non_negative_priority CHECK (priority >= 0),
  CONSTRAINT positive_max_attempts CHECK (max_attempts > 0),
  CONSTRAINT queue_length CHECK (char_length(queue) > 0 AND char_length(queue) < 128),
  CONSTRAINT worker_length CHECK (char_length(worker) > 0 AND char_length(worker) < 128)
);
COMMENT ON TABLE oban_jobs IS '12';
CREATE INDEX oban_jobs_args_index ON oban_jobs USING gin (args);
CREATE INDEX oban_jobs_meta_index ON oban_jobs USING gin (meta);
CREATE INDEX oban_jobs_state_queue_priority_scheduled_at_id_index ON oban_jobs (state, queue, priority, scheduled_at, id);

INSERT INTO oban_jobs (state, queue, worker, args, errors, attempt, max_attempts, inserted_at, scheduled_at, attempted_at, completed_at, attempted_by, discarded_at, priority, tags, meta, cancelled_at)
SELECT k::oban_job_state,
  CASE i % 3 WHEN 0 THEN 'mailer' WHEN 1 THEN 'default' ELSE 'events' END,
  CASE i % 3 WHEN 0 THEN 'MyApp.Workers.DigestMailer' WHEN 1 THEN 'MyApp.Workers.SyncAccount' ELSE 'MyApp.Workers.PushEvent' END,
  jsonb_build_object('id', 500 + i, 'kind', CASE i % 3 WHEN 0 THEN 'digest' WHEN 1 THEN 'sync' ELSE 'push' END),
  CASE WHEN e > 0 THEN (SELECT array_agg(jsonb_build_object('at', c + n * interval '4 minutes', 'attempt', n, 'error', '** (Req.TransportError) ' || CASE i % 2 WHEN 0 THEN 'timeout' ELSE 'connection refused' END) ORDER BY n) FROM generate_series(1, e) n) ELSE ARRAY[]::jsonb[] END,
  a, m, c,
  CASE k WHEN 'scheduled' THEN timestamp '2026-11-24 12:30' + (i % 13) * interval '5 hours' WHEN 'retryable' THEN timestamp '2026-11-24 11:58:30' + (i % 5) * interval '17 minutes' ELSE c END,
  CASE WHEN a > 0 THEN least(c + a * interval '4 minutes', timestamp '2026-11-24 11:59:30') END,
  CASE k WHEN 'completed' THEN c + a * interval '4 minutes' + (i % 40) * interval '137 milliseconds' END,
  CASE WHEN a > 0 THEN ARRAY['app@10.1.4.7', md5('n' || i % 3)::uuid::text] END,
  CASE k WHEN 'discarded' THEN c + a * interval '4 minutes 1 second' END,
  i % 4, CASE WHEN i % 3 = 0 THEN ARRAY['mail'] ELSE ARRAY[]::text[] END,
  CASE WHEN i % 9 = 0 THEN '{"cron": true, "cron_expr": "0 7 * * *"}'::jsonb ELSE '{}'::jsonb END,
  CASE k WHEN 'cancelled' THEN c + interval '2 minutes' END
FROM (
  SELECT *, CASE k WHEN 'completed' THEN e + 1 WHEN 'discarded' THEN m WHEN 'retryable' THEN e WHEN 'executing' THEN e + 1 ELSE 0 END AS a
  FROM (
    SELECT *, CASE k WHEN 'discarded' THEN m WHEN 'retryable' THEN 1 + i % 3 WHEN 'completed' THEN CASE WHEN i % 13 = 0 THEN 1 ELSE 0 END WHEN 'executing' THEN CASE WHEN i % 4 = 0 THEN 1 ELSE 0 END ELSE 0 END AS e
    FROM (
      SELECT i, CASE i % 3 WHEN 0 THEN 5 WHEN 1 THEN 20 ELSE 10 END AS m,
        CASE WHEN i <= 150 THEN timestamp '2026-11-05 12:17:03.55121' + i * interval '3 hours' + (i * 37 % 60) * interval '53 seconds' ELSE timestamp '2026-11-24 11:05:03.55121' + (i - 150) * interval '105 seconds' END AS c,
        CASE WHEN i <= 150 AND i % 23 = 0 THEN 'discarded' WHEN i <= 150 AND i % 41 = 0 THEN 'cancelled' WHEN i <= 150 THEN 'completed'
             WHEN i <= 154 THEN 'executing' WHEN i <= 160 THEN 'retryable' WHEN i <= 170 THEN 'available' ELSE 'scheduled' END AS k
      FROM generate_series(1, 180) i) x) y) z ORDER BY i;
