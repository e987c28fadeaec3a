-- dialect: sqlite
CREATE TABLE message_transport_types (message_transport_type VARCHAR(20) NOT NULL PRIMARY KEY);
INSERT INTO message_transport_types VALUES ('email'), ('feed'), ('phone'), ('print'), ('sms');
CREATE TABLE borrowers (borrowernumber INTEGER PRIMARY KEY AUTOINCREMENT, cardnumber VARCHAR(32) UNIQUE, surname TEXT, firstname TEXT, email TEXT, mobile VARCHAR(50), categorycode VARCHAR(10) NOT NULL DEFAULT '', dateenrolled DATE);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15)
INSERT INTO borrowers (cardnumber, surname, firstname, email, mobile, categorycode, dateenrolled) SELECT printf('2352900%07d', i * 331), 'Reader' || i, 'Kim', 'reader' || i || '@mail.example', '+49170' || (1000000 + i * 7919), 'PT', '2026-10-0' || (1 + i % 9) FROM n;
CREATE TABLE letter (id INTEGER PRIMARY KEY AUTOINCREMENT, module VARCHAR(20) NOT NULL DEFAULT '', code VARCHAR(20) NOT NULL DEFAULT '', branchcode VARCHAR(10) NOT NULL DEFAULT '', name VARCHAR(100) NOT NULL DEFAULT '', is_html TINYINT(1) DEFAULT 0, title VARCHAR(200) NOT NULL DEFAULT '', content TEXT, message_transport_type VARCHAR(20) NOT NULL DEFAULT 'email', lang VARCHAR(25) NOT NULL DEFAULT 'default', updated_on TIMESTAMP, UNIQUE (module, code, branchcode, message_transport_type, lang));
INSERT INTO letter (module, code, name, title, content, updated_on) VALUES ('circulation', 'DUE', 'Item due reminder', 'Item due', 'Dear <<borrowers.firstname>>', '2026-10-01 07:00:00'), ('reserves', 'HOLD', 'Hold available for pickup', 'Hold available', 'Dear <<borrowers.firstname>>', '2026-10-01 07:00:00'), ('circulation', 'ODUE', 'Overdue notice', 'Item overdue', 'Dear <<borrowers.firstname>>', '2026-10-01 07:00:00');

CREATE TABLE message_queue (
  message_id INTEGER PRIMARY KEY AUTOINCREMENT,
  letter_id INTEGER DEFAULT NULL REFERENCES letter (id) ON DELETE SET NULL ON UPDATE CASCADE,
  borrowernumber INTEGER DEFAULT NULL REFERENCES borrowers (borrowernumber) ON DELETE CASCADE ON UPDATE CASCADE,
  subject TEXT,
  content TEXT,
  metadata TEXT DEFAULT NULL,
  letter_code VARCHAR(64) DEFAULT NULL,
  message_transport_type VARCHAR(20) NOT NULL REFERENCES message_transport_types (message_transport_type) ON DELETE RESTRICT ON UPDATE CASCADE,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('sent', 'pending', 'failed', 'deleted')),
  time_queued TIMESTAMP NULL,
  updated_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  to_address TEXT,
  cc_address TEXT,
  from_address TEXT,
  reply_address TEXT,
  content_type TEXT,
  failure_code TEXT
);
CREATE INDEX message_queue_borrowernumber ON message_queue (borrowernumber);
CREATE INDEX message_queue_message_transport_type ON message_queue (message_transport_type);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 186),
k AS (SELECT i, datetime(CASE WHEN i <= 164 THEN '2026-10-07 05:00:12' ELSE '2026-11-24 11:45:03' END, '+' || (CASE WHEN i <= 164 THEN i * 25200 + (i * 43) % 977 ELSE (i - 164) * 19 END) || ' seconds') AS c,
  CASE WHEN i <= 164 THEN CASE WHEN i % 16 = 7 THEN 'failed' WHEN i IN (44, 118) THEN 'deleted' WHEN i IN (155, 160, 163) THEN 'pending' ELSE 'sent' END ELSE 'pending' END AS st,
  CASE WHEN i % 5 = 2 THEN 'sms' WHEN i IN (155, 160, 163) OR i % 31 = 9 THEN 'print' ELSE 'email' END AS tr FROM n)
INSERT INTO message_queue (letter_id, borrowernumber, subject, content, letter_code, message_transport_type, status, time_queued, updated_on, to_address, cc_address, from_address, reply_address, content_type, failure_code)
SELECT 1 + i % 3, 1 + i % 15, CASE i % 3 WHEN 0 THEN 'Item due' WHEN 1 THEN 'Hold available' ELSE 'Item overdue' END,
  'Dear Kim,' || char(10) || 'please note the item ' || printf('%012d', i * 7907) || '.', CASE i % 3 WHEN 0 THEN 'DUE' WHEN 1 THEN 'HOLD' ELSE 'ODUE' END, tr, st, c,
  CASE st WHEN 'pending' THEN c WHEN 'deleted' THEN datetime(c, '+3 hours') ELSE datetime(c, '+' || (4 + i % 11) || ' minutes') END,
  CASE WHEN tr = 'email' AND NOT (st = 'failed' AND (i / 16) % 2 = 1) THEN 'reader' || (1 + i % 15) || '@mail.example' WHEN tr = 'sms' AND st <> 'pending' THEN '+49170' || (1000000 + (1 + i % 15) * 7919) || '@sms.example' END,
  NULL, CASE WHEN tr = 'email' THEN 'library@town.example' END, NULL, CASE WHEN tr = 'email' THEN 'text/plain; charset="UTF-8"' END,
  CASE WHEN st = 'failed' THEN CASE WHEN tr = 'sms' THEN 'SMS_SEND_DRIVER_MISSING' WHEN (i / 16) % 2 = 1 THEN 'INVALID_BORNUMBER' ELSE 'SENDMAIL' END END
FROM k ORDER BY i;
