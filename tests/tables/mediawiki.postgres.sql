-- MediaWiki 1.39 (maintenance/postgres/tables-generated.sql): instants are no YYYYMMDDHHMMSS there.
CREATE TABLE job (job_id SERIAL NOT NULL, job_cmd TEXT DEFAULT '' NOT NULL, job_namespace INT NOT NULL, job_title TEXT NOT NULL,
  job_timestamp TIMESTAMPTZ DEFAULT NULL, job_params TEXT NOT NULL, job_random INT DEFAULT 0 NOT NULL, job_attempts INT DEFAULT 0 NOT NULL,
  job_token TEXT DEFAULT '' NOT NULL, job_token_timestamp TIMESTAMPTZ DEFAULT NULL, job_sha1 TEXT DEFAULT '' NOT NULL, PRIMARY KEY (job_id));
CREATE INDEX job_sha1 ON job (job_sha1);
CREATE INDEX job_cmd_token ON job (job_cmd, job_token, job_random);
CREATE INDEX job_cmd_token_id ON job (job_cmd, job_token, job_id);
CREATE INDEX job_timestamp ON job (job_timestamp);
INSERT INTO job (job_id, job_cmd, job_namespace, job_title, job_timestamp, job_params, job_random, job_attempts, job_token, job_token_timestamp) VALUES
  (1, 'refreshLinks', 0, 'Main_Page', '2026-11-20 10:00:00+00', 'a:0:{}', 417, 0, '', NULL),
  (2, 'refreshLinks', 0, 'Main_Page', '2026-11-20 10:00:01+00', 'a:0:{}', 418, 0, '', NULL),
  (3, 'refreshLinks', 0, 'Main_Page', '2026-11-20 10:00:02+00', 'a:0:{}', 419, 0, '0123456789abcdef', '2026-11-20 11:00:02+00'),
  (4, 'enotifNotify', 0, 'Main_Page', '2026-11-20 10:00:03+00', 'a:0:{}', 420, 0, '', NULL),
  (5, 'refreshLinks', 0, 'Main_Page', NULL, 'a:0:{}', 421, 0, '', NULL),
  (6, 'refreshLinks', 0, 'Main_Page', '2026-11-20 10:00:05+00', 'a:0:{}', 422, 3, 'fedcba9876543210', '2026-11-20 11:00:05+00');
