-- dialect: sqlite
CREATE TABLE "Member" ("ID" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, "ClassName" VARCHAR(255) DEFAULT 'SilverStripe\Security\Member', "LastEdited" DATETIME NULL, "Created" DATETIME NULL, "FirstName" VARCHAR(255) NULL, "Surname" VARCHAR(255) NULL, "Email" VARCHAR(254) NULL);
INSERT INTO "Member" VALUES (1, 'SilverStripe\Security\Member', '2026-11-20 09:11:40', '2026-03-02 10:00:00', 'Default Admin', NULL, 'admin'), (2, 'SilverStripe\Security\Member', '2026-11-23 15:02:07', '2026-03-04 08:30:12', 'Ines', 'Marlow', 'ines@council.example'), (3, 'SilverStripe\Security\Member', '2026-11-24 08:01:55', '2026-05-11 13:20:44', 'Tom', 'Okafor', 'tom@council.example');

CREATE TABLE "QueuedJobDescriptor" (
  "ID" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "ClassName" VARCHAR(255) CHECK ("ClassName" IN ('Symbiote\QueuedJobs\DataObjects\QueuedJobDescriptor')) DEFAULT 'Symbiote\QueuedJobs\DataObjects\QueuedJobDescriptor',
  "LastEdited" DATETIME NULL,
  "Created" DATETIME NULL,
  "JobTitle" VARCHAR(255) NULL,
  "Signature" VARCHAR(64) NULL,
  "Implementation" VARCHAR(255) NULL,
  "StartAfter" DATETIME NULL,
  "JobStarted" DATETIME NULL,
  "JobRestarted" DATETIME NULL,
  "JobFinished" DATETIME NULL,
  "TotalSteps" INTEGER NOT NULL DEFAULT 0,
  "StepsProcessed" INTEGER NOT NULL DEFAULT 0,
  "LastProcessedCount" INTEGER NOT NULL DEFAULT -1,
  "ResumeCounts" INTEGER NOT NULL DEFAULT 0,
  "SavedJobData" TEXT NULL,
  "SavedJobMessages" TEXT NULL,
  "JobStatus" VARCHAR(16) NULL,
  "JobType" VARCHAR(16) NULL,
  "Worker" VARCHAR(32) NULL,
  "Expiry" DATETIME NULL,
  "NotifiedBroken" BOOL NOT NULL DEFAULT 0,
  "WorkerCount" INTEGER NOT NULL DEFAULT 0,
  "RunAsID" INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX "QueuedJobDescriptor_ClassName" ON "QueuedJobDescriptor" ("ClassName");
CREATE INDEX "QueuedJobDescriptor_JobStatus" ON "QueuedJobDescriptor" ("JobStatus");
CREATE INDEX "QueuedJobDescriptor_StartAfter" ON "QueuedJobDescriptor" ("StartAfter");
CREATE INDEX "QueuedJobDescriptor_Signature" ON "QueuedJobDescriptor" ("Signature");
CREATE INDEX "QueuedJobDescriptor_RunAsID" ON "QueuedJobDescriptor" ("RunAsID");

-- The queue is run by cron every minute. Jobs older than 30 days are cleaned up, so the ids do not begin with 1.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 214),
a AS (SELECT i, CASE WHEN i <= 198 THEN strftime('%s', '2026-10-25 14:03:22') + i * 12900 + (i * 83) % 1900 WHEN i <= 204 THEN strftime('%s', '2026-11-24 11:45:08') + CASE i WHEN 199 THEN 0 WHEN 200 THEN 72 WHEN 201 THEN 249 WHEN 202 THEN 292 WHEN 203 THEN 425 ELSE 798 END ELSE strftime('%s', '2026-11-24 11:58:51') + (i - 205) * 7 END AS c,
  CASE WHEN i <= 198 AND i % 11 = 4 THEN 'publish' WHEN i % 4 = 1 THEN 'static' WHEN i = 202 OR i % 29 = 7 THEN 'build' ELSE 'index' END AS j FROM n),
