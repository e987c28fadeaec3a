-- dialect: sqlite
CREATE TABLE civicrm_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(128) NOT NULL UNIQUE, type VARCHAR(64) NOT NULL, runner VARCHAR(64), batch_limit INT UNSIGNED NOT NULL DEFAULT 1, lease_time INT UNSIGNED NOT NULL DEFAULT 3600, retry_limit INT NOT NULL DEFAULT 0, retry_interval INT, status VARCHAR(16) DEFAULT 'active', error VARCHAR(16), is_template TINYINT NOT NULL DEFAULT 0);
INSERT INTO civicrm_queue (name, type, runner, batch_limit, lease_time, retry_limit, retry_interval, status, error) VALUES
  ('user_job_31', 'Sql', 'task', 1, 3600, 0, NULL, 'active', 'abort'), ('accountsync.push', 'SqlParallel', 'task', 5, 3600, 10, NULL, 'active', 'delete'), ('org.civicoop.civirules.action', 'SqlParallel', 'task', 10, 3600, 3, NULL, 'active', 'delete');

CREATE TABLE civicrm_queue_item (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  queue_name VARCHAR(64) NOT NULL,
  weight INT NOT NULL,
  submit_time TIMESTAMP NOT NULL,
  release_time TIMESTAMP NULL DEFAULT NULL,
  run_count INT NOT NULL DEFAULT 0,
  data LONGTEXT
);
CREATE INDEX index_queueids ON civicrm_queue_item (queue_name, weight, id);
-- delayed actions of rules (days ahead), pushes of invoices (a daily job) that fail, and an import of contacts that has just begun
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 148),
a AS (SELECT i, CASE WHEN i > 88 THEN 'import' WHEN i % 5 = 2 AND i > 50 THEN 'push' ELSE 'rule' END AS q,
  CASE WHEN i <= 70 THEN strftime('%s', '2026-10-28 08:12:09') + i * 32900 + (i * 797) % 9000 WHEN i <= 88 THEN strftime('%s', '2026-11-24 09:10:21') + (i - 70) * 540 + (i * 37) % 100 ELSE strftime('%s', '2026-11-24 11:56:18') + (i - 89) / 40 END AS c FROM n),
b AS (SELECT a.*, CASE q WHEN 'rule' THEN CASE WHEN i IN (41, 66, 87) THEN NULL WHEN i = 29 THEN strftime('%s', '2026-11-24 11:57:40') + 0 WHEN i = 83 THEN strftime('%s', '2026-11-24 12:55:04') + 0 ELSE (SELECT min(c + 86400 * d) FROM (SELECT 1 AS d UNION SELECT 3 UNION SELECT 7 UNION SELECT 14 UNION SELECT 30 UNION SELECT 45 UNION SELECT 60) WHERE c + 86400 * d > strftime('%s', '2026-11-24 13:10:00') + (i * 7919) % 1100000) END
  WHEN 'import' THEN CASE i WHEN 89 THEN strftime('%s', '2026-11-24 12:59:51') END END AS rel,
  CASE q WHEN 'rule' THEN CASE i WHEN 29 THEN 1 WHEN 83 THEN 1 WHEN 41 THEN 3 WHEN 66 THEN 2 WHEN 87 THEN 0 ELSE 0 END WHEN 'push' THEN (strftime('%s', '2026-11-24 03:00:00') + 86400 - c) / 86400 ELSE i = 89 END AS r FROM a)
INSERT INTO civicrm_queue_item (id, queue_name, weight, submit_time, release_time, run_count, data)
SELECT CASE WHEN q = 'import' THEN 20950 ELSE 18100 + i * 31 END + i,
  CASE q WHEN 'rule' THEN 'org.civicoop.civirules.action' WHEN 'push' THEN 'accountsync.push' ELSE 'user_job_31' END, 0, datetime(c, 'unixepoch'), datetime(rel, 'unixepoch'), r,
  CASE q WHEN 'rule' THEN 'O:14:"CRM_Queue_Task":4:{s:5:"title";N;s:8:"callback";a:2:{i:0;s:20:"CRM_Civirules_Engine";i:1;s:20:"executeDelayedAction";}s:9:"arguments";a:1:{i:0;i:' || (300 + i) || ';}s:10:"runContext";N;}'
    WHEN 'push' THEN 'O:14:"CRM_Queue_Task":4:{s:5:"title";s:12:"Push invoice";s:8:"callback";a:2:{i:0;s:15:"CRM_Accountsync";i:1;s:4:"push";}s:9:"arguments";a:1:{i:0;i:' || (7100 + i) || ';}s:10:"runContext";N;}'
    ELSE 'O:14:"CRM_Queue_Task":4:{s:5:"title";s:6:"Import";s:8:"callback";a:2:{i:0;s:17:"CRM_Import_Parser";i:1;s:9:"runImport";}s:9:"arguments";a:4:{i:0;s:10:"userJobID";i:1;i:31;i:2;i:' || ((i - 89) * 50) || ';i:3;i:50;}s:10:"runContext";N;}' END
FROM b ORDER BY i;
