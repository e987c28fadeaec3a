-- dialect: sqlite
CREATE TABLE smf_settings (variable varchar(255) primary key, value text NOT NULL);
INSERT INTO smf_settings VALUES ('mail_queue', '1'), ('mail_limit', '5'), ('mail_quantity', '5'), ('mail_next_send', '1795521605'), ('mail_recent', '1795521594|5'), ('smfVersion', '2.0.19');
CREATE TABLE smf_members (id_member integer primary key, member_name varchar(80) NOT NULL default '', date_registered int NOT NULL default '0', posts int NOT NULL default '0', last_login int NOT NULL default '0', email_address varchar(255) NOT NULL, notify_announcements smallint NOT NULL default '1', is_activated smallint NOT NULL default '1');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 24)
INSERT INTO smf_members SELECT i, 'member' || i, strftime('%s', '2026-10-01 09:00:00') + i * 50000, i * 3, strftime('%s', '2026-11-20 09:00:00') + i * 3000, 'member' || i || '@mail.example', 1, 1 FROM n;
CREATE TABLE smf_scheduled_tasks (id_task integer primary key, next_time int NOT NULL default '0', time_offset int NOT NULL default '0', time_regularity smallint NOT NULL default '0', time_unit varchar(1) NOT NULL default 'h', disabled smallint NOT NULL default '0', task varchar(24) NOT NULL default '');
INSERT INTO smf_scheduled_tasks VALUES (1, 1795528800, 0, 2, 'h', 0, 'approval_notification'), (3, 1795564860, 60, 1, 'd', 0, 'daily_maintenance'), (5, 1795564800, 0, 1, 'd', 0, 'daily_digest');

CREATE TABLE smf_mail_queue (
  id_mail integer primary key,
  time_sent int NOT NULL default '0',
  recipient varchar(255) NOT NULL,
  body text NOT NULL,
  subject varchar(255) NOT NULL,
  headers text NOT NULL,
  send_html smallint NOT NULL default '0',
  priority smallint NOT NULL default '1',
  private smallint NOT NULL default '0'
);
CREATE INDEX smf_mail_queue_time_sent ON smf_mail_queue (time_sent);
CREATE INDEX smf_mail_queue_mail_priority ON smf_mail_queue (priority, id_mail);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 112),
k AS (SELECT i, CASE WHEN i <= 52 THEN strftime('%s', '2026-11-03 07:12:00') + i * 31800 + (i * 67) % 4001 WHEN i <= 84 THEN strftime('%s', '2026-11-23 18:00:05') + (i - 52) / 8 ELSE strftime('%s', '2026-11-24 11:20:00') + (i - 84) * 81 END AS ts FROM n)
INSERT INTO smf_mail_queue (id_mail, time_sent, recipient, body, subject, headers, send_html, priority, private)
SELECT i * 23 + (i * i) % 19 + CASE WHEN i > 52 THEN 400 ELSE 0 END, ts, 'member' || (1 + i % 24) || CASE WHEN i <= 52 THEN '@overquota.example' ELSE '@mail.example' END,
  CASE WHEN i BETWEEN 53 AND 84 THEN '<html><body>News of the board</body></html>' ELSE 'A reply has been posted to a topic you are watching by member' || (1 + (i * 5) % 24) || '.' || char(13, 10) || 'https://board.example/index.php?topic=' || (90 + i) || '.new;topicseen#new' END,
  CASE WHEN i BETWEEN 53 AND 84 THEN 'Newsletter November' ELSE 'Topic reply: How to bake (' || i || ')' END,
  'From: "Board" <board@board.example>' || char(13, 10) || 'Return-Path: <board@board.example>' || char(13, 10) || 'Mime-Version: 1.0' || char(13, 10), CASE WHEN i BETWEEN 53 AND 84 THEN 1 ELSE 0 END, CASE WHEN i BETWEEN 53 AND 84 THEN 5 WHEN i % 6 = 0 THEN 2 ELSE 3 END, CASE WHEN i % 14 = 0 THEN 1 ELSE 0 END
FROM k ORDER BY i;
CREATE TABLE smf_log_errors (id_error integer primary key, log_time int NOT NULL default '0', id_member int NOT NULL default '0', message text NOT NULL, error_type varchar(15) NOT NULL default 'general');
INSERT INTO smf_log_errors SELECT id_mail, time_sent + 60, 0, 'There was a problem sending mail to ' || recipient || '.', 'general' FROM smf_mail_queue WHERE id_mail < 300;