b AS (SELECT i, c, j, CASE WHEN i IN (170, 181, 192) THEN 'later' WHEN i IN (59, 136) THEN 'Cancelled' WHEN i IN (23, 64, 77, 110, 151, 164, 187, 196) THEN 'Broken' WHEN i IN (90, 175) THEN 'Paused'
  WHEN i IN (199, 201, 203) THEN 'Waiting' WHEN i = 202 THEN 'Running' WHEN i = 204 THEN 'Initialising' WHEN i > 204 THEN 'New' ELSE 'Complete' END AS st FROM a),
d AS (SELECT i, c, j, CASE st WHEN 'later' THEN 'New' ELSE st END AS st,
  CASE WHEN st = 'later' THEN strftime('%s', '2026-11-25 06:00:00') + (i % 7) * 46800 WHEN j = 'publish' THEN c + 7200 + (i % 4) * 3600 - c % 3600 END AS sa,
  CASE WHEN st IN ('New', 'later', 'Cancelled') THEN 0 WHEN j = 'publish' THEN 1 WHEN j = 'build' THEN 1 WHEN j = 'static' THEN 3 + i % 18 ELSE 2 + i % 6 END AS tot FROM b),
e AS (SELECT i, c, j, st, sa, tot,
  CASE WHEN st IN ('New', 'Cancelled') THEN NULL WHEN st = 'Broken' AND i IN (77, 187) THEN NULL WHEN st = 'Initialising' THEN NULL WHEN sa IS NOT NULL THEN (sa / 60 + 1) * 60 + 2 ELSE (c / 60 + 1) * 60 + 2 + i % 5 END AS s,
  CASE WHEN st = 'Paused' THEN 3 WHEN i = 199 THEN 2 WHEN i = 203 THEN 1 WHEN i IN (41, 121) THEN 1 ELSE 0 END AS res FROM d),
f AS (SELECT *, s + CASE WHEN st = 'Waiting' AND res > 0 THEN (res - 1) * 390 WHEN res > 0 THEN res * 390 WHEN i = 201 THEN 480 ELSE 0 END AS rs FROM e),
g AS (SELECT *, CASE st WHEN 'Complete' THEN rs + tot * 2 + i % 3 WHEN 'Broken' THEN coalesce(rs + 3 + i % 9, (c / 60 + 1) * 60 + 3) WHEN 'Paused' THEN rs + 421 WHEN 'Cancelled' THEN c + 610
  WHEN 'Waiting' THEN CASE i WHEN 199 THEN strftime('%s', '2026-11-24 11:58:02') WHEN 201 THEN strftime('%s', '2026-11-24 11:58:47') ELSE strftime('%s', '2026-11-24 12:00:00') - 58 END WHEN 'Running' THEN strftime('%s', '2026-11-24 11:59:54') WHEN 'Initialising' THEN strftime('%s', '2026-11-24 11:59:58') ELSE c END AS le FROM f)
