-- dialect: sqlite
CREATE TABLE `users` (`id` varchar(32) NOT NULL, `email` text NOT NULL, `password` text NOT NULL, `full_name` text NOT NULL DEFAULT '', `is_admin` integer NOT NULL DEFAULT '0', `updated_time` bigint NOT NULL, `created_time` bigint NOT NULL, `email_confirmed` integer NOT NULL DEFAULT '0', `must_set_password` integer NOT NULL DEFAULT '0', `account_type` integer NOT NULL DEFAULT '0', `can_upload` integer NOT NULL DEFAULT '1', `enabled` integer NOT NULL DEFAULT '1', `disabled_time` bigint NOT NULL DEFAULT '0', PRIMARY KEY (`id`));
CREATE UNIQUE INDEX `users_email_unique` ON `users` (`email`);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
INSERT INTO `users` SELECT substr('Qm4TzKcVb8Xw1LrNp', i, 5) || printf('%017d', i * 7919), 'notes' || i || '@mail.example', '$2a$10$' || printf('%053d', i * 104729), CASE WHEN i % 3 = 0 THEN '' ELSE 'Note Taker ' || i END, i = 1, 1791000000000 + i * 86400321, 1790900000000 + i * 86400321, 1, 0, 1 + i % 2, 1, 1, 0 FROM n;
CREATE TABLE `task_states` (`id` integer NOT NULL PRIMARY KEY AUTOINCREMENT, `task_id` integer NOT NULL, `running` smallint NOT NULL DEFAULT '0', `enabled` smallint NOT NULL DEFAULT '1', `updated_time` bigint NOT NULL, `created_time` bigint NOT NULL);
CREATE UNIQUE INDEX `task_states_task_id_unique` ON `task_states` (`task_id`);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11)
INSERT INTO `task_states` (task_id, running, enabled, updated_time, created_time) SELECT i, 0, 1, 1795521540000 + i * 611, 1790900000000 + i FROM n;

CREATE TABLE `emails` (
  `id` integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  `recipient_name` text NOT NULL DEFAULT '',
  `recipient_email` text NOT NULL DEFAULT '',
  `recipient_id` varchar(32) NOT NULL DEFAULT '',
  `sender_id` integer NOT NULL,
  `subject` varchar(128) NOT NULL,
  `body` text NOT NULL,
  `sent_time` bigint NOT NULL DEFAULT '0',
  `sent_success` integer NOT NULL DEFAULT '0',
  `error` text NOT NULL DEFAULT '',
  `updated_time` bigint NOT NULL,
  `created_time` bigint NOT NULL,
  `key` text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX `emails_id_unique` ON `emails` (`id`);
CREATE INDEX `emails_sent_time_index` ON `emails` (`sent_time`);
CREATE INDEX `emails_sent_success_index` ON `emails` (`sent_success`);

-- The task that sends runs at each full minute; since the restart at 09:47 the mail server cannot be reached, so that it stops before the first mail.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 161),
a AS (SELECT i, CASE WHEN i <= 138 THEN (strftime('%s', '2026-10-12 06:11:04') + i * 26500 + (i * 1913) % 17000) * 1000 + (i * 337) % 1000 ELSE (strftime('%s', '2026-11-24 09:47:20') + (i - 138) * 338) * 1000 + (i * 337) % 1000 END AS c,
  CASE WHEN i % 7 = 3 THEN 'oversize' WHEN i % 11 = 6 THEN 'payment' WHEN i % 3 = 1 THEN 'reset' WHEN i % 13 = 8 THEN 'change' ELSE 'confirm' END AS k,
  i <= 138 AS tried, i <= 138 AND (i % 19 = 9 OR i IN (70, 71, 72)) AS bad, 1 + (i * 5) % 9 AS u FROM n),
b AS (SELECT i, k, tried, bad, u, CASE k WHEN 'oversize' THEN c - c % 7200000 + 1800000 + 90 + (i * 53) % 900 ELSE c END AS c FROM a),
d AS (SELECT i, k, tried, bad, u, c, CASE WHEN tried THEN (c / 60000 + 1) * 60000 + 240 + (i * 97) % 1900 ELSE 0 END AS s FROM b)
INSERT INTO `emails` (recipient_name, recipient_email, recipient_id, sender_id, subject, body, sent_time, sent_success, error, updated_time, created_time, key)
SELECT CASE WHEN k = 'confirm' THEN '' WHEN u % 3 = 0 THEN '' ELSE 'Note Taker ' || u END,
  CASE WHEN k = 'confirm' THEN 'newcomer' || i || CASE WHEN i % 19 = 9 THEN '@nowhere.invalid' ELSE '@mail.example' END ELSE 'notes' || u || '@mail.example' END,
  CASE WHEN k = 'confirm' THEN substr('aZ9kQw3LmTr7', 1 + i % 8, 5) || printf('%017d', i * 15485863) ELSE substr('Qm4TzKcVb8Xw1LrNp', u, 5) || printf('%017d', u * 7919) END,
  CASE k WHEN 'oversize' THEN 2 ELSE 1 END,
  CASE k WHEN 'oversize' THEN 'Your Joplin Server account is over ' || CASE i % 2 WHEN 0 THEN '80' ELSE '100' END || '% full' WHEN 'payment' THEN 'Joplin Server subscription payment failed' WHEN 'reset' THEN 'Reset your Joplin Server password' WHEN 'change' THEN 'Confirm your new Joplin Server account email' ELSE 'Your new Joplin Server account is almost ready to use' END,
  CASE k WHEN 'oversize' THEN 'Your account is over ' || CASE i % 2 WHEN 0 THEN '80' ELSE '100' END || '% full.' || char(10) || char(10) || 'Please delete some notes or attachments, or upgrade: https://joplin.example/upgrade' WHEN 'payment' THEN 'Hello,' || char(10) || char(10) || 'We were not able to process your last payment. Please follow this URL to update your payment details: https://joplin.example/stripe/portal'
    WHEN 'reset' THEN 'Somebody asked to reset your password on Joplin Server' || char(10) || char(10) || '[Reset password](https://joplin.example/password/reset?token=' || printf('%032d', i * 99991) || ')' ELSE 'Please click on the following link to finish setting up your account:' || char(10) || char(10) || '[Complete your account](https://joplin.example/users/' || i || '/confirm?token=' || printf('%032d', i * 86028121) || ')' END,
  s, tried AND NOT bad,
  CASE WHEN bad THEN CASE WHEN i BETWEEN 70 AND 72 THEN '{"code":"ETIMEDOUT","message":"Connection timeout","stack":"Error: Connection timeout\n    at SMTPConnection._formatError (/home/joplin/packages/server/node_modules/nodemailer/lib/smtp-connection/index.js:790:19)"}' ELSE '{"code":"EENVELOPE","message":"Can''t send mail - all recipients were rejected: 550 5.1.2 Domain not found","stack":"Error: Can''t send mail - all recipients were rejected: 550 5.1.2 Domain not found\n    at SMTPConnection._formatError (/home/joplin/packages/server/node_modules/nodemailer/lib/smtp-connection/index.js:790:19)"}' END ELSE '' END,
  CASE WHEN tried THEN s + 310 + (i * 41) % 800 ELSE c END, c,
  CASE k WHEN 'oversize' THEN 'oversizedAccount::' || (1 + u % 2) || '::' || CASE i % 2 WHEN 0 THEN '80' ELSE '100' END || '::' || strftime('%m', c / 1000, 'unixepoch') || '26' ELSE '' END
FROM d ORDER BY c;
