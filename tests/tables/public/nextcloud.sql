-- dialect: sqlite
CREATE TABLE oc_users (uid VARCHAR(64) DEFAULT '' NOT NULL, displayname VARCHAR(64) DEFAULT NULL, password VARCHAR(255) DEFAULT '' NOT NULL, uid_lower VARCHAR(64) DEFAULT '', PRIMARY KEY (uid));
INSERT INTO oc_users VALUES ('admin', 'Admin', '3|x', 'admin'), ('ann', 'Ann', '3|x', 'ann'), ('bob', 'Bob', '3|x', 'bob');
CREATE TABLE oc_appconfig (appid VARCHAR(32) DEFAULT '' NOT NULL, configkey VARCHAR(64) DEFAULT '' NOT NULL, configvalue CLOB DEFAULT NULL, type INTEGER DEFAULT 2 NOT NULL, lazy SMALLINT DEFAULT 0 NOT NULL, PRIMARY KEY (appid, configkey));
INSERT INTO oc_appconfig (appid, configkey, configvalue) VALUES ('core', 'lastcron', '1795521301'), ('core', 'ai.taskprocessing_provider_preferences', '{}'), ('assistant', 'enabled', 'yes');
CREATE TABLE oc_jobs (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, class VARCHAR(255) DEFAULT '' NOT NULL, argument VARCHAR(4000) DEFAULT '' NOT NULL, last_run INTEGER DEFAULT 0, last_checked INTEGER DEFAULT 0, reserved_at INTEGER DEFAULT 0, execution_duration INTEGER DEFAULT 0, argument_hash VARCHAR(64) DEFAULT NULL, time_sensitive SMALLINT DEFAULT 1 NOT NULL);
INSERT INTO oc_jobs (class, argument, last_run, last_checked, argument_hash) VALUES ('OC\Authentication\Token\TokenCleanupJob', 'null', 1795478400, 1795521300, '37a6259c'), ('OCA\Files\BackgroundJob\ScanFiles', 'null', 1795521000, 1795521300, '37a6259c'), ('OC\TaskProcessing\RemoveOldTasksBackgroundJob', 'null', 1795478400, 1795521300, '37a6259c');

CREATE TABLE oc_taskprocessing_tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  type VARCHAR(255) NOT NULL,
  input CLOB NOT NULL,
  output CLOB DEFAULT NULL,
  status INTEGER DEFAULT 0,
  user_id VARCHAR(64) DEFAULT NULL,
  app_id VARCHAR(32) DEFAULT '' NOT NULL,
  custom_id VARCHAR(255) DEFAULT '',
  last_updated INTEGER UNSIGNED DEFAULT 0,
  completion_expected_at DATETIME DEFAULT NULL,
  progress DOUBLE PRECISION DEFAULT 0,
  error_message VARCHAR(4000) DEFAULT NULL,
  scheduled_at INTEGER UNSIGNED DEFAULT NULL,
  started_at INTEGER UNSIGNED DEFAULT NULL,
  ended_at INTEGER UNSIGNED DEFAULT NULL,
  webhook_uri VARCHAR(4000) DEFAULT NULL,
  webhook_method VARCHAR(64) DEFAULT NULL
);
CREATE INDEX taskp_tasks_status_type ON oc_taskprocessing_tasks (status, type);
CREATE INDEX taskp_tasks_updated ON oc_taskprocessing_tasks (last_updated);
CREATE INDEX taskp_tasks_uid_appid_cid ON oc_taskprocessing_tasks (user_id, app_id, custom_id);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 160),
k AS (SELECT i, CASE WHEN i <= 138 THEN strftime('%s', '2026-10-16 06:40:00') + i * 24300 + (i * 89) % 2203 ELSE strftime('%s', '2026-11-24 11:41:00') + (i - 138) * 48 END AS c,
  CASE WHEN i <= 138 THEN CASE WHEN i % 14 = 6 THEN 4 WHEN i % 31 = 12 THEN 5 WHEN i IN (133, 137) THEN 1 ELSE 3 END WHEN i <= 141 THEN 2 ELSE 1 END AS st FROM n)
INSERT INTO oc_taskprocessing_tasks (type, input, output, status, user_id, app_id, custom_id, last_updated, completion_expected_at, progress, error_message, scheduled_at, started_at, ended_at)
SELECT CASE i % 3 WHEN 0 THEN 'core:text2text:summary' WHEN 1 THEN 'core:text2text' ELSE 'core:audio2text' END,
  CASE i % 3 WHEN 2 THEN '{"input":' || (8000 + i) || '}' ELSE '{"input":"Minutes of the meeting no. ' || i || '"}' END,
  CASE st WHEN 3 THEN '{"output":"They met for the ' || i || 'th time."}' END, st,
  CASE i % 4 WHEN 0 THEN 'ann' WHEN 1 THEN 'bob' ELSE 'admin' END, CASE i % 5 WHEN 0 THEN 'mail' ELSE 'assistant' END, CASE i % 5 WHEN 0 THEN 'message:' || (500 + i) ELSE '' END,
  CASE st WHEN 1 THEN c WHEN 2 THEN strftime('%s', '2026-11-24 11:59:20') + i % 30 ELSE c + 40 + (i * 17) % 400 END,
  CASE WHEN i % 3 <> 2 THEN datetime(c + 120, 'unixepoch') END,
  CASE st WHEN 3 THEN 1 WHEN 2 THEN 0.3 + (i % 5) * 0.1 ELSE 0 END,
  CASE st WHEN 4 THEN CASE (i / 14) % 2 WHEN 0 THEN 'Error while generating text: HTTP 429 Too Many Requests' ELSE 'Task failed: audio file could not be decoded' END END,
  c, CASE WHEN st NOT IN (1, 5) THEN c + 20 + i % 12 END, CASE WHEN st IN (3, 4) THEN c + 40 + (i * 17) % 400 WHEN st = 5 THEN c + 40 + (i * 17) % 400 END
FROM k ORDER BY i;
UPDATE oc_taskprocessing_tasks SET started_at = strftime('%s', '2026-11-24 11:58:40') + id % 20 WHERE status = 2;
