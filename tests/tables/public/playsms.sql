-- dialect: sqlite
CREATE TABLE playsms_tblUser (c_timestamp INTEGER NOT NULL DEFAULT 0, uid INTEGER PRIMARY KEY AUTOINCREMENT, parent_uid INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL DEFAULT 0, username VARCHAR(100) NOT NULL DEFAULT '', email VARCHAR(250) NOT NULL DEFAULT '', credit DECIMAL(13,3) NOT NULL DEFAULT 0.000);
INSERT INTO playsms_tblUser VALUES (1790841600, 1, 0, 2, 'admin', 'admin@sms.example', 0.000), (1790928000, 2, 0, 3, 'clinic', 'it@clinic.example', 412.500), (1790938000, 3, 0, 3, 'school', 'it@school.example', 88.000);
CREATE TABLE playsms_tblGateway (id INTEGER PRIMARY KEY AUTOINCREMENT, created VARCHAR(19) NOT NULL DEFAULT '0000-00-00 00:00:00', last_update VARCHAR(19) NOT NULL DEFAULT '0000-00-00 00:00:00', name VARCHAR(250) NOT NULL DEFAULT '', gateway VARCHAR(250) NOT NULL DEFAULT '', data TEXT NOT NULL);
INSERT INTO playsms_tblGateway VALUES (1, '2026-10-01 08:00:00', '2026-10-01 08:00:00', 'kannel1', 'kannel', '{}'), (2, '2026-10-01 08:00:00', '2026-10-01 08:00:00', 'jasmin1', 'jasmin', '{}');
CREATE TABLE playsms_tblRegistry (c_timestamp INTEGER NOT NULL DEFAULT 0, id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER NOT NULL DEFAULT 0, registry_group VARCHAR(250) NOT NULL DEFAULT '', registry_family VARCHAR(250) NOT NULL DEFAULT '', registry_key VARCHAR(250) NOT NULL DEFAULT '', registry_value TEXT NOT NULL);
INSERT INTO playsms_tblRegistry VALUES (1790841600, 1, 1, 'core', 'config', 'playsms_version', '1.4.7'), (1790841600, 2, 1, 'gateway', 'kannel', 'username', 'playsms');

CREATE TABLE playsms_tblSMSOutgoing (
  c_timestamp INTEGER NOT NULL DEFAULT 0,
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  smslog_id INTEGER DEFAULT NULL,
  flag_deleted INTEGER NOT NULL DEFAULT 0,
  uid INTEGER NOT NULL DEFAULT 0,
  parent_uid INTEGER NOT NULL DEFAULT 0,
  p_gateway VARCHAR(250) NOT NULL DEFAULT '',
  p_smsc VARCHAR(250) NOT NULL DEFAULT '',
  p_src VARCHAR(100) NOT NULL DEFAULT '',
  p_dst VARCHAR(100) NOT NULL DEFAULT '',
  p_footer VARCHAR(30) NOT NULL DEFAULT '',
  p_msg TEXT NOT NULL,
  p_datetime VARCHAR(20) NOT NULL DEFAULT '0000-00-00 00:00:00',
  p_update VARCHAR(20) NOT NULL DEFAULT '0000-00-00 00:00:00',
  p_status INTEGER NOT NULL DEFAULT 0,
  p_gpid INTEGER NOT NULL DEFAULT 0,
  p_credit DECIMAL(13,3) NOT NULL DEFAULT 0.000,
  p_sms_type VARCHAR(100) NOT NULL DEFAULT '',
  unicode INTEGER NOT NULL DEFAULT 0,
  queue_code VARCHAR(40) NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX playsms_tblSMSOutgoing_smslog_id ON playsms_tblSMSOutgoing (smslog_id);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 185),
k AS (SELECT i, CASE WHEN i <= 173 THEN 1793340000 + i * 12480 + (i * 37) % 3000 ELSE 1795520000 + (i - 173) * 120 END AS t, CASE WHEN i <= 173 AND i % 13 = 9 THEN 2 WHEN i <= 173 AND i % 3 = 1 THEN 1 WHEN i <= 173 THEN 3 ELSE 0 END AS st FROM n)
INSERT INTO playsms_tblSMSOutgoing (c_timestamp, id, smslog_id, flag_deleted, uid, parent_uid, p_gateway, p_smsc, p_src, p_dst, p_footer, p_msg, p_datetime, p_update, p_status, p_gpid, p_credit, p_sms_type, unicode, queue_code)
SELECT t + CASE st WHEN 0 THEN 0 ELSE 20 END, 2000 + i, 5400 + i, CASE WHEN i % 30 = 4 AND st > 0 THEN 1 ELSE 0 END, 2 + i % 2, 0,
  CASE WHEN i % 2 = 0 THEN 'kannel' ELSE 'jasmin' END, CASE WHEN i % 2 = 0 THEN 'kannel1' ELSE 'jasmin1' END, 'CLINIC', printf('+4915%08d', (i * 7919) % 100000000), '@clinic',
  'Reminder: appointment ' || i || ' tomorrow.', datetime(t, 'unixepoch'),
  CASE st WHEN 0 THEN '0000-00-00 00:00:00' ELSE datetime(t + 20 + i % 60, 'unixepoch') END,
  st, CASE WHEN i % 7 = 0 THEN 3 ELSE 0 END, 1.000, 'text', CASE WHEN i % 11 = 0 THEN 1 ELSE 0 END, printf('%032x', (i / 5) * 982451653)
FROM k ORDER BY i;
