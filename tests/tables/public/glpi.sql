-- dialect: sqlite
CREATE TABLE glpi_entities (id INTEGER PRIMARY KEY, name TEXT, entities_id INTEGER DEFAULT 0, completename TEXT, delay_send_emails INTEGER NOT NULL DEFAULT -2, date_creation TEXT);
INSERT INTO glpi_entities VALUES (0, 'Root entity', NULL, 'Root entity', 0, '2026-10-01 08:00:00'), (1, 'Branch', 0, 'Root entity > Branch', 10, '2026-10-02 08:00:00');
CREATE TABLE glpi_tickets (id INTEGER PRIMARY KEY AUTOINCREMENT, entities_id INTEGER NOT NULL DEFAULT 0, name TEXT, date TEXT, closedate TEXT, solvedate TEXT, status INTEGER NOT NULL DEFAULT 1, content TEXT, is_deleted INTEGER NOT NULL DEFAULT 0);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO glpi_tickets SELECT i, i % 2, 'Ticket no. ' || i, datetime('2026-10-02 09:00:00', '+' || (i * 31) || ' hours'), NULL, NULL, 1 + i % 5, 'Printer on floor ' || (i % 4) || ' is silent', 0 FROM n;
CREATE TABLE glpi_notificationtemplates (id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(255), itemtype VARCHAR(100) NOT NULL, date_mod TEXT);
INSERT INTO glpi_notificationtemplates VALUES (4, 'Tickets', 'Ticket', '2026-10-01 08:00:00'), (7, 'Tickets (simple)', 'Ticket', '2026-10-01 08:00:00');

CREATE TABLE glpi_queuednotifications (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  itemtype VARCHAR(100) DEFAULT NULL,
  items_id INTEGER NOT NULL DEFAULT 0,
  notificationtemplates_id INTEGER NOT NULL DEFAULT 0,
  entities_id INTEGER NOT NULL DEFAULT 0,
  is_deleted TINYINT NOT NULL DEFAULT 0,
  sent_try INTEGER NOT NULL DEFAULT 0,
  create_time TIMESTAMP NULL DEFAULT NULL,
  send_time TIMESTAMP NULL DEFAULT NULL,
  sent_time TIMESTAMP NULL DEFAULT NULL,
  name TEXT,
  sender TEXT,
  sendername TEXT,
  recipient TEXT,
  recipientname TEXT,
  replyto TEXT,
  replytoname TEXT,
  headers TEXT,
  body_html TEXT,
  body_text TEXT,
  messageid TEXT,
  documents TEXT,
  mode VARCHAR(20) NOT NULL,
  event VARCHAR(255) DEFAULT NULL
);
CREATE INDEX item ON glpi_queuednotifications (itemtype, items_id, notificationtemplates_id);
CREATE INDEX is_deleted ON glpi_queuednotifications (is_deleted);
CREATE INDEX sent_try ON glpi_queuednotifications (sent_try);
CREATE INDEX create_time ON glpi_queuednotifications (create_time);
CREATE INDEX send_time ON glpi_queuednotifications (send_time);
CREATE INDEX sent_time ON glpi_queuednotifications (sent_time);
CREATE INDEX mode ON glpi_queuednotifications (mode);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 158),
k AS (SELECT i, datetime(CASE WHEN i <= 136 THEN '2026-10-27 07:40:00' ELSE '2026-11-24 11:38:00' END, '+' || (CASE WHEN i <= 136 THEN i * 294 + (i * 37) % 50 ELSE i - 136 END) || ' minutes') AS c,
  CASE WHEN i <= 136 AND i % 25 = 18 THEN 'dead' WHEN i <= 136 THEN 'sent' WHEN i <= 142 THEN 'retry' ELSE 'new' END AS st,
  CASE i % 3 WHEN 0 THEN 'new' WHEN 1 THEN 'update' ELSE 'solved' END AS ev FROM n)
INSERT INTO glpi_queuednotifications (id, itemtype, items_id, notificationtemplates_id, entities_id, is_deleted, sent_try, create_time, send_time, sent_time, name, sender, sendername, recipient, recipientname, replyto, replytoname, headers, body_html, body_text, messageid, documents, mode, event)
SELECT i, 'Ticket', 1 + i % 20, CASE WHEN i % 3 = 2 THEN 7 ELSE 4 END, i % 2, st IN ('sent', 'dead'),
  CASE st WHEN 'dead' THEN 5 WHEN 'retry' THEN 1 + i % 4 WHEN 'sent' THEN CASE WHEN i % 19 = 3 THEN 1 ELSE 0 END ELSE 0 END,
  c, CASE WHEN i % 2 = 1 THEN datetime(c, '+10 minutes') ELSE c END,
  CASE st WHEN 'sent' THEN datetime(c, '+' || (11 + i % 4) || ' minutes') END,
  '[GLPI #' || printf('%07d', 1 + i % 20) || '] ' || CASE ev WHEN 'new' THEN 'New ticket' WHEN 'update' THEN 'Ticket updated' ELSE 'Ticket solved' END || ' Ticket no. ' || (1 + i % 20),
  'glpi@it.example', 'IT desk', 'staff' || (i % 17) || '@firm.example', 'Staff ' || (i % 17), 'glpi@it.example', 'IT desk',
  '{"Auto-Submitted":"auto-generated","X-Auto-Response-Suppress":"OOF, DR, NDR, RN, NRN"}',
  CASE WHEN i % 3 <> 2 THEN '<!DOCTYPE html><html><body><p>Ticket no. ' || (1 + i % 20) || '</p></body></html>' END,
  'Ticket no. ' || (1 + i % 20) || ': Printer on floor ' || ((1 + i % 20) % 4) || ' is silent',
  'GLPI_' || printf('%08x', i * 104729) || '-Ticket-' || (1 + i % 20) || '/' || ev || '@it', '', 'mailing', ev
FROM k ORDER BY i;
