-- dialect: sqlite
CREATE TABLE migrations (version VARCHAR(191) NOT NULL PRIMARY KEY, executed_at DATETIME DEFAULT NULL, execution_time INTEGER DEFAULT NULL);
INSERT INTO migrations VALUES ('Mautic\Migrations\Version20230101000001', '2026-10-01 08:00:00', 12), ('Mautic\Migrations\Version20230101000002', '2026-10-01 08:00:01', 9), ('Mautic\Migrations\Version20230101000003', '2026-10-01 08:00:01', 31);
CREATE TABLE leads (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, is_published BOOLEAN NOT NULL, date_added DATETIME DEFAULT NULL, points INTEGER NOT NULL, last_active DATETIME DEFAULT NULL, firstname VARCHAR(191) DEFAULT NULL, email VARCHAR(191) DEFAULT NULL);
INSERT INTO leads (is_published, date_added, points, last_active, firstname, email) VALUES (1, '2026-10-01 09:00:00', 10, '2026-11-20 10:00:00', 'Ann', 'ann@mail.example'), (1, '2026-10-02 09:00:00', 0, NULL, 'Bob', 'bob@mail.example'), (1, '2026-10-03 09:00:00', 25, '2026-11-23 19:00:00', 'Cid', 'cid@mail.example'), (1, '2026-10-04 09:00:00', 5, NULL, 'Dee', 'dee@mail.example');
CREATE TABLE emails (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, is_published BOOLEAN NOT NULL, date_added DATETIME DEFAULT NULL, name VARCHAR(191) NOT NULL, subject VARCHAR(191) DEFAULT NULL, custom_html CLOB DEFAULT NULL, sent_count INTEGER NOT NULL, read_count INTEGER NOT NULL);
INSERT INTO emails (is_published, date_added, name, subject, custom_html, sent_count, read_count) VALUES (1, '2026-10-05 09:00:00', 'Welcome', 'Welcome!', '<p>Hi</p>', 120, 60), (1, '2026-10-06 09:00:00', 'News', 'News of the month', '<p>News</p>', 300, 90);
CREATE TABLE campaign_events (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name VARCHAR(191) NOT NULL, type VARCHAR(50) NOT NULL, event_type VARCHAR(50) NOT NULL, trigger_date DATETIME DEFAULT NULL);
INSERT INTO campaign_events (name, type, event_type) VALUES ('Send welcome', 'email.send', 'action'), ('Send news', 'email.send', 'action');

CREATE TABLE message_queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  event_id INTEGER DEFAULT NULL,
  lead_id INTEGER NOT NULL,
  channel VARCHAR(255) NOT NULL,
  channel_id INTEGER NOT NULL,
  priority SMALLINT NOT NULL,
  max_attempts SMALLINT NOT NULL,
  attempts SMALLINT NOT NULL,
  success BOOLEAN NOT NULL,
  status VARCHAR(255) NOT NULL,
  date_published DATETIME DEFAULT NULL,
  scheduled_date DATETIME DEFAULT NULL,
  last_attempt DATETIME DEFAULT NULL,
  date_sent DATETIME DEFAULT NULL,
  options CLOB DEFAULT NULL,
  CONSTRAINT FK_805B808871F7E88B FOREIGN KEY (event_id) REFERENCES campaign_events (id) ON DELETE CASCADE,
  CONSTRAINT FK_805B808855458D FOREIGN KEY (lead_id) REFERENCES leads (id) ON DELETE CASCADE
);
CREATE INDEX IDX_805B808871F7E88B ON message_queue (event_id);
CREATE INDEX IDX_805B808855458D ON message_queue (lead_id);
CREATE INDEX message_status_search ON message_queue (status);
CREATE INDEX message_date_sent ON message_queue (date_sent);
CREATE INDEX message_scheduled_date ON message_queue (scheduled_date);
CREATE INDEX message_priority ON message_queue (priority);
CREATE INDEX message_success ON message_queue (success);
CREATE INDEX message_channel_search ON message_queue (channel, channel_id);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 118),
k AS (
  SELECT i, datetime(CASE WHEN i <= 99 THEN '2026-10-21 08:00:00' ELSE '2026-11-24 10:20:00' END, '+' || (CASE WHEN i <= 99 THEN i * 476 + (i * 37) % 90 ELSE (i - 99) * 5 END) || ' minutes') AS c, 3 AS m,
    CASE WHEN i <= 99 AND i % 24 = 13 THEN 'gone' WHEN i <= 99 THEN 'sent' WHEN i <= 105 THEN 'again' ELSE 'new' END AS st
  FROM n)
INSERT INTO message_queue (event_id, lead_id, channel, channel_id, priority, max_attempts, attempts, success, status, date_published, scheduled_date, last_attempt, date_sent, options)
SELECT CASE WHEN i % 3 = 0 THEN NULL ELSE 1 + i % 2 END, 1 + i % 4, CASE WHEN i % 10 = 0 THEN 'sms' ELSE 'email' END, 1 + i % 2, CASE WHEN i % 5 = 0 THEN 1 ELSE 2 END, m,
  CASE st WHEN 'gone' THEN m WHEN 'again' THEN 1 + i % 2 WHEN 'sent' THEN CASE WHEN i % 9 = 0 THEN 1 ELSE 0 END ELSE 0 END,
  CASE st WHEN 'sent' THEN 1 ELSE 0 END,
  CASE st WHEN 'sent' THEN 'sent' WHEN 'new' THEN 'pending' ELSE 'rescheduled' END,
  c,
  CASE st WHEN 'new' THEN datetime('2026-11-24 11:50:00', '+' || ((i % 9) * 310) || ' minutes') WHEN 'again' THEN datetime('2026-11-24 11:57:00', '+' || ((i % 4) * 15) || ' minutes') WHEN 'gone' THEN datetime(c, '+45 minutes') ELSE c END,
  CASE st WHEN 'sent' THEN datetime(c, '+2 minutes') WHEN 'gone' THEN datetime(c, '+31 minutes') WHEN 'again' THEN datetime('2026-11-24 11:42:00', '+' || (i % 4) || ' minutes') END,
  CASE st WHEN 'sent' THEN datetime(c, '+2 minutes') END,
  'a:2:{s:6:"source";a:2:{i:0;s:14:"campaign.event";i:1;i:' || (1 + i % 2) || ';}s:13:"customHeaders";a:0:{}}'
FROM k ORDER BY i;
