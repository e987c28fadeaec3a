-- dialect: postgres
CREATE TABLE __diesel_schema_migrations (version varchar(50) PRIMARY KEY NOT NULL, run_on timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO __diesel_schema_migrations VALUES ('00000000000000', '2026-10-01 05:00:00.11'), ('20220818102017', '2026-10-01 05:00:00.13');
CREATE TABLE feeds (id serial PRIMARY KEY, url text NOT NULL UNIQUE, title text, last_fetched_at timestamptz, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO feeds (url, title, last_fetched_at, created_at) SELECT 'https://blog' || g || '.example/feed.xml', 'Blog ' || g, timestamptz '2026-11-24 11:00+00' + g * interval '3 minutes', timestamptz '2026-10-01 09:00+00' + g * interval '1 day' FROM generate_series(1, 9) g;

CREATE TYPE fang_task_state AS ENUM ('new', 'in_progress', 'failed', 'finished', 'retried');
CREATE TABLE fang_tasks (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  metadata jsonb NOT NULL,
  error_message text,
  state fang_task_state DEFAULT 'new' NOT NULL,
  task_type varchar DEFAULT 'common' NOT NULL,
  uniq_hash char(64),
  retries integer DEFAULT 0 NOT NULL,
  scheduled_at timestamp with time zone NOT NULL DEFAULT now(),
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone NOT NULL DEFAULT now()
);
CREATE INDEX fang_tasks_state_index ON fang_tasks (state);
CREATE INDEX fang_tasks_type_index ON fang_tasks (task_type);
CREATE INDEX fang_tasks_scheduled_at_index ON fang_tasks (scheduled_at);
CREATE INDEX fang_tasks_uniq_hash ON fang_tasks (uniq_hash);

INSERT INTO fang_tasks
SELECT md5('fang-' || i)::uuid,
  CASE i % 3 WHEN 0 THEN jsonb_build_object('type', 'SyncFeedTask', 'feed_id', 1 + i % 9) WHEN 1 THEN jsonb_build_object('type', 'DeliverItemTask', 'chat_id', 70000 + i * 7, 'item_id', i) ELSE jsonb_build_object('type', 'CleanTask', 'older_than_days', 30) END,
  CASE WHEN st IN ('failed', 'retried') OR (st = 'finished' AND r > 0) THEN CASE i % 3 WHEN 0 THEN 'HttpError("error sending request for url (https://blog' || 1 + i % 9 || '.example/feed.xml): operation timed out")' WHEN 1 THEN 'TelegramError("Too Many Requests: retry after 21")' ELSE 'DbError("connection closed")' END END,
  st::fang_task_state,
  CASE i % 3 WHEN 0 THEN 'sync' WHEN 1 THEN 'deliver' ELSE 'common' END,
  CASE WHEN i % 3 = 0 THEN encode(sha256(convert_to('feed' || i % 9 || st, 'UTF8')), 'hex') END,
  r,
  CASE st WHEN 'retried' THEN timestamptz '2026-11-24 11:58+00' + (i % 6) * interval '4 minutes' WHEN 'new' THEN CASE WHEN i > 182 THEN timestamptz '2026-11-24 12:10+00' + (i - 182) * interval '35 minutes' ELSE c END ELSE CASE WHEN r > 0 THEN c + r * interval '61 seconds' ELSE c END END,
  c,
  CASE st WHEN 'new' THEN c WHEN 'retried' THEN least(c + r * interval '61 seconds', timestamptz '2026-11-24 11:59:10+00') WHEN 'in_progress' THEN timestamptz '2026-11-24 11:59:55.702+00' ELSE c + (r * 61 + 1 + i % 7) * interval '1 second' END
FROM (SELECT *, CASE st WHEN 'failed' THEN 5 WHEN 'retried' THEN 1 + i % 4 WHEN 'finished' THEN CASE WHEN i % 15 = 8 THEN 1 ELSE 0 END ELSE 0 END AS r
  FROM (SELECT i,
    CASE WHEN i <= 158 THEN timestamptz '2026-11-01 04:44:51.083+00' + i * interval '3 hours 29 minutes' + (i * 41 % 37) * interval '83 seconds' ELSE timestamptz '2026-11-24 11:10:37.55+00' + (i - 158) * interval '92 seconds' END AS c,
    CASE WHEN i IN (151, 155) THEN 'retried' WHEN i <= 158 THEN CASE WHEN i % 17 = 12 THEN 'failed' ELSE 'finished' END WHEN i <= 165 THEN 'retried' WHEN i <= 168 THEN 'in_progress' ELSE 'new' END AS st
    FROM generate_series(1, 190) i) a) b ORDER BY i;
