-- dialect: sqlite
CREATE TABLE priv_event (id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT, date DATETIME, userinfo VARCHAR(255) DEFAULT '', realclass VARCHAR(255) DEFAULT 'Event');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
INSERT INTO priv_event (message, date, userinfo, realclass) SELECT CASE WHEN i % 4 = 0 THEN 'Failed to process async task.' ELSE 'Sent' END, datetime('2026-11-23 08:00:00', '+' || (i * 131) || ' minutes'), 'CRON', 'EventNotificationEmail' FROM n;
CREATE TABLE ticket (id INTEGER PRIMARY KEY AUTOINCREMENT, operational_status VARCHAR(20) DEFAULT 'ongoing', ref VARCHAR(255) DEFAULT '', title VARCHAR(255) DEFAULT '', start_date DATETIME, last_update DATETIME, finalclass VARCHAR(255) DEFAULT 'Ticket');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
INSERT INTO ticket (operational_status, ref, title, start_date, last_update, finalclass) SELECT CASE i % 3 WHEN 0 THEN 'closed' ELSE 'ongoing' END, printf('R-%06d', i), 'Printer on floor ' || i, datetime('2026-10-03 09:00:00', '+' || i || ' days'), datetime('2026-10-04 09:00:00', '+' || i || ' days'), 'UserRequest' FROM n;
CREATE TABLE priv_async_send_email (id INTEGER PRIMARY KEY, version INT DEFAULT 1, "to" TEXT, subject TEXT, message TEXT);

CREATE TABLE priv_async_task (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  status TEXT DEFAULT 'planned' CHECK (status IN ('planned', 'running', 'idle', 'error')),
  created DATETIME DEFAULT NULL,
  started DATETIME DEFAULT NULL,
  planned DATETIME DEFAULT NULL,
  event_id INT DEFAULT 0,
  remaining_retries INT DEFAULT 0,
  last_error_code INT DEFAULT 0,
  last_error VARCHAR(255) DEFAULT '',
  last_attempt DATETIME DEFAULT NULL,
  realclass VARCHAR(255) DEFAULT 'AsyncTask'
);
CREATE INDEX priv_async_task_event_id ON priv_async_task (event_id);
CREATE INDEX priv_async_task_realclass ON priv_async_task (realclass);

-- rows of tasks that went well are gone, hence the gaps of the ids
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 96),
k AS (SELECT i, datetime(CASE WHEN i <= 48 THEN '2026-10-02 07:14:09' ELSE '2026-11-24 10:58:12' END, '+' || (CASE WHEN i <= 48 THEN i * 94000 + (i * 71) % 3001 ELSE (i - 48) * 75 END) || ' seconds') AS c,
  CASE WHEN i <= 48 THEN 'error' WHEN i = 57 THEN 'error' WHEN i = 71 THEN 'error' WHEN i <= 74 THEN 'retry' WHEN i <= 76 THEN 'running' ELSE 'planned' END AS st FROM n)
INSERT INTO priv_async_task (id, status, created, started, planned, event_id, remaining_retries, last_error_code, last_error, last_attempt, realclass)
SELECT i * 41 + (i * i) % 37 + CASE WHEN i > 48 THEN 900 ELSE 0 END, CASE st WHEN 'retry' THEN 'planned' ELSE st END, c,
  CASE st WHEN 'running' THEN '2026-11-24 11:59:5' || (i % 10) END,
  CASE WHEN st = 'retry' THEN datetime('2026-11-24 11:58:30', '+' || ((i * 37) % 600) || ' seconds') WHEN st = 'planned' AND i > 90 THEN datetime('2026-11-24 18:00:00', '+' || i || ' minutes') END,
  3000 + i * 3, CASE st WHEN 'retry' THEN i % 3 ELSE 0 END, 0,
  CASE WHEN st IN ('retry', 'error') THEN CASE i % 3 WHEN 0 THEN 'Sending eMail failed: Connection could not be established with host "smtp.desk.example:587": stream_socket_client(): Connection timed out' WHEN 1 THEN 'Sending eMail failed: Expected response code "250" but got code "550", with message "550 5.1.1 User unknown".' ELSE 'Sending eMail failed: Email "" does not comply with addr-spec of RFC 2822.' END ELSE '' END,
  CASE WHEN st = 'error' THEN datetime(c, '+' || (21 + i % 4) || ' minutes') WHEN st = 'retry' THEN datetime('2026-11-24 11:48:30', '+' || ((i * 37) % 600) || ' seconds') END,
  'AsyncSendEmail'
FROM k ORDER BY i;
INSERT INTO priv_async_send_email SELECT id, 2, 'user' || (id % 19) || '@desk.example', 'R-' || printf('%06d', id % 10 + 1) || ' has been updated', '{"to":["user' || (id % 19) || '@desk.example"],"subject":"Ticket","body":{"body":"<p>Updated</p>","mimeType":"text/html"}}' FROM priv_async_task;
