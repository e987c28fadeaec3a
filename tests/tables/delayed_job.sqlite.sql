-- delayed_job_active_record 4.1, as Rails 7 creates it on SQLite.
CREATE TABLE "delayed_jobs" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "priority" integer DEFAULT 0 NOT NULL, "attempts" integer DEFAULT 0 NOT NULL,
  "handler" text NOT NULL, "last_error" text, "run_at" datetime(6), "locked_at" datetime(6), "failed_at" datetime(6), "locked_by" varchar, "queue" varchar,
  "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
CREATE INDEX "delayed_jobs_priority" ON "delayed_jobs" ("priority", "run_at");
INSERT INTO "delayed_jobs" ("id", "attempts", "handler", "run_at", "locked_at", "failed_at", "created_at", "updated_at") VALUES
  (1, 0, '--- a', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:00.123456', '2026-11-20 10:00:00.123456'),
  (2, 0, '--- b', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:01.123456', '2026-11-20 10:00:01.123456'),
  (3, 24, '--- c', '2020-01-01 00:00:00', NULL, NULL, '2026-10-20 10:00:02.123456', '2026-11-10 10:00:02.123456'),
  (4, 10, '--- d', '2020-01-01 00:00:00', NULL, NULL, '2026-11-20 10:00:03.123456', '2026-11-20 23:59:50.123456'),
  (5, 0, '--- e', '2020-01-01 00:00:00', '2026-11-20 11:00:00.000000', NULL, '2026-11-20 10:00:04.123456', '2026-11-20 10:00:04.123456'),
  (6, 25, '--- f', '2020-01-01 00:00:00', NULL, '2026-11-20 11:00:00.000000', '2026-11-20 10:00:05.123456', '2026-11-20 10:00:05.123456');
