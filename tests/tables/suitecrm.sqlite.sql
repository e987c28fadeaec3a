-- SuiteCRM 7.14 (modules/SchedulersJobs/vardefs.php) is for MySQL only: its names, in SQLite's types.
CREATE TABLE job_queue (assigned_user_id CHAR(36), id CHAR(36) NOT NULL PRIMARY KEY, name VARCHAR(255), deleted BOOL DEFAULT 0,
  date_entered DATETIME, date_modified DATETIME, scheduler_id CHAR(36), execute_time DATETIME, status VARCHAR(20), resolution VARCHAR(20),
  message TEXT, target VARCHAR(255), data TEXT, requeue BOOL DEFAULT 0, retry_count TINYINT, failure_count TINYINT DEFAULT 0,
  job_delay INTEGER, client VARCHAR(255), percent_complete INTEGER);
CREATE INDEX idx_status_scheduler ON job_queue (status, scheduler_id);
CREATE INDEX idx_status_time ON job_queue (status, execute_time, date_entered);
CREATE INDEX idx_status_entered ON job_queue (status, date_entered);
CREATE INDEX idx_status_modified ON job_queue (status, date_modified);
INSERT INTO job_queue (id, name, deleted, date_entered, date_modified, execute_time, status, resolution, message, target, requeue, retry_count, failure_count, job_delay) VALUES
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000001', 'prune', 0, '2026-11-20 10:00:00', '2026-11-20 10:00:00', '2020-01-01 00:00:00', 'queued', 'queued', NULL, 'function::prune', 0, NULL, 0, NULL),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000002', 'prune', 0, '2026-11-20 10:00:01', '2026-11-20 10:00:01', '2020-01-01 00:00:00', 'queued', 'queued', NULL, 'function::prune', 1, 3, 2, 60),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000003', 'prune', 1, '2026-11-20 10:00:02', '2026-11-20 10:00:02', '2020-01-01 00:00:00', 'queued', 'queued', NULL, 'function::prune', 0, NULL, 0, NULL),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000004', 'prune', 0, '2026-11-20 10:00:03', '2026-11-20 10:00:03', '2020-01-01 00:00:00', 'done', 'success', NULL, 'function::prune', 0, NULL, 0, NULL),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000005', 'prune', 0, '2026-11-20 10:00:04', '2026-11-20 10:00:04', NULL, 'queued', 'queued', NULL, 'function::prune', 1, 3, NULL, 60),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000006', 'prune', 0, '2026-11-20 10:00:05', '2026-11-20 10:00:05', '2999-01-01 00:00:00', 'queued', 'queued', NULL, 'function::prune', 0, NULL, 0, NULL),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000007', 'prune', 0, '2026-11-20 10:00:06', '2026-11-20 10:00:06', '2020-01-01 00:00:00', 'done', 'failure', 'timed out', 'function::prune', 1, 3, 3, 60),
  ('b6d3c1f0-1111-4a4a-9c9c-5e5d00000008', 'prune', 0, '2026-11-20 10:00:07', '2026-11-20 10:00:07', '2020-01-01 00:00:00', 'running', 'queued', NULL, 'function::prune', 0, NULL, 0, NULL);
