-- dialect: sqlite
CREATE TABLE "queue_phinxlog" ("version" BIGINT NOT NULL PRIMARY KEY, "migration_name" VARCHAR(100) NULL, "start_time" TIMESTAMP NULL, "end_time" TIMESTAMP NULL, "breakpoint" BOOLEAN NOT NULL DEFAULT 0);
INSERT INTO "queue_phinxlog" VALUES (20240307154751, 'MigrationQueueInitV8', '2026-10-01 07:00:00', '2026-10-01 07:00:00', 0);
CREATE TABLE "queue_processes" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "pid" VARCHAR(40) NOT NULL, "created" DATETIME NOT NULL, "modified" DATETIME NOT NULL, "terminate" BOOLEAN NOT NULL DEFAULT 0, "server" VARCHAR(90) NULL DEFAULT NULL, "workerkey" VARCHAR(45) NOT NULL);
CREATE UNIQUE INDEX "queue_processes_workerkey" ON "queue_processes" ("workerkey");
CREATE UNIQUE INDEX "queue_processes_pid" ON "queue_processes" ("pid", "server");
INSERT INTO "queue_processes" ("pid", "created", "modified", "server", "workerkey") VALUES ('40211', '2026-11-24 11:00:01', '2026-11-24 11:59:58', 'web1', '9b1fd07c2c1e7a4dbb0e8c8d6a0d7a1f1f0c9a11');
CREATE TABLE "articles" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "title" VARCHAR(255) NOT NULL, "body" TEXT, "published" BOOLEAN DEFAULT 0, "created" DATETIME, "modified" DATETIME);
INSERT INTO "articles" ("title", "body", "published", "created", "modified") VALUES ('First', 'Text', 1, '2026-10-02 08:00:00', '2026-10-02 08:00:00'), ('Second', 'Text', 0, '2026-10-03 08:00:00', '2026-10-03 08:00:00');

CREATE TABLE "queued_jobs" (
  "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  "job_task" VARCHAR(90) NOT NULL,
  "data" TEXT NULL DEFAULT NULL,
  "job_group" VARCHAR(190) NULL DEFAULT NULL,
  "reference" VARCHAR(190) NULL DEFAULT NULL,
  "created" DATETIME NOT NULL,
  "notbefore" DATETIME NULL DEFAULT NULL,
  "fetched" DATETIME NULL DEFAULT NULL,
  "completed" DATETIME NULL DEFAULT NULL,
  "progress" FLOAT NULL DEFAULT NULL,
  "attempts" TINYINTEGER NULL DEFAULT 0,
  "failure_message" TEXT NULL DEFAULT NULL,
  "workerkey" VARCHAR(45) NULL DEFAULT NULL,
  "status" VARCHAR(190) NULL DEFAULT NULL,
  "priority" INTEGER NOT NULL DEFAULT 5
);
CREATE INDEX "queued_jobs_completed" ON "queued_jobs" ("completed");
CREATE INDEX "queued_jobs_job_task" ON "queued_jobs" ("job_task");

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 176),
k AS (SELECT i, datetime(CASE WHEN i <= 148 THEN '2026-10-20 07:30:00' ELSE '2026-11-24 11:47:20' END, '+' || (CASE WHEN i <= 148 THEN i * 20300 + (i * 61) % 1801 ELSE (i - 148) * 25 END) || ' seconds') AS c,
  CASE i % 3 WHEN 0 THEN 'Queue.Email' WHEN 1 THEN 'ImportProducts' ELSE 'Queue.Execute' END AS t,
  CASE WHEN i <= 148 THEN CASE WHEN i % 20 = 13 THEN 'dead' WHEN i IN (141, 145) THEN 'retry' ELSE 'done' END WHEN i <= 153 THEN 'retry' WHEN i = 154 THEN 'run' WHEN i <= 168 THEN 'new' ELSE 'later' END AS st FROM n)
INSERT INTO "queued_jobs" (job_task, data, job_group, reference, created, notbefore, fetched, completed, progress, attempts, failure_message, workerkey, status, priority)
SELECT t, CASE t WHEN 'Queue.Email' THEN '{"settings":{"to":"user' || i || '@site.example","subject":"Your order"},"content":"Hello"}' WHEN 'ImportProducts' THEN '{"file":"products_' || i || '.csv"}' ELSE '{"command":"bin/cake cache clear","escape":true}' END,
  CASE t WHEN 'ImportProducts' THEN 'import' END, CASE t WHEN 'ImportProducts' THEN 'products-' || i END, c,
  CASE st WHEN 'later' THEN datetime('2026-11-24 14:00:00', '+' || ((i - 168) * 333) || ' minutes') ELSE c END,
  CASE st WHEN 'done' THEN datetime(c, '+' || (3 + i % 50) || ' seconds') WHEN 'dead' THEN datetime(c, '+' || (14 + i % 9) || ' minutes') WHEN 'retry' THEN datetime(c, '+' || (4 + i % 50) || ' seconds') WHEN 'run' THEN '2026-11-24 11:59:41' END,
  CASE st WHEN 'done' THEN datetime(c, '+' || (5 + i % 50 + (i * 7) % 40) || ' seconds') END,
  CASE WHEN t = 'ImportProducts' THEN CASE st WHEN 'done' THEN 1 WHEN 'run' THEN 0.42 WHEN 'dead' THEN 0.1 * (i % 9) END END,
  CASE st WHEN 'done' THEN CASE WHEN i % 25 = 4 THEN 2 ELSE 1 END WHEN 'dead' THEN 2 WHEN 'retry' THEN 1 WHEN 'run' THEN 1 ELSE 0 END,
  CASE WHEN st IN ('dead', 'retry') OR (st = 'done' AND i % 25 = 4) THEN CASE (i / 20 + i) % 2 WHEN 0 THEN 'Queue\Model\QueueException: Could not send email' ELSE 'PDOException: SQLSTATE[HY000]: General error: 5 database is locked' END || char(10) || '#0 /srv/app/vendor/dereuromark/cakephp-queue/src/Queue/Processor.php(298)' END,
  CASE WHEN st IN ('done', 'dead', 'run', 'retry') THEN CASE st WHEN 'run' THEN '9b1fd07c2c1e7a4dbb0e8c8d6a0d7a1f1f0c9a11' ELSE printf('%08x%08x%08x%08x%08x', (i * 2654435761) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296, (i * 3812015801 + 99) % 4294967296) END END,
  CASE WHEN t = 'ImportProducts' AND st = 'done' THEN CASE i % 2 WHEN 0 THEN 'Imported ' || (40 + i) || ' rows' ELSE 'Nothing to do' END WHEN t = 'ImportProducts' AND st = 'run' THEN 'Row 318' END,
  CASE t WHEN 'Queue.Email' THEN 3 ELSE 5 END
FROM k ORDER BY i;
