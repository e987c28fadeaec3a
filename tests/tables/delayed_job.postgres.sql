-- delayed_job_active_record 4.1 (its template of a migration), as Rails 7 creates it on PostgreSQL.
CREATE TABLE "delayed_jobs" ("id" bigserial PRIMARY KEY, "priority" integer DEFAULT 0 NOT NULL, "attempts" integer DEFAULT 0 NOT NULL,
  "handler" text NOT NULL, "last_error" text, "run_at" timestamp(6), "locked_at" timestamp(6), "failed_at" timestamp(6), "locked_by" character varying, "queue" character varying,
  "created_at" timestamp(6), "updated_at" timestamp(6));
CREATE INDEX "delayed_jobs_priority" ON "delayed_jobs" ("priority", "run_at");
INSERT INTO "delayed_jobs" ("id", "priority", "attempts", "handler", "last_error", "run_at", "locked_at", "failed_at", "locked_by", "queue", "created_at", "updated_at") VALUES
  (1, 0, 0, '--- a', NULL, '2020-01-01 00:00:00', NULL, NULL, NULL, NULL, '2026-11-20 10:00:00.123456', '2026-11-20 10:00:00.123456'),
  (2, 0, 0, '--- b', NULL, '2020-01-01 00:00:00', NULL, NULL, NULL, 'mailers', '2026-11-20 10:00:01.123456', '2026-11-20 10:00:01.123456'),
  (3, 0, 24, '--- c', 'timed out', '2020-01-01 00:00:00', NULL, NULL, NULL, NULL, '2026-10-20 10:00:02.123456', '2026-11-10 10:00:02.123456'),
  (4, 0, 10, '--- d', NULL, '2026-11-21 02:46:40', NULL, NULL, NULL, NULL, '2026-11-20 10:00:03.123456', '2026-11-20 23:59:50.123456'),
  (5, 0, 0, '--- e', NULL, '2020-01-01 00:00:00', '2026-11-20 11:00:00.000000', NULL, 'host:web1 pid:417', NULL, '2026-11-20 10:00:04.123456', '2026-11-20 10:00:04.123456'),
  (6, 0, 25, '--- f', NULL, '2020-01-01 00:00:00', NULL, '2026-11-20 11:00:00.000000', NULL, NULL, '2026-11-20 10:00:05.123456', '2026-11-20 10:00:05.123456'),
  (7, -5, 0, '--- g', NULL, '2999-01-01 00:00:00', NULL, NULL, NULL, 'mailers', '2026-11-20 10:00:06.123456', '2026-11-20 10:00:06.123456'),
  (8, 0, 0, '--- h', NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-20 10:00:07.123456', '2026-11-20 10:00:07.123456');
