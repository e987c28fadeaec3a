-- dialect: sqlite
CREATE TABLE wp_mailpoet_newsletters (id INTEGER PRIMARY KEY AUTOINCREMENT, hash VARCHAR(150) DEFAULT NULL, parent_id INT, subject VARCHAR(250) NOT NULL DEFAULT '', type VARCHAR(20) NOT NULL DEFAULT 'standard', status VARCHAR(20) NOT NULL DEFAULT 'draft', sent_at TIMESTAMP NULL, created_at TIMESTAMP NULL, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, deleted_at TIMESTAMP NULL);
INSERT INTO wp_mailpoet_newsletters (hash, subject, type, status, sent_at, created_at, updated_at, deleted_at) VALUES
  ('0f5k2m8q1rgk', 'Welcome!', 'welcome', 'active', NULL, '2026-09-02 09:10:11', '2026-09-02 09:31:00', NULL), ('1b6n3p9s2thl', 'How is it going?', 'welcome', 'active', NULL, '2026-09-02 10:02:45', '2026-09-03 08:00:12', NULL),
  ('2c7q4r0u3vim', 'November news', 'standard', 'sending', NULL, '2026-11-23 15:20:07', '2026-11-24 11:57:30', NULL), ('3d8s5t1w4xjn', 'Old offer', 'standard', 'scheduled', NULL, '2026-11-12 10:11:12', '2026-11-18 16:40:00', '2026-11-18 16:40:00');

CREATE TABLE wp_mailpoet_scheduled_tasks (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  type VARCHAR(90) NULL DEFAULT NULL,
  status VARCHAR(12) NULL DEFAULT NULL,
  priority MEDIUMINT(9) NOT NULL DEFAULT 0,
  scheduled_at TIMESTAMP NULL,
  processed_at TIMESTAMP NULL,
  created_at TIMESTAMP NULL,
  updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  deleted_at TIMESTAMP NULL,
  in_progress INT(1),
  reschedule_count INT(11) NOT NULL DEFAULT 0,
  meta LONGTEXT,
  cancelled_at TIMESTAMP NULL
);
CREATE INDEX type ON wp_mailpoet_scheduled_tasks (type);
CREATE INDEX status ON wp_mailpoet_scheduled_tasks (status);
-- Welcome mails at once, after an hour, after a week; newsletters; daily tasks of the plugin. A run each minute or two.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 254),
a AS (SELECT i, strftime('%s', '2026-11-24 12:00:00') + 0 AS now,
  CASE WHEN i <= 238 THEN strftime('%s', '2026-10-12 07:15:22') + i * 15560 + (i * 797) % 9000 ELSE strftime('%s', '2026-11-24 11:40:05') + (i - 238) * 73 END AS c,
  CASE WHEN i IN (229, 241, 244) THEN 'service' WHEN i IN (58, 128, 187, 209, 233) THEN 'newsletter' WHEN i = 247 THEN 'hour' WHEN i IN (248, 250, 253, 254) THEN 'now' ELSE CASE i % 10 WHEN 0 THEN 'inactive_subscribers' WHEN 3 THEN 'stats_notification' WHEN 5 THEN 'subscribers_engagement_score' WHEN 7 THEN 'subscribers_email_count' WHEN 8 THEN 'premium_key_check' WHEN 2 THEN 'week' WHEN 6 THEN 'hour' ELSE 'now' END END AS k FROM n),
