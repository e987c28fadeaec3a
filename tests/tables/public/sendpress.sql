-- dialect: sqlite
CREATE TABLE wp_sendpress_subscribers (subscriberID INTEGER PRIMARY KEY AUTOINCREMENT, email VARCHAR(100) NOT NULL DEFAULT '' UNIQUE, join_date DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', status INT(1) NOT NULL DEFAULT 1, registered DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', registered_ip VARCHAR(20) NOT NULL DEFAULT '', identity_key VARCHAR(60) NOT NULL DEFAULT '', bounced INT(1) NOT NULL DEFAULT 0, firstname VARCHAR(250) NOT NULL DEFAULT '', lastname VARCHAR(250) NOT NULL DEFAULT '');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 62)
INSERT INTO wp_sendpress_subscribers SELECT i, 'reader' || i || '@mail.example', datetime('2026-06-01 10:00:00', '+' || (i * 61) || ' hours'), CASE WHEN i IN (17, 52) THEN 4 ELSE 2 END, datetime('2026-06-01 10:00:00', '+' || (i * 61) || ' hours'), '203.0.113.' || i, printf('%08x%08x', i * 2654435761 % 4294967296, i * 40503977 % 4294967296), i IN (17, 52), '', '' FROM n;

CREATE TABLE wp_sendpress_queue (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  subscriberID INT(11) DEFAULT NULL,
  listID BIGINT(20) DEFAULT NULL,
  from_name VARCHAR(64) DEFAULT NULL,
  from_email VARCHAR(128) NOT NULL,
  to_email VARCHAR(128) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  messageID VARCHAR(400) NOT NULL,
  emailID INT(11) NOT NULL,
  max_attempts INT(11) NOT NULL DEFAULT 3,
  attempts INT(11) NOT NULL DEFAULT 0,
  success TINYINT(1) NOT NULL DEFAULT 0,
  date_published DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  inprocess INT(1) DEFAULT 0,
  last_attempt DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  date_sent DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'
);
CREATE INDEX wp_sendpress_queue_to_email ON wp_sendpress_queue (to_email);
CREATE INDEX wp_sendpress_queue_subscriberID ON wp_sendpress_queue (subscriberID);
CREATE INDEX wp_sendpress_queue_listID ON wp_sendpress_queue (listID);
CREATE INDEX wp_sendpress_queue_inprocess ON wp_sendpress_queue (inprocess);
CREATE INDEX wp_sendpress_queue_success ON wp_sendpress_queue (success);
CREATE INDEX wp_sendpress_queue_max_attempts ON wp_sendpress_queue (max_attempts);
CREATE INDEX wp_sendpress_queue_attempts ON wp_sendpress_queue (attempts);
CREATE INDEX wp_sendpress_queue_last_attempt ON wp_sendpress_queue (last_attempt);
CREATE INDEX wp_sendpress_queue_date_sent ON wp_sendpress_queue (date_sent);
CREATE INDEX wp_sendpress_queue_success_date ON wp_sendpress_queue (success, last_attempt, max_attempts, attempts, inprocess, date_sent);

-- Newsletters, 25 mails with each call, picked at random: 1150 and 1181 are long sent (sent mails purged on 2026-11-19), 1190 was cancelled,
-- 1204 and 1219 sent, 1233 is to be sent on 2026-11-26, 1236 is being sent now; confirmations of new subscribers in between.
WITH RECURSIVE c(k, mail, first, cnt, pub, due) AS (VALUES
  (1, 1150, 1, 58, '2026-10-08 09:00:12', '0000-00-00 00:00:00'), (2, 1181, 60, 59, '2026-10-22 09:02:40', '0000-00-00 00:00:00'),
  (3, 1190, 121, 24, '2026-11-03 14:31:05', '0000-00-00 00:00:00'), (4, 1204, 147, 60, '2026-11-12 17:45:21', '2026-11-12 18:00:00'),
  (5, 1219, 209, 60, '2026-11-19 17:40:33', '2026-11-19 18:00:00'), (6, 1233, 271, 40, '2026-11-23 16:10:44', '2026-11-26 09:00:00'),
  (7, 1236, 313, 60, '2026-11-24 11:50:02', '0000-00-00 00:00:00')),
m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 59),
r AS (SELECT c.first + j AS id, (j * 37) % 60 AS p, j + 1 AS sub, 44 + j % 2 AS list, k, mail, pub, due, strftime('%s', CASE WHEN due > pub THEN due ELSE pub END) + CASE k WHEN 7 THEN 296 ELSE 61 END + ((j * 37) % 60 / 25) * 300 + ((j * 37) % 60 % 25) * 2 AS la,
    CASE WHEN k = 3 THEN 'cancelled' WHEN k = 6 THEN 'new'
      WHEN j IN (16, 51) AND k IN (1, 2) AND (j = 16) = (k = 1) THEN 'bounced' WHEN k = 4 AND j = 58 THEN 'bounced'
      WHEN (k = 1 AND j IN (32, 33)) OR (k = 2 AND j = 40) OR (k = 4 AND j IN (11, 12, 37)) OR (k = 5 AND j = 8) OR (k = 7 AND (j * 37) % 60 IN (5, 19)) THEN 'failed'
      WHEN k = 5 AND j = 49 THEN 'stuck' WHEN k = 7 AND (j * 37) % 60 = 25 THEN 'running' WHEN k = 7 AND (j * 37) % 60 > 25 THEN 'new' ELSE 'sent' END AS st
  FROM c, m WHERE j < cnt),
o(id, sub, at) AS (VALUES (207, 61, '2026-11-15 20:17:33'), (269, 60, '2026-11-21 08:52:10'), (270, 62, '2026-11-22 13:05:48'), (311, 58, '2026-11-24 07:31:20'), (312, 59, '2026-11-24 10:04:56')),
a AS (SELECT id, sub, list, mail, pub, due, la, st, 0 AS conf, k, p FROM r WHERE NOT (st = 'sent' AND k <= 2)
  UNION ALL SELECT id, sub, 0, 12, at, '0000-00-00 00:00:00', strftime('%s', at), 'sent', 1, 0, 0 FROM o)
INSERT INTO wp_sendpress_queue (id, subscriberID, listID, from_name, from_email, to_email, subject, messageID, emailID, max_attempts, attempts, success, date_published, inprocess, last_attempt, date_sent)
SELECT id, sub, list, CASE conf WHEN 1 THEN 'queue' ELSE 'Village paper' END, CASE conf WHEN 1 THEN 'queue' ELSE 'news@paper.example' END, 'reader' || sub || '@mail.example', '',
  printf('%08x%08x%08x%08x@www.paper.example', id * 2654435761 % 4294967296, id * 40503977 % 4294967296, id * 97561733 % 4294967296, id * 611953 % 4294967296), mail, 1,
  st = 'failed', CASE st WHEN 'sent' THEN 1 WHEN 'bounced' THEN 2 WHEN 'cancelled' THEN 86 ELSE 0 END,
  datetime(pub, '+' || CASE WHEN conf THEN 0 ELSE sub / 30 END || ' seconds'),
  CASE WHEN st IN ('sent', 'bounced') OR (k = 3 AND p < 6) THEN 3 WHEN st IN ('running', 'stuck') THEN 1 ELSE 0 END,
  CASE WHEN st = 'new' OR (k = 3 AND p >= 6) THEN '0000-00-00 00:00:00' ELSE datetime(la, 'unixepoch') END,
  due
FROM a ORDER BY id;
