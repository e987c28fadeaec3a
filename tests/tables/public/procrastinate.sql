-- dialect: postgres
CREATE TABLE accounts_user (id serial PRIMARY KEY, email varchar(254) NOT NULL UNIQUE, is_active boolean NOT NULL DEFAULT true, date_joined timestamptz NOT NULL);
INSERT INTO accounts_user (email, date_joined) SELECT 'member' || g || '@club.example', timestamptz '2026-10-01 07:00+00' + g * interval '2 days' FROM generate_series(1, 9) g;

CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing', 'succeeded', 'failed', 'cancelled', 'aborting', 'aborted');
CREATE TYPE procrastinate_job_event_type AS ENUM ('deferred', 'started', 'deferred_for_retry', 'failed', 'succeeded', 'cancelled', 'abort_requested', 'aborted', 'scheduled');
CREATE TABLE procrastinate_jobs (
  id bigserial PRIMARY KEY,
  queue_name character varying(128) NOT NULL,
  task_name character varying(128) NOT NULL,
  priority integer DEFAULT 0 NOT NULL,
  lock text,
  queueing_lock text,
  args jsonb DEFAULT '{}' NOT NULL,
  status procrastinate_job_status DEFAULT 'todo'::procrastinate_job_status NOT NULL,
  scheduled_at timestamp with time zone,
  attempts integer DEFAULT 0 NOT NULL,
  abort_requested boolean DEFAULT false NOT NULL,
  worker_id character varying(36),
  CONSTRAINT check_not_todo_abort_requested CHECK (NOT (status = 'todo' AND abort_requested = true))
);
CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON procrastinate_jobs (queueing_lock) WHERE status = 'todo';
CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON procrastinate_jobs (lock) WHERE status = 'doing';
CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON procrastinate_jobs (queue_name);
CREATE INDEX procrastinate_jobs_priority_idx_v1 ON procrastinate_jobs (priority DESC, id ASC) WHERE status = 'todo';

INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args, status, scheduled_at, attempts, abort_requested, worker_id)
SELECT CASE i % 3 WHEN 0 THEN 'default' WHEN 1 THEN 'mail' ELSE 'reports' END,
  CASE i % 3 WHEN 0 THEN 'club.tasks.sync_member' WHEN 1 THEN 'club.tasks.send_invitation' ELSE 'club.tasks.build_statement' END,
  CASE WHEN i % 14 = 0 THEN 5 ELSE 0 END,
  CASE WHEN i % 3 = 0 THEN 'member-' || i % 9 + 1 || CASE WHEN k = 'doing' THEN '-' || i ELSE '' END END,
  CASE WHEN i % 3 = 2 THEN 'statement-' || i END,
  jsonb_build_object('member_id', 1 + i % 9) || CASE i % 3 WHEN 1 THEN jsonb_build_object('template', 'invitation_v' || 1 + i % 4) WHEN 2 THEN jsonb_build_object('month', '2026-1' || i % 2) ELSE '{}' END,
  CASE k WHEN 'done' THEN 'succeeded' WHEN 'dead' THEN 'failed' WHEN 'doing' THEN 'doing' WHEN 'gone' THEN 'cancelled' WHEN 'stop' THEN 'aborted' ELSE 'todo' END::procrastinate_job_status,
  CASE k WHEN 'retry' THEN timestamptz '2026-11-24 11:55+00' + (i % 8) * interval '6 minutes'
         WHEN 'later' THEN timestamptz '2026-11-24 15:00+00' + (i % 13) * interval '9 hours'
         WHEN 'dead' THEN c + interval '64 seconds'
         WHEN 'done' THEN CASE WHEN i % 17 = 4 THEN c + interval '16 seconds' WHEN i % 3 = 2 THEN c + interval '1 hour' END END,
  CASE k WHEN 'done' THEN CASE WHEN i % 17 = 4 THEN 2 ELSE 1 END WHEN 'dead' THEN 5 WHEN 'retry' THEN 1 + i % 3 WHEN 'stop' THEN 1 ELSE 0 END,
  false,
  CASE WHEN k = 'doing' THEN '3' END
FROM (
  SELECT i, timestamptz '2026-10-04 06:11:08+00' + i * interval '6 hours 50 minutes' AS c,
    CASE WHEN i <= 176 THEN CASE WHEN i % 21 = 9 THEN 'dead' WHEN i % 43 = 11 THEN 'gone' WHEN i = 98 THEN 'stop' ELSE 'done' END
         WHEN i <= 179 THEN 'doing' WHEN i <= 187 THEN 'retry' WHEN i <= 199 THEN 'new' ELSE 'later' END AS k
  FROM generate_series(1, 212) i
) s ORDER BY i;

CREATE TABLE procrastinate_periodic_defers (
  id bigserial PRIMARY KEY,
  task_name character varying(128) NOT NULL,
  defer_timestamp bigint,
  job_id bigint REFERENCES procrastinate_jobs (id),
  periodic_id character varying(128) NOT NULL DEFAULT '',
  CONSTRAINT procrastinate_periodic_defers_unique UNIQUE (task_name, periodic_id, defer_timestamp)
);
INSERT INTO procrastinate_periodic_defers (task_name, defer_timestamp, job_id) VALUES ('club.tasks.build_statement', 1795514400, 176), ('club.tasks.sync_member', 1795518000, 174);
CREATE TABLE procrastinate_events (
  id bigserial PRIMARY KEY,
  job_id bigint NOT NULL REFERENCES procrastinate_jobs ON DELETE CASCADE,
  type procrastinate_job_event_type,
  at timestamp with time zone DEFAULT now()
);
CREATE INDEX procrastinate_events_job_id_fkey_v1 ON procrastinate_events (job_id);
INSERT INTO procrastinate_events (job_id, type, at)
SELECT j.id, v.t, timestamptz '2026-11-20 06:00+00' + (j.id - 160) * interval '3 hours' + v.o * interval '2 seconds'
FROM procrastinate_jobs j, (VALUES ('deferred'::procrastinate_job_event_type, 0), ('started', 1), ('succeeded', 2)) v (t, o)
WHERE j.id BETWEEN 161 AND 172 AND j.status = 'succeeded' ORDER BY j.id, v.o;
CREATE TABLE procrastinate_workers (id bigserial PRIMARY KEY, worker_id character varying(36) NOT NULL UNIQUE, last_heartbeat timestamptz NOT NULL DEFAULT now());
INSERT INTO procrastinate_workers (worker_id, last_heartbeat) VALUES ('3', '2026-11-24 11:59:54+00');
