-- MediaWiki 1.39 (maintenance/sqlite/tables-generated.sql).
CREATE TABLE job (job_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, job_cmd BLOB DEFAULT '' NOT NULL, job_namespace INTEGER NOT NULL, job_title BLOB NOT NULL,
  job_timestamp BLOB DEFAULT NULL, job_params BLOB NOT NULL, job_random INTEGER UNSIGNED DEFAULT 0 NOT NULL, job_attempts INTEGER UNSIGNED DEFAULT 0 NOT NULL,
  job_token BLOB DEFAULT '' NOT NULL, job_token_timestamp BLOB DEFAULT NULL, job_sha1 BLOB DEFAULT '' NOT NULL);
CREATE INDEX job_sha1 ON job (job_sha1);
CREATE INDEX job_cmd_token ON job (job_cmd, job_token, job_random);
CREATE INDEX job_cmd_token_id ON job (job_cmd, job_token, job_id);
CREATE INDEX job_timestamp ON job (job_timestamp);
INSERT INTO job (job_id, job_cmd, job_namespace, job_title, job_timestamp, job_params, job_random, job_attempts, job_token, job_token_timestamp) VALUES
  (1, 'refreshLinks', 0, 'Main_Page', '20261120100000', 'a:0:{}', 417, 0, '', NULL),
  (2, 'refreshLinks', 0, 'Main_Page', '20261120100001', 'a:0:{}', 418, 0, '', NULL),
  (3, 'refreshLinks', 0, 'Main_Page', '20261120100002', 'a:0:{}', 419, 0, '0123456789abcdef', '20261120110002'),
  (4, 'enotifNotify', 0, 'Main_Page', '20261120100003', 'a:0:{}', 420, 0, '', NULL),
  (5, 'refreshLinks', 0, 'Main_Page', NULL, 'a:0:{}', 421, 0, '', NULL),
  (6, 'refreshLinks', 0, 'Main_Page', '20261120100005', 'a:0:{}', 422, 3, 'fedcba9876543210', '20261120110005');
