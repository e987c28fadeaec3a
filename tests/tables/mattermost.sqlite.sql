-- Mattermost 9 (channels/db/migrations/mysql) is not for SQLite: its names on MySQL, in SQLite's types.
CREATE TABLE "Jobs" ("Id" varchar(26) PRIMARY KEY, "Type" varchar(32), "Priority" bigint, "CreateAt" bigint, "StartAt" bigint,
  "LastActivityAt" bigint, "Status" varchar(32), "Progress" bigint, "Data" text);
CREATE INDEX "idx_jobs_type" ON "Jobs" ("Type");
CREATE INDEX "idx_jobs_status_type" ON "Jobs" ("Status", "Type");
INSERT INTO Jobs (Id, Type, Priority, CreateAt, StartAt, LastActivityAt, Status, Progress, Data) VALUES
  ('4xp9fdt77pncbef59f4k1qe831', 'migrations', 0, 1795132800123, 0, 1795132800123, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe832', 'migrations', 0, 1795132801123, 0, 1795132801123, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe833', 'migrations', 0, 1795132802123, 0, 0, 'error', 0, '{"error": "timed out"}'),
  ('4xp9fdt77pncbef59f4k1qe834', 'migrations', 0, 1795132803123, 0, 0, 'in_progress', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe835', 'message_export', 0, 1795132804123, 0, 0, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe836', 'migrations', 0, 1795132805123, 1795132806123, 1795132807123, 'success', 100, '{}'),
  ('4xp9fdt77pncbef59f4k1qe837', 'migrations', 0, 1795132806123, 0, 1795132808123, 'canceled', 0, NULL);
