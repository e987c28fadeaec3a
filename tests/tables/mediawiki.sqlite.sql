-- MediaWiki 1.39 (maintenance/sqlite/tables-generated.sql).
CREATE TABLE job (job_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, job_cmd BLOB DEFAULT '' NOT NULL, job_namespace INTEGER NOT NULL, job_title BLOB NOT NULL, job_timestamp BLOB DEFAULT NULL, job_params BLOB NOT NULL,
  job_random INTEGER DEFAULT 0 NOT NULL, job_attempts INTEGER DEFAULT 0 NOT NULL, job_token BLOB DEFAULT '' NOT NULL, job_token_timestamp BLOB DEFAULT NULL, job_sha1 BLOB DEFAULT '' NOT NULL);
INSERT INTO job (job_id, job_cmd, job_namespace, job_title, job_timestamp, job_params, job_token) VALUES (1, 'refreshLinks', 0, 'Main_Page', '20261120100000', 'a:0:{}', ''), (2, 'refreshLinks', 0, 'Main_Page', '20261120100001', 'a:0:{}', ''),
  (3, 'refreshLinks', 0, 'Main_Page', '20261120100002', 'a:0:{}', '0123456789abcdef'), (4, 'enotifNotify', 0, 'Main_Page', '20261120100003', 'a:0:{}', ''), (5, 'refreshLinks', 0, 'Main_Page', NULL, 'a:0:{}', '');
