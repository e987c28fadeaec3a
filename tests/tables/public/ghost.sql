-- dialect: sqlite
CREATE TABLE `newsletters` (`id` varchar(24) not null primary key, `uuid` varchar(36) not null, `name` varchar(191) not null, `slug` varchar(191) not null, `status` varchar(50) not null default 'active', `created_at` datetime not null, `updated_at` datetime null);
INSERT INTO `newsletters` VALUES ('671b0000a1b2c3d4e5f60001', '0c7fd3de-8f2f-4f3c-b0d1-5d8d6d3c1a01', 'Weekly', 'weekly', 'active', '2026-10-01 06:00:00', '2026-10-01 06:00:00');
CREATE TABLE `emails` (`id` varchar(24) not null primary key, `post_id` varchar(24) not null, `uuid` varchar(36) not null, `status` varchar(50) not null default 'pending', `recipient_filter` text not null, `error` varchar(2000) null, `error_data` text null, `email_count` integer not null default 0, `delivered_count` integer not null default 0, `opened_count` integer not null default 0, `failed_count` integer not null default 0, `subject` varchar(300) null, `newsletter_id` varchar(24) null, `submitted_at` datetime not null, `created_at` datetime not null, `updated_at` datetime null);
CREATE TABLE `email_batches` (
  `id` varchar(24) not null,
  `email_id` varchar(24) not null,
  `provider_id` varchar(255) null,
  `fallback_sending_domain` boolean not null default '0',
  `status` varchar(50) not null default 'pending',
  `member_segment` text null,
  `error_status_code` integer null,
  `error_message` varchar(2000) null,
  `error_data` text null,
  `created_at` datetime not null,
  `updated_at` datetime not null,
  foreign key(`email_id`) references `emails`(`id`),
  primary key (`id`)
);
CREATE TABLE `email_recipients` (`id` varchar(24) not null primary key, `email_id` varchar(24) not null, `member_id` varchar(24) not null, `batch_id` varchar(24) not null, `processed_at` datetime null, `delivered_at` datetime null, `opened_at` datetime null, `failed_at` datetime null, `member_uuid` varchar(36) not null, `member_email` varchar(191) not null, `member_name` varchar(191) null);
CREATE INDEX `email_recipients_member_id_index` on `email_recipients` (`member_id`);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 22),
k AS (SELECT i, CASE WHEN i < 22 THEN datetime('2026-10-01 08:30:00', '+' || (i * 3600) || ' minutes') ELSE '2026-11-24 11:56:00' END AS c FROM n)
INSERT INTO `emails` SELECT printf('%08x', strftime('%s', c)) || printf('%016x', i * 2654435761 * 97), printf('%08x', strftime('%s', c) - 900) || printf('%016x', i * 40503 * 977), printf('%08x-41b1-4d2a-8e3f-%012x', i * 7919, i * 104729), CASE WHEN i = 22 THEN 'submitting' WHEN i IN (4, 9, 13, 18) THEN 'failed' ELSE 'submitted' END, 'all', CASE WHEN i IN (4, 9, 13, 18) THEN 'Error sending email batch' END, NULL, 5000, CASE WHEN i < 22 THEN 4700 + i ELSE 0 END, CASE WHEN i < 22 THEN 2000 + i * 7 ELSE 0 END, 0, 'Weekly #' || i, '671b0000a1b2c3d4e5f60001', c, c, datetime(c, '+6 minutes') FROM k ORDER BY i;

WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 153),
k AS (SELECT i, i / 7 + 1 AS e, i % 7 AS b FROM n),
m AS (SELECT k.*, x.id AS eid, datetime(x.created_at, '+' || (12 + b) || ' seconds') AS c,
  CASE WHEN e = 22 THEN CASE WHEN b < 1 THEN 'submitted' WHEN b = 1 THEN 'failed' WHEN b = 2 THEN 'submitting' ELSE 'pending' END WHEN e IN (4, 9, 13, 18) AND b IN (2, 3 + e % 3) THEN 'failed' WHEN e IN (13, 18) AND b = 6 THEN 'pending' ELSE 'submitted' END AS st
  FROM k JOIN (SELECT id, created_at, row_number() OVER (ORDER BY created_at) AS r FROM `emails`) x ON x.r = e)
INSERT INTO `email_batches` (id, email_id, provider_id, fallback_sending_domain, status, member_segment, error_status_code, error_message, error_data, created_at, updated_at)
SELECT printf('%08x', strftime('%s', c)) || printf('%010x', (e * 2654435761) % 1099511627776) || printf('%06x', 4096 + i), eid, CASE st WHEN 'submitted' THEN strftime('%Y%m%d%H%M%S', c) || '.' || printf('%016x', i * 2654435761) || '@mg.blog.example' END, 0, st,
  CASE b WHEN 0 THEN 'status:free' WHEN 1 THEN 'status:-free' END,
  CASE st WHEN 'failed' THEN CASE e % 2 WHEN 0 THEN 503 ELSE 429 END END,
  CASE st WHEN 'failed' THEN CASE e % 2 WHEN 0 THEN 'Mailgun Error: Service Unavailable' ELSE 'Mailgun Error: Too Many Requests' END END,
  CASE st WHEN 'failed' THEN '{"error":{"status":' || CASE e % 2 WHEN 0 THEN 503 ELSE 429 END || '},"messageData":{}}' END,
  c, CASE st WHEN 'pending' THEN c WHEN 'failed' THEN datetime(c, '+' || (40 + b * 9) || ' seconds') ELSE datetime(c, '+' || (20 + b * 31) || ' seconds') END
FROM m ORDER BY i;
INSERT INTO `email_recipients` (id, email_id, member_id, batch_id, processed_at, delivered_at, member_uuid, member_email, member_name)
SELECT substr(b.id, 1, 20) || printf('%04x', b.rowid), b.email_id, printf('671b0000a1b2c3d4%08x', b.rowid), b.id, CASE b.status WHEN 'submitted' THEN b.updated_at END, CASE b.status WHEN 'submitted' THEN datetime(b.updated_at, '+1 minutes') END, printf('%08x-5555-4d2a-8e3f-%012x', b.rowid, b.rowid), 'member' || b.rowid || '@mail.example', 'Member ' || b.rowid FROM `email_batches` b WHERE b.rowid > 130;