INSERT INTO "QueuedJobDescriptor" ("ID", "LastEdited", "Created", "JobTitle", "Signature", "Implementation", "StartAfter", "JobStarted", "JobRestarted", "JobFinished", "TotalSteps", "StepsProcessed", "LastProcessedCount", "ResumeCounts", "SavedJobData", "SavedJobMessages", "JobStatus", "JobType", "Worker", "Expiry", "NotifiedBroken", "WorkerCount", "RunAsID")
SELECT 5120 + i, datetime(le, 'unixepoch'), datetime(c, 'unixepoch'),
  CASE j WHEN 'publish' THEN 'Scheduled publishing of page ' || (40 + i % 60) WHEN 'static' THEN 'Generate a set of static pages from URLs' WHEN 'build' THEN 'Run task: SiteReportTask' ELSE 'Update Search Index' END,
  printf('%08x%08x%08x%08x', i * 2654435761 % 4294967296, i * 40503977 % 4294967296, i * 97561733 % 4294967296, (i + 7) * 611953 % 4294967296),
  CASE j WHEN 'publish' THEN 'Symbiote\AdvancedWorkflow\Jobs\WorkflowPublishTargetJob' WHEN 'static' THEN 'SilverStripe\StaticPublishQueue\Job\GenerateStaticCacheJob' WHEN 'build' THEN 'Symbiote\QueuedJobs\Jobs\RunBuildTaskJob' ELSE 'SilverStripe\FullTextSearch\Search\Processors\SearchUpdateQueuedJobProcessor' END,
  datetime(sa, 'unixepoch'), datetime(s, 'unixepoch'),
  CASE WHEN s IS NOT NULL AND rs > s THEN datetime(min(rs, le), 'unixepoch') END,
  CASE WHEN st = 'Complete' THEN datetime(le, 'unixepoch') END,
  tot,
  CASE st WHEN 'Complete' THEN tot WHEN 'Waiting' THEN 1 + i % 2 WHEN 'Paused' THEN 1 WHEN 'Broken' THEN CASE WHEN s IS NULL THEN 0 ELSE min(tot - 1, i % 3) END ELSE 0 END,
  CASE WHEN res > 0 OR i = 201 THEN CASE WHEN st = 'Complete' THEN 1 ELSE 1 + i % 2 * (st = 'Waiting') END WHEN st = 'Running' THEN 0 WHEN st = 'Complete' AND tot > 15 THEN 9 ELSE -1 END,
  res,
  CASE j WHEN 'publish' THEN 'O:8:"stdClass":1:{s:12:"publishID";i:' || (40 + i % 60) || ';}' WHEN 'static' THEN 'O:8:"stdClass":1:{s:13:"URLsToProcess";a:' || (3 + i % 18) || ':{s:28:"https://council.example/news";i:0;}}' WHEN 'build' THEN 'O:8:"stdClass":2:{s:9:"TaskClass";s:14:"SiteReportTask";s:11:"QueryString";N;}' ELSE 'O:8:"stdClass":1:{s:7:"indexes";a:1:{s:12:"CouncilIndex";a:1:{i:0;i:' || (500 + i) || ';}}}' END,
  CASE WHEN st = 'Broken' THEN 'a:1:{i:0;s:98:"[' || datetime(le, 'unixepoch') || '][ERROR] ' || CASE j WHEN 'index' THEN 'Search service returned 503 Service Unavailable' ELSE 'SQLSTATE[HY000]: Lock wait timeout exceeded' END || '";}'
    WHEN i = 201 THEN 'a:1:{i:0;s:84:"[2026-11-24 11:58:47][WARNING] Job releasing memory and waiting (257.31 MB used)";}'
    WHEN st = 'Complete' AND j = 'static' THEN 'a:1:{i:0;s:52:"[' || datetime(le, 'unixepoch') || '][INFO] ' || tot || ' URLs processed";}' ELSE 'a:0:{}' END,
  st, CASE WHEN j = 'build' THEN '3' ELSE '2' END,
  CASE WHEN st IN ('Complete', 'Running', 'Initialising') THEN printf('%08x%08x%08x%08x', (i + 3) * 97561733 % 4294967296, i * 2654435761 % 4294967296, (i + 5) * 40503977 % 4294967296, i * 6700417 % 4294967296) END,
  CASE WHEN st NOT IN ('New', 'Cancelled') THEN datetime(coalesce(min(rs, le), le) + 299, 'unixepoch') END,
  st = 'Broken', CASE WHEN st IN ('New', 'Cancelled') THEN 0 WHEN i = 201 THEN 2 WHEN st = 'Waiting' THEN res WHEN st = 'Paused' THEN 4 ELSE res + 1 END,
  CASE j WHEN 'publish' THEN 2 + i % 2 ELSE 0 END
FROM g ORDER BY i;
