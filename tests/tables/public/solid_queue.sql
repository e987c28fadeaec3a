-- dialect: sqlite
CREATE TABLE "schema_migrations" ("version" varchar NOT NULL PRIMARY KEY);
INSERT INTO "schema_migrations" VALUES ('1'), ('20261001080000');
CREATE TABLE "ar_internal_metadata" ("key" varchar NOT NULL PRIMARY KEY, "value" varchar, "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
INSERT INTO "ar_internal_metadata" VALUES ('environment', 'production', '2026-10-01 08:00:00.112233', '2026-10-01 08:00:00.112236');

CREATE TABLE "solid_queue_jobs" (
  "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL,
  "queue_name" varchar NOT NULL,
  "class_name" varchar NOT NULL,
  "arguments" text,
  "priority" integer DEFAULT 0 NOT NULL,
  "active_job_id" varchar,
  "scheduled_at" datetime(6),
  "finished_at" datetime(6),
  "concurrency_key" varchar,
  "created_at" datetime(6) NOT NULL,
  "updated_at" datetime(6) NOT NULL
);
CREATE INDEX "index_solid_queue_jobs_on_active_job_id" ON "solid_queue_jobs" ("active_job_id");
CREATE INDEX "index_solid_queue_jobs_on_class_name" ON "solid_queue_jobs" ("class_name");
CREATE INDEX "index_solid_queue_jobs_on_finished_at" ON "solid_queue_jobs" ("finished_at");
CREATE INDEX "index_solid_queue_jobs_for_filtering" ON "solid_queue_jobs" ("queue_name", "finished_at");
CREATE INDEX "index_solid_queue_jobs_for_alerting" ON "solid_queue_jobs" ("scheduled_at", "finished_at");
CREATE TABLE "solid_queue_ready_executions" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "job_id" bigint NOT NULL, "queue_name" varchar NOT NULL, "priority" integer DEFAULT 0 NOT NULL, "created_at" datetime(6) NOT NULL);
CREATE UNIQUE INDEX "index_solid_queue_ready_executions_on_job_id" ON "solid_queue_ready_executions" ("job_id");
CREATE TABLE "solid_queue_claimed_executions" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "job_id" bigint NOT NULL, "process_id" bigint, "created_at" datetime(6) NOT NULL);
CREATE UNIQUE INDEX "index_solid_queue_claimed_executions_on_job_id" ON "solid_queue_claimed_executions" ("job_id");
CREATE TABLE "solid_queue_failed_executions" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "job_id" bigint NOT NULL, "error" text, "created_at" datetime(6) NOT NULL);
CREATE UNIQUE INDEX "index_solid_queue_failed_executions_on_job_id" ON "solid_queue_failed_executions" ("job_id");
CREATE TABLE "solid_queue_scheduled_executions" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "job_id" bigint NOT NULL, "queue_name" varchar NOT NULL, "priority" integer DEFAULT 0 NOT NULL, "scheduled_at" datetime(6) NOT NULL, "created_at" datetime(6) NOT NULL);
CREATE UNIQUE INDEX "index_solid_queue_scheduled_executions_on_job_id" ON "solid_queue_scheduled_executions" ("job_id");

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 190),
k AS (
  SELECT i,
    datetime(CASE WHEN i <= 165 THEN '2026-11-09 06:12:44' ELSE '2026-11-24 11:30:05' END, '+' || (CASE WHEN i <= 165 THEN i * 7750 + (i * 53) % 600 ELSE (i - 165) * 61 END) || ' seconds') AS c,
    CASE i % 4 WHEN 0 THEN 'Article::IndexJob' WHEN 1 THEN 'ActionMailer::MailDeliveryJob' WHEN 2 THEN 'Feed::FetchJob' ELSE 'ActiveStorage::AnalyzeJob' END AS cls,
    CASE WHEN i <= 165 AND i % 27 = 14 THEN 'failed' WHEN i <= 165 THEN 'done' WHEN i <= 167 THEN 'run' WHEN i <= 180 THEN 'ready' ELSE 'later' END AS st
  FROM n),
d AS (SELECT k.*, CASE st WHEN 'later' THEN datetime('2026-11-24 12:15:00', '+' || ((i - 180) * 47) || ' minutes') ELSE c END AS due FROM k)
INSERT INTO "solid_queue_jobs" (id, queue_name, class_name, arguments, priority, active_job_id, scheduled_at, finished_at, concurrency_key, created_at, updated_at)
SELECT i, CASE i % 4 WHEN 1 THEN 'mailers' ELSE 'default' END, cls,
  '{"job_class":"' || cls || '","job_id":"' || printf('%08x-5b1e-4c2a-9d3f-%012x', i * 7919, i * 104729) || '","provider_job_id":null,"queue_name":"default","priority":null,"arguments":[{"_aj_globalid":"gid://press/Article/' || (300 + i) || '"}],"executions":' || CASE WHEN i % 31 = 5 THEN 1 ELSE 0 END || ',"exception_executions":{},"locale":"en","timezone":"UTC","enqueued_at":"' || replace(c, ' ', 'T') || 'Z"}',
  CASE WHEN i % 20 = 0 THEN 10 ELSE 0 END,
  printf('%08x-5b1e-4c2a-9d3f-%012x', i * 7919, i * 104729),
  due || printf('.%06d', (i * 7717) % 1000000),
  CASE st WHEN 'done' THEN datetime(c, '+' || (1 + i % 9) || ' seconds') || printf('.%06d', (i * 3511) % 1000000) END,
  CASE WHEN i % 4 = 2 THEN 'Feed::FetchJob/Feed/' || (i % 6) END,
  c || printf('.%06d', (i * 7717) % 1000000),
  CASE st WHEN 'done' THEN datetime(c, '+' || (1 + i % 9) || ' seconds') || printf('.%06d', (i * 3511) % 1000000) ELSE c || printf('.%06d', (i * 7717) % 1000000) END
FROM d ORDER BY i;
INSERT INTO "solid_queue_failed_executions" (job_id, error, created_at) SELECT id, '{"exception_class":"' || CASE id % 2 WHEN 0 THEN 'Errno::ECONNREFUSED","message":"Connection refused - connect(2) for 10.0.8.3:443' ELSE 'NoMethodError","message":"undefined method ''body'' for nil' END || '","backtrace":["app/jobs/feed/fetch_job.rb:8:in ''perform''"]}', updated_at FROM "solid_queue_jobs" WHERE id <= 165 AND finished_at IS NULL ORDER BY id;
INSERT INTO "solid_queue_claimed_executions" (job_id, process_id, created_at) SELECT id, 4, '2026-11-24 11:59:58.120044' FROM "solid_queue_jobs" WHERE id BETWEEN 166 AND 167 ORDER BY id;
INSERT INTO "solid_queue_ready_executions" (job_id, queue_name, priority, created_at) SELECT id, queue_name, priority, created_at FROM "solid_queue_jobs" WHERE id BETWEEN 168 AND 180 ORDER BY id;
INSERT INTO "solid_queue_scheduled_executions" (job_id, queue_name, priority, scheduled_at, created_at) SELECT id, queue_name, priority, scheduled_at, created_at FROM "solid_queue_jobs" WHERE id > 180 ORDER BY id;
