-- dialect: sqlite
CREATE TABLE `background_services` (
  `name` VARCHAR(31) NOT NULL,
  `title` VARCHAR(127) NOT NULL,
  `active` TINYINT(1) NOT NULL DEFAULT 0,
  `running` TINYINT(1) NOT NULL DEFAULT -1,
  `next_run` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `execute_interval` INT(11) NOT NULL DEFAULT 0,
  `function` VARCHAR(127) NOT NULL,
  `require_once` VARCHAR(255) DEFAULT NULL,
  `sort_order` INT(11) NOT NULL DEFAULT 100,
  PRIMARY KEY (`name`)
);
INSERT INTO `background_services` VALUES ('phimail', 'phiMail Direct Messaging Service', 0, 0, '2026-09-28 07:00:00', 5, 'phimail_check', '/library/direct_message_check.inc.php', 100),
  ('Email_Service', 'Email Service', 1, 0, '2026-11-24 12:00:03', 2, 'emailServiceRun', '/library/email_service_run.php', 100),
  ('X12_SFTP', 'SFTP Claims to X12 Partner Service', 0, 0, '2026-09-28 07:00:00', 1, 'start_X12_SFTP', '/library/billing_sftp_service.php', 100);

CREATE TABLE `email_queue` (
  `id` INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  `sender` VARCHAR(255) DEFAULT '',
  `recipient` VARCHAR(255) DEFAULT '',
  `subject` VARCHAR(255) DEFAULT '',
  `body` TEXT,
  `datetime_queued` DATETIME DEFAULT NULL,
  `sent` TINYINT DEFAULT 0,
  `datetime_sent` DATETIME DEFAULT NULL,
  `error` TINYINT DEFAULT 0,
  `error_message` TEXT,
  `datetime_error` DATETIME DEFAULT NULL,
  `template_name` VARCHAR(255) DEFAULT NULL
);
CREATE INDEX `email_queue_sent` ON `email_queue` (`sent`);

-- Every two minutes at hh:mm:03. Short outages of the mail server at mails 48, 97 and 140, and again since 11:42.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 186),
q AS (SELECT i, i % 3 = 0 AS tpl, CASE WHEN i <= 176 THEN strftime('%s', '2026-10-12 08:04:10') + i * 20960 + (i * 97) % 1300 ELSE strftime('%s', '2026-11-24 11:42:31') + (i - 177) * 107 END AS e FROM n),
s AS (SELECT *, (e / 120 + 1) * 120 + 3 + CASE WHEN i IN (48, 97) THEN 1440 WHEN i = 140 THEN 6240 ELSE 0 END AS st FROM q)
INSERT INTO `email_queue` (id, sender, recipient, subject, body, datetime_queued, sent, datetime_sent, error, error_message, datetime_error, template_name)
SELECT i, 'office@clinic.example', CASE WHEN i % 5 = 1 THEN 'dr.meyer@clinic.example' ELSE 'patient' || (100 + i * 7 % 60) || '@mail.example' END,
  CASE WHEN tpl THEN 'Message from your clinic' WHEN i % 5 = 1 THEN 'OpenEMR: IP address was blocked' ELSE 'Your appointment request' END,
  CASE WHEN tpl THEN '{"message":"You have a new message in the patient portal","portal_url":"https://portal.clinic.example","id":' || (900 + i) || '}' WHEN i % 5 = 1 THEN 'The IP address 198.51.100.' || (i % 250) || ' was blocked after too many failed logins.' ELSE 'We have received your request no. ' || (4000 + i) || ' and will call you.' END,
  datetime(e, 'unixepoch'),
  CASE WHEN i <= 176 THEN 1 ELSE 0 END,
  CASE WHEN i <= 176 THEN datetime(st + i % 3, 'unixepoch') END,
  CASE WHEN i IN (48, 97, 140, 177) THEN 1 ELSE 0 END,
  CASE WHEN i IN (48, 97, 177) THEN 'Email sending failed: SMTP Error: Could not connect to SMTP host. Connection refused' WHEN i = 140 THEN 'Email sending failed: SMTP Error: Could not authenticate.' END,
  CASE WHEN i = 177 THEN '2026-11-24 11:58:04' WHEN i IN (48, 97, 140) THEN datetime(st - 119, 'unixepoch') END,
  CASE WHEN tpl THEN 'emails/patient/portal_message/message' END
FROM s ORDER BY i;
