-- SuiteCRM 7.14 (modules/SchedulersJobs/vardefs.php) is for MySQL only: its names, in PostgreSQL's types; its bool is a tinyint.
CREATE TABLE job_queue (assigned_user_id char(36), id char(36) NOT NULL PRIMARY KEY, name varchar(255), deleted smallint DEFAULT 0,
  date_entered timestamp, date_modified timestamp, scheduler_id char(36), execute_time timestamp, status varchar(20), resolution varchar(20),
  message text, target varchar(255), data text, requeue smallint DEFAULT 0, retry_count smallint, failure_count smallint DEFAULT 0,
  job_delay integer, client varchar(255), percent_complete integer);
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
