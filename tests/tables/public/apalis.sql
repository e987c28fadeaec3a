-- dialect: sqlite
CREATE TABLE accounts (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6) INSERT INTO accounts SELECT i, 'acc' || i || '@svc.example', 1790850000 + i * 86400 FROM n;
CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, checksum BLOB NOT NULL, execution_time BIGINT NOT NULL);
INSERT INTO _sqlx_migrations VALUES (20220530084123, 'jobs workers', '2026-10-01 08:00:00', 1, x'a1b2c3', 812345), (20250313213411, 'add job priority', '2026-10-01 08:00:00', 1, x'd4e5f6', 201222);
CREATE TABLE Workers (id TEXT NOT NULL UNIQUE, worker_type TEXT NOT NULL, storage_name TEXT NOT NULL, layers TEXT, last_seen INTEGER NOT NULL DEFAULT (strftime('%s', 'now')));
CREATE INDEX Idx ON Workers(id);
CREATE INDEX WTIdx ON Workers(worker_type);
CREATE INDEX LSIdx ON Workers(last_seen);
INSERT INTO Workers VALUES ('tasty-pear', 'apalis::Email', 'SqliteStorage', 'Extension, RetryLayer, TraceLayer', 1795521590), ('tasty-plum', 'apalis::Render', 'SqliteStorage', 'TraceLayer', 1795521592);

CREATE TABLE Jobs (
  job TEXT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  job_type TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'Pending',
  attempts INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 25,
  run_at INTEGER NOT NULL DEFAULT (strftime('%s', 'now')),
  last_error TEXT,
  lock_at INTEGER,
  lock_by TEXT,
  done_at INTEGER,
  priority INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY(lock_by) REFERENCES Workers(id)
);
CREATE INDEX TIdx ON Jobs(id);
CREATE INDEX SIdx ON Jobs(status);
CREATE INDEX LIdx ON Jobs(lock_by);
CREATE INDEX JTIdx ON Jobs(job_type);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150),
k AS (SELECT i, CASE WHEN i <= 122 THEN 1791020000 + i * 36400 + (i * 59) % 2000 ELSE 1795519900 + (i - 122) * 52 END AS e,
  CASE WHEN i % 3 = 1 THEN 'apalis::Render' ELSE 'apalis::Email' END AS jt,
  CASE WHEN i <= 122 AND i % 24 = 7 THEN 'Killed' WHEN i <= 122 THEN 'Done' WHEN i <= 130 THEN 'Failed' WHEN i <= 133 THEN 'Running' ELSE 'Pending' END AS st FROM n)
INSERT INTO Jobs (job, id, job_type, status, attempts, max_attempts, run_at, last_error, lock_at, lock_by, done_at, priority)
SELECT CASE jt WHEN 'apalis::Email' THEN '{"to":"acc' || (1 + i % 6) || '@svc.example","subject":"Report ' || i || '","text":"Your weekly report is ready."}' ELSE '{"document_id":' || (9000 + i) || ',"format":"pdf"}' END,
  '01KB' || printf('%010d', e - 1791000000) || substr('QWXZRTVNHJKMP', 1 + i % 10, 3) || substr('ABCDEFGHJKMNP', 1 + i % 9, 4) || printf('%05d', (i * 7919) % 100000),
  jt, st,
  CASE st WHEN 'Done' THEN CASE WHEN i % 15 = 4 THEN 2 ELSE 1 END WHEN 'Killed' THEN 5 WHEN 'Failed' THEN 1 + i % 4 ELSE 0 END,
  5,
  CASE WHEN st = 'Pending' AND i > 142 THEN 1795523400 + (i - 142) * 5400 WHEN st = 'Failed' THEN 1795521480 + (i % 5) * 90 ELSE e END,
  CASE st WHEN 'Done' THEN '{"Ok":"()"}' WHEN 'Killed' THEN '{"Err":"FailedError: smtp: 554 5.7.1 relay access denied"}' WHEN 'Failed' THEN CASE i % 2 WHEN 0 THEN '{"Err":"FailedError: connection reset by peer (os error 104)"}' ELSE '{"Err":"FailedError: operation timed out"}' END END,
  CASE WHEN st = 'Running' THEN 1795521570 + i % 9 WHEN st <> 'Pending' THEN e + 1 END,
  CASE WHEN st <> 'Pending' THEN CASE jt WHEN 'apalis::Email' THEN 'tasty-pear' ELSE 'tasty-plum' END END,
  CASE WHEN st IN ('Done', 'Killed', 'Failed') THEN e + 2 + i % 7 END,
  CASE WHEN i % 18 = 0 THEN 5 ELSE 0 END
FROM k ORDER BY i;
