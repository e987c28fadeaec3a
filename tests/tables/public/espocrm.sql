-- dialect: sqlite
CREATE TABLE "user" (id VARCHAR(17) NOT NULL PRIMARY KEY, deleted TINYINT DEFAULT 0, user_name VARCHAR(50), type VARCHAR(24) DEFAULT 'regular', is_active TINYINT NOT NULL DEFAULT 1, created_at DATETIME);
INSERT INTO "user" VALUES ('system', 0, 'system', 'system', 1, '2026-10-01 07:00:00'), ('66f0a1b2c3d4e5f60', 0, 'admin', 'admin', 1, '2026-10-01 07:05:00'), ('66f0a1b2c3d4e5f61', 0, 'ann', 'regular', 1, '2026-10-02 07:05:00');
CREATE TABLE scheduled_job (id VARCHAR(17) NOT NULL PRIMARY KEY, name VARCHAR(255), deleted TINYINT DEFAULT 0, job VARCHAR(255), status VARCHAR(255) DEFAULT 'Active', scheduling VARCHAR(255), last_run DATETIME, created_at DATETIME, modified_at DATETIME);
INSERT INTO scheduled_job VALUES ('66f0b000000000001', 'Check Group Email Accounts', 0, 'CheckInboundEmails', 'Active', '*/2 * * * *', '2026-11-24 11:58:00', '2026-10-01 07:00:00', '2026-10-01 07:00:00'), ('66f0b000000000002', 'Send Email Reminders', 0, 'SendEmailReminders', 'Active', '*/2 * * * *', '2026-11-24 11:58:00', '2026-10-01 07:00:00', '2026-10-01 07:00:00'), ('66f0b000000000003', 'Clean-up', 0, 'Cleanup', 'Inactive', '1 1 * * 0', NULL, '2026-10-01 07:00:00', '2026-10-01 07:00:00');
CREATE TABLE system_data (id VARCHAR(1) NOT NULL PRIMARY KEY, deleted TINYINT DEFAULT 0, last_password_recovery_date DATETIME);
INSERT INTO system_data VALUES ('1', 0, NULL);

CREATE TABLE job (
  id VARCHAR(17) NOT NULL PRIMARY KEY,
  name VARCHAR(255) DEFAULT NULL,
  deleted TINYINT DEFAULT 0,
  status VARCHAR(255) DEFAULT 'Pending',
  execute_time DATETIME DEFAULT NULL,
  number BIGINT NOT NULL UNIQUE,
  service_name VARCHAR(100) DEFAULT NULL,
  class_name VARCHAR(255) DEFAULT NULL,
  method_name VARCHAR(100) DEFAULT NULL,
  job VARCHAR(255) DEFAULT NULL,
  data MEDIUMTEXT DEFAULT NULL,
  queue VARCHAR(36) DEFAULT NULL,
  "group" VARCHAR(128) DEFAULT NULL,
  target_group VARCHAR(128) DEFAULT NULL,
  started_at DATETIME DEFAULT NULL,
  executed_at DATETIME DEFAULT NULL,
  pid INTEGER DEFAULT NULL,
  attempts INTEGER DEFAULT NULL,
  target_id VARCHAR(48) DEFAULT NULL,
  target_type VARCHAR(64) DEFAULT NULL,
  failed_attempts INTEGER DEFAULT NULL,
  created_at DATETIME DEFAULT NULL,
  modified_at DATETIME DEFAULT NULL,
  scheduled_job_id VARCHAR(17) DEFAULT NULL
);
CREATE INDEX IDX_JOB_EXECUTE_TIME ON job (status, execute_time);
CREATE INDEX IDX_JOB_STATUS ON job (status, deleted);
CREATE INDEX IDX_JOB_SCHEDULED_JOB_ID ON job (scheduled_job_id);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 152),
k AS (
  SELECT i, datetime(CASE WHEN i <= 130 THEN '2026-11-15 08:30:00' ELSE '2026-11-24 11:12:00' END, '+' || (CASE WHEN i <= 130 THEN i * 100 + (i * 37) % 40 ELSE (i - 130) * 2 END) || ' minutes') AS c,
    CASE WHEN i <= 130 AND i % 20 = 12 THEN 'Failed' WHEN i <= 130 THEN 'Success' WHEN i <= 131 THEN 'Running' WHEN i <= 132 THEN 'Ready' ELSE 'Pending' END AS st
  FROM n)
INSERT INTO job (id, name, deleted, status, execute_time, number, service_name, class_name, method_name, job, data, queue, "group", target_group, started_at, executed_at, pid, attempts, target_id, target_type, failed_attempts, created_at, modified_at, scheduled_job_id)
SELECT printf('%08x', strftime('%s', c)) || printf('%05x', (i * 7919) % 1048576) || printf('%04x', i),
  CASE i % 3 WHEN 0 THEN 'Check Group Email Accounts' WHEN 1 THEN 'Send Email Reminders' ELSE 'Espo\Modules\Crm\Jobs\ControlKnowledgeBaseArticleStatus' END, 0, st,
  CASE WHEN st = 'Pending' AND i > 140 THEN datetime('2026-11-24 12:10:00', '+' || ((i - 140) * 95) || ' minutes') ELSE c END,
  31000 + i, NULL, CASE i % 3 WHEN 2 THEN 'Espo\Modules\Crm\Jobs\ControlKnowledgeBaseArticleStatus' END, NULL,
  CASE i % 3 WHEN 0 THEN 'CheckInboundEmails' WHEN 1 THEN 'SendEmailReminders' END,
  '{"id":"66f0c' || printf('%012x', i) || '"}',
  CASE i % 4 WHEN 0 THEN 'q0' WHEN 1 THEN 'e0' END, NULL, NULL,
  CASE WHEN st <> 'Pending' THEN datetime(c, '+20 seconds') END,
  CASE st WHEN 'Success' THEN datetime(c, '+' || (21 + i % 30) || ' seconds') END,
  CASE WHEN st <> 'Pending' THEN 2000 + i * 13 END,
  CASE WHEN st = 'Failed' THEN 0 WHEN st = 'Pending' AND i % 6 = 0 THEN 1 WHEN st = 'Success' AND i % 25 = 0 THEN 1 ELSE 2 END,
  CASE i % 3 WHEN 0 THEN '66f0d' || printf('%012x', i % 4) END, CASE i % 3 WHEN 0 THEN 'InboundEmail' END,
  CASE WHEN st = 'Failed' THEN 2 WHEN st = 'Pending' AND i % 6 = 0 THEN 1 WHEN st = 'Success' AND i % 25 = 0 THEN 1 END,
  c, CASE WHEN st = 'Pending' THEN c ELSE datetime(c, '+' || (21 + i % 30) || ' seconds') END,
  CASE i % 3 WHEN 0 THEN '66f0b000000000001' WHEN 1 THEN '66f0b000000000002' END
FROM k ORDER BY i;
