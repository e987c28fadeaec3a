-- Mattermost 9 (channels/db/migrations/postgres), which names everything in lower case there.
CREATE TABLE jobs (id varchar(26) PRIMARY KEY, type varchar(32), priority bigint, createat bigint, startat bigint,
  lastactivityat bigint, status varchar(32), progress bigint, data jsonb);
CREATE INDEX idx_jobs_type ON jobs (type);
CREATE INDEX idx_jobs_status_type ON jobs (status, type);
INSERT INTO Jobs (Id, Type, Priority, CreateAt, StartAt, LastActivityAt, Status, Progress, Data) VALUES
  ('4xp9fdt77pncbef59f4k1qe831', 'migrations', 0, 1795132800123, 0, 1795132800123, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe832', 'migrations', 0, 1795132801123, 0, 1795132801123, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe833', 'migrations', 0, 1795132802123, 0, 0, 'error', 0, '{"error": "timed out"}'),
  ('4xp9fdt77pncbef59f4k1qe834', 'migrations', 0, 1795132803123, 0, 0, 'in_progress', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe835', 'message_export', 0, 1795132804123, 0, 0, 'pending', 0, '{}'),
  ('4xp9fdt77pncbef59f4k1qe836', 'migrations', 0, 1795132805123, 1795132806123, 1795132807123, 'success', 100, '{}'),
  ('4xp9fdt77pncbef59f4k1qe837', 'migrations', 0, 1795132806123, 0, 1795132808123, 'canceled', 0, NULL);