b AS (SELECT a.*, CASE k WHEN 'now' THEN c WHEN 'hour' THEN c + 3600 WHEN 'week' THEN c + 604800 WHEN 'newsletter' THEN c + 7200 - c % 1800 WHEN 'service' THEN c + 60 WHEN 'stats_notification' THEN c + 86400 ELSE c + 40000 + (i * 613) % 40000 END AS w FROM a),
s AS (SELECT b.*, CASE WHEN i = 233 THEN 'running' WHEN i = 187 THEN 'trashed' WHEN i = 209 THEN 'paused' WHEN i IN (61, 149) THEN 'invalid' WHEN i IN (112, 202) THEN 'cancelled' WHEN i IN (229, 241, 244, 239, 226) THEN 'failing' WHEN w + 110 > now THEN 'scheduled' ELSE 'completed' END AS st FROM b),
f AS (SELECT s.*, CASE WHEN st = 'failing' THEN CASE i WHEN 226 THEN 7 WHEN 229 THEN 6 WHEN 239 THEN 2 WHEN 241 THEN 2 ELSE 1 END WHEN st = 'completed' AND i % 29 = 4 THEN 1 + i % 2 ELSE 0 END AS r,
  CASE st WHEN 'failing' THEN now - 47 - (i % 5) * 101 WHEN 'completed' THEN w + 20 + (i * 31) % 80 WHEN 'invalid' THEN w + 44 WHEN 'cancelled' THEN c + 1777 WHEN 'paused' THEN w - 900 WHEN 'running' THEN now - 22 WHEN 'trashed' THEN strftime('%s', '2026-11-18 16:40:00') + 0 ELSE c END AS u FROM s)
INSERT INTO wp_mailpoet_scheduled_tasks (id, type, status, priority, scheduled_at, processed_at, created_at, updated_at, deleted_at, in_progress, reschedule_count, meta, cancelled_at)
SELECT 1840 + i,
  CASE k WHEN 'service' THEN CASE i WHEN 241 THEN 'bounce' WHEN 244 THEN 'stats_notification' ELSE 'sending_service_key_check' END WHEN 'now' THEN 'sending' WHEN 'hour' THEN 'sending' WHEN 'week' THEN 'sending' WHEN 'newsletter' THEN 'sending' ELSE k END,
  CASE st WHEN 'running' THEN NULL WHEN 'failing' THEN 'scheduled' WHEN 'trashed' THEN 'scheduled' ELSE st END,
  CASE WHEN k IN ('now', 'hour', 'week') THEN 1 WHEN k = 'newsletter' THEN 5 ELSE 10 END,
  datetime(CASE WHEN st = 'failing' THEN u + 300 * (1 << (r - 1)) WHEN i = 187 THEN strftime('%s', '2026-12-01 08:00:00') + 0 WHEN r > 0 THEN w + 300 * r ELSE w END, 'unixepoch'),
  CASE st WHEN 'completed' THEN datetime(u + 300 * r, 'unixepoch') END,
  datetime(c, 'unixepoch'), datetime(CASE st WHEN 'completed' THEN u + 300 * r ELSE u END, 'unixepoch'),
  CASE st WHEN 'trashed' THEN datetime(u, 'unixepoch') END,
  CASE WHEN st = 'running' THEN 1 WHEN st IN ('completed', 'failing', 'invalid') THEN 0 END, r,
  CASE WHEN k IN ('inactive_subscribers', 'subscribers_email_count') AND st = 'completed' THEN '{"highest_subscriber_id":' || (4000 + i * 3) || ',"last_subscriber_id":' || (3990 + i * 3) || '}' END,
  CASE st WHEN 'cancelled' THEN datetime(u, 'unixepoch') END
FROM f ORDER BY i;

CREATE TABLE wp_mailpoet_sending_queues (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id INT NOT NULL, newsletter_id INT, newsletter_rendered_subject VARCHAR(250), count_total INT NOT NULL DEFAULT 0, count_processed INT NOT NULL DEFAULT 0, count_to_process INT NOT NULL DEFAULT 0, meta LONGTEXT, created_at TIMESTAMP NULL, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, deleted_at TIMESTAMP NULL);
INSERT INTO wp_mailpoet_sending_queues (task_id, newsletter_id, count_total, count_processed, count_to_process, created_at, updated_at, deleted_at)
SELECT id, CASE WHEN id = 2073 THEN 3 WHEN id = 2027 THEN 4 ELSE 1 + id % 2 END, CASE WHEN priority = 5 THEN 2140 ELSE 1 END, CASE WHEN id = 2073 THEN 860 ELSE processed_at IS NOT NULL END, CASE WHEN id = 2073 THEN 1280 ELSE processed_at IS NULL END, created_at, updated_at, deleted_at FROM wp_mailpoet_scheduled_tasks WHERE type = 'sending' AND id > 2020;
