-- dialect: sqlite
CREATE TABLE `tbl_options` (`id` INTEGER PRIMARY KEY AUTOINCREMENT, `name` VARCHAR(50) NOT NULL, `value` TEXT NOT NULL);
INSERT INTO `tbl_options` (`name`, `value`) VALUES ('base_uri', 'https://files.agency.example/'), ('max_thumbnail_width', '100'), ('allowed_file_types', 'pdf,doc,docx,zip,jpg,png'), ('this_install_title', 'Agency files'), ('admin_email_address', 'admin@agency.example'), ('mail_system_use', 'smtp');
CREATE TABLE `tbl_users` (`id` INTEGER PRIMARY KEY AUTOINCREMENT, `user` VARCHAR(60) NOT NULL, `name` TEXT NOT NULL, `email` VARCHAR(60) NOT NULL, `level` TINYINT(1) NOT NULL DEFAULT 0, `timestamp` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, `notify` TINYINT(1) NOT NULL DEFAULT 0, `created_by` VARCHAR(60) NULL, `active` TINYINT(1) NOT NULL DEFAULT 1);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 16)
INSERT INTO `tbl_users` SELECT i, CASE WHEN i = 1 THEN 'admin' WHEN i = 2 THEN 'uploader' ELSE 'client' || i END, CASE WHEN i <= 2 THEN 'Staff ' || i ELSE 'Client ' || i END, 'u' || i || '@client.example', CASE i WHEN 1 THEN 9 WHEN 2 THEN 7 ELSE 0 END, datetime('2026-08-02 09:14:20', '+' || (i * 37) || ' hours'), i > 2, CASE WHEN i > 2 THEN 'admin' END, i NOT IN (9, 14) FROM n;
CREATE TABLE `tbl_files` (`id` INTEGER PRIMARY KEY AUTOINCREMENT, `url` TEXT NOT NULL, `original_url` TEXT NOT NULL, `filename` TEXT NOT NULL, `description` TEXT, `timestamp` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, `uploader` VARCHAR(60) NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80)
INSERT INTO `tbl_files` SELECT i, printf('%d-draft-%d.pdf', 1790000000 + i * 65000, i), 'draft-' || i || '.pdf', 'Draft ' || i, '', datetime('2026-10-05 08:00:00', '+' || (i * 15) || ' hours'), CASE WHEN i % 5 = 0 THEN 'client' || (3 + i % 11) ELSE 'uploader' END FROM n;

CREATE TABLE `tbl_notifications` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `file_id` INT(11) NOT NULL,
  `client_id` INT(11) NOT NULL,
  `upload_type` INT(11) NOT NULL,
  `sent_status` INT(2) NOT NULL,
  `times_failed` INT(11) NOT NULL,
  `timestamp` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  FOREIGN KEY (`file_id`) REFERENCES `tbl_files` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  FOREIGN KEY (`client_id`) REFERENCES `tbl_users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX `tbl_notifications_file_id` ON `tbl_notifications` (`file_id`);
CREATE INDEX `tbl_notifications_client_id` ON `tbl_notifications` (`client_id`);
-- Three clients are told of each file of the staff, the staff of each file of a client. cron.php every ten minutes; the mail server did not answer on three days, and does not since 11:45.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 237),
f AS (SELECT i, 1 + (i - 1) / 3 AS f, CASE WHEN i <= 219 THEN strftime('%s', '2026-10-05 08:06:40') + ((i - 1) / 3) * 59200 + (i - 1) % 3 WHEN i <= 228 THEN strftime('%s', '2026-11-24 11:44:09') + (i - 220) / 3 * 97 + i % 3 ELSE strftime('%s', '2026-11-24 11:51:37') + (i - 229) / 3 * 171 + i % 3 END AS e FROM n),
c AS (SELECT i, f, e, 3 + (f * 5 + (i % 3) * 4 + f / 7) % 14 AS c FROM f)
INSERT INTO `tbl_notifications` (id, file_id, client_id, upload_type, sent_status, times_failed, timestamp)
SELECT row_number() OVER (ORDER BY i), f, c, CASE WHEN f % 5 = 0 THEN 0 ELSE 1 END,
  CASE WHEN f % 5 <> 0 AND c IN (9, 14) THEN 3 WHEN i > 219 OR i BETWEEN 61 AND 66 OR i BETWEEN 142 AND 144 OR i IN (101, 173) THEN 0 ELSE 1 END,
  CASE WHEN f % 5 <> 0 AND c IN (9, 14) THEN 0 WHEN i > 228 THEN 0 WHEN i > 219 THEN 1 WHEN i BETWEEN 61 AND 66 OR i BETWEEN 142 AND 144 OR i IN (101, 173) THEN 2 WHEN i BETWEEN 118 AND 120 OR i = 187 THEN 1 ELSE 0 END,
  datetime(e, 'unixepoch')
FROM c WHERE f % 5 <> 0 OR i % 3 = 1 ORDER BY i;
-- two files were deleted since
DELETE FROM `tbl_notifications` WHERE `file_id` IN (12, 51);
DELETE FROM `tbl_files` WHERE `id` IN (12, 51);
