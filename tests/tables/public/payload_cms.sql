-- dialect: sqlite
CREATE TABLE `users` (`id` integer PRIMARY KEY NOT NULL, `updated_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL, `created_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL, `email` text NOT NULL, `login_attempts` numeric DEFAULT 0, `lock_until` text);
CREATE UNIQUE INDEX `users_email_idx` ON `users` (`email`);
INSERT INTO `users` VALUES (1, '2026-10-01T07:00:03.120Z', '2026-10-01T07:00:03.120Z', 'editor@magazine.example', 0, NULL), (2, '2026-11-20T16:12:44.871Z', '2026-10-01T07:41:19.553Z', 'desk@magazine.example', 1, NULL);
CREATE TABLE `posts` (`id` integer PRIMARY KEY NOT NULL, `title` text, `slug` text, `published_at` text, `updated_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL, `created_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL, `_status` text DEFAULT 'draft');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 16)
INSERT INTO `posts` SELECT i, 'Post no. ' || i, 'post-no-' || i, CASE WHEN i <= 12 THEN strftime('%Y-%m-%dT08:00:00.000Z', '2026-10-03', '+' || (i * 4) || ' days') END, strftime('%Y-%m-%dT09:12:31.204Z', '2026-10-03', '+' || (i * 3) || ' days'), strftime('%Y-%m-%dT16:40:02.481Z', '2026-10-01', '+' || (i * 3) || ' days'), CASE WHEN i <= 12 THEN 'published' ELSE 'draft' END FROM n;

CREATE TABLE `payload_jobs` (
  `id` integer PRIMARY KEY NOT NULL,
  `input` text,
  `completed_at` text,
  `total_tried` numeric DEFAULT 0,
  `has_error` integer DEFAULT false,
  `error` text,
  `task_slug` text,
  `queue` text DEFAULT 'default',
  `wait_until` text,
  `processing` integer DEFAULT false,
  `updated_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL,
  `created_at` text DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) NOT NULL
);
CREATE INDEX `payload_jobs_completed_at_idx` ON `payload_jobs` (`completed_at`);
CREATE INDEX `payload_jobs_total_tried_idx` ON `payload_jobs` (`total_tried`);
CREATE INDEX `payload_jobs_has_error_idx` ON `payload_jobs` (`has_error`);
CREATE INDEX `payload_jobs_task_slug_idx` ON `payload_jobs` (`task_slug`);
CREATE INDEX `payload_jobs_queue_idx` ON `payload_jobs` (`queue`);
CREATE INDEX `payload_jobs_wait_until_idx` ON `payload_jobs` (`wait_until`);
CREATE INDEX `payload_jobs_processing_idx` ON `payload_jobs` (`processing`);
CREATE INDEX `payload_jobs_updated_at_idx` ON `payload_jobs` (`updated_at`);
CREATE INDEX `payload_jobs_created_at_idx` ON `payload_jobs` (`created_at`);

-- deleteJobOnComplete: false; runner every minute; tasks with three retries, exponential backoff from two minutes (schedulePublish: none)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 172),
a AS (SELECT i, CASE WHEN i <= 140 THEN strftime('%s', '2026-10-15 05:48:09') + i * 24700 + (i * 83) % 1900 WHEN i <= 149 THEN strftime('%s', '2026-11-24 11:47:06') + (i - 140) * 71 WHEN i = 150 THEN strftime('%s', '2026-11-24 11:58:51') + 0 ELSE strftime('%s', '2026-11-24 11:59:04') + (i - 150) * 2 END AS c,
  CASE WHEN i > 149 THEN 'syncSearchIndex' WHEN i % 8 = 3 AND i <= 140 THEN 'schedulePublish' WHEN i % 3 = 1 THEN 'sendNewsletter' ELSE 'syncSearchIndex' END AS slug FROM n),
b AS (SELECT i, c, slug,
  CASE WHEN slug = 'schedulePublish' AND i IN (83, 123) THEN 'cancelled' WHEN slug = 'schedulePublish' AND i >= 99 THEN 'later' WHEN slug = 'schedulePublish' AND i = 51 THEN 'dead'
    WHEN i <= 140 AND i % 17 = 4 THEN 'dead' WHEN i = 94 THEN 'stuck' WHEN i <= 140 THEN 'done' WHEN i <= 149 THEN 'retry' WHEN i = 150 THEN 'running' ELSE 'new' END AS k FROM a),
t AS (SELECT i, c, slug, k,
  CASE k WHEN 'dead' THEN CASE slug WHEN 'schedulePublish' THEN 1 ELSE 4 END WHEN 'done' THEN CASE WHEN slug <> 'schedulePublish' AND i % 13 = 5 THEN 2 ELSE 1 END WHEN 'retry' THEN CASE WHEN i <= 144 THEN 3 WHEN i <= 148 THEN 2 ELSE 1 END ELSE 0 END AS tried,
  CASE WHEN slug = 'schedulePublish' THEN CASE k WHEN 'later' THEN strftime('%s', '2026-11-25 07:00:00') + (i % 11) * 43200 ELSE c + 7200 + (i % 5) * 3600 - c % 3600 END END AS w FROM b),
u AS (SELECT i, c, slug, k, tried, w,
  CASE k WHEN 'done' THEN (CASE WHEN w IS NOT NULL THEN w + 4 ELSE (c / 60 + 1) * 60 + 2 END) + CASE WHEN tried > 1 THEN 180 ELSE 0 END WHEN 'dead' THEN CASE WHEN w IS NOT NULL THEN w + 4 ELSE (c / 60 + 1) * 60 + 1020 END WHEN 'retry' THEN strftime('%s', '2026-11-24 11:59:01') - CASE tried WHEN 3 THEN (i % 4) * 60 ELSE (i % 2) * 60 END WHEN 'cancelled' THEN c + 1500 WHEN 'stuck' THEN (c / 60 + 1) * 60 WHEN 'running' THEN strftime('%s', '2026-11-24 11:59:01') ELSE c END AS f FROM t)
INSERT INTO `payload_jobs` (id, input, completed_at, total_tried, has_error, error, task_slug, queue, wait_until, processing, updated_at, created_at)
SELECT 311 + i,
  CASE slug WHEN 'schedulePublish' THEN '{"type":"publish","locale":"","doc":{"relationTo":"posts","value":"' || (1 + i % 16) || '"},"user":' || (1 + i % 2) || '}' WHEN 'sendNewsletter' THEN '{"newsletter":' || (20 + i % 7) || ',"subscriber":' || (5000 + i * 3) || '}' ELSE '{"collection":"posts","id":' || (1 + i % 16) || ',"operation":"' || CASE i % 4 WHEN 0 THEN 'create' ELSE 'update' END || '"}' END,
  CASE k WHEN 'done' THEN strftime('%Y-%m-%dT%H:%M:%S', f, 'unixepoch') || printf('.%03dZ', (i * 389) % 1000) END,
  tried, k IN ('dead', 'cancelled'),
  CASE k WHEN 'cancelled' THEN '{"cancelled":true}' WHEN 'dead' THEN '{"name":"TaskError","cancelled":false,"message":"' || CASE slug WHEN 'schedulePublish' THEN 'The following field is invalid: Title' WHEN 'sendNewsletter' THEN 'Invalid login: 535 Authentication failed' ELSE 'Request to search cluster timed out after 10000ms' END || '","stack":"TaskError: task failed\n    at runTask (file:///app/node_modules/payload/dist/queues/operations/runJobs/runJob/getRunTaskFunction.js:91:23)"}' END,
  slug, CASE slug WHEN 'sendNewsletter' THEN 'newsletter' ELSE 'default' END,
  CASE WHEN k = 'cancelled' THEN NULL WHEN w IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S.000Z', w, 'unixepoch')
    WHEN tried > 1 OR k IN ('retry', 'dead') THEN strftime('%Y-%m-%dT%H:%M:%S', CASE k WHEN 'retry' THEN f + 120 * (1 << (tried - 1)) WHEN 'dead' THEN f - 31 ELSE f - 58 END, 'unixepoch') || printf('.%03dZ', (i * 577) % 1000) END,
  k IN ('running', 'stuck'),
  strftime('%Y-%m-%dT%H:%M:%S', f, 'unixepoch') || printf('.%03dZ', CASE k WHEN 'done' THEN (i * 389) % 1000 WHEN 'new' THEN (i * 211) % 1000 WHEN 'later' THEN (i * 211) % 1000 ELSE (i * 733) % 1000 END),
  strftime('%Y-%m-%dT%H:%M:%S', c, 'unixepoch') || printf('.%03dZ', (i * 211) % 1000)
FROM u ORDER BY i;

CREATE TABLE `payload_jobs_log` (
  `_order` integer NOT NULL,
  `_parent_id` integer NOT NULL,
  `id` text PRIMARY KEY NOT NULL,
  `executed_at` text NOT NULL,
  `completed_at` text NOT NULL,
  `task_slug` text NOT NULL,
  `task_i_d` text NOT NULL,
  `input` text,
  `output` text,
  `state` text NOT NULL,
  `error` text,
  FOREIGN KEY (`_parent_id`) REFERENCES `payload_jobs` (`id`) ON UPDATE no action ON DELETE cascade
);
CREATE INDEX `payload_jobs_log_order_idx` ON `payload_jobs_log` (`_order`);
CREATE INDEX `payload_jobs_log_parent_id_idx` ON `payload_jobs_log` (`_parent_id`);
WITH RECURSIVE r(o) AS (SELECT 1 UNION ALL SELECT o + 1 FROM r WHERE o < 4)
INSERT INTO `payload_jobs_log`
SELECT o, j.id, printf('%08x%016x', strftime('%s', j.updated_at) - (j.total_tried - o) * 240, j.id * 104729 + o), strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at, '-' || ((j.total_tried - o) * 240 + 1) || ' seconds'), strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at, '-' || ((j.total_tried - o) * 240) || ' seconds'), j.task_slug, '1', j.input, '{}',
  CASE WHEN j.completed_at IS NOT NULL AND o = j.total_tried THEN 'succeeded' ELSE 'failed' END,
  CASE WHEN j.completed_at IS NULL OR o < j.total_tried THEN '{"name":"TaskError","cancelled":false,"message":"Task handler threw an error"}' END
FROM `payload_jobs` j, r WHERE o <= j.total_tried AND j.id > 400 ORDER BY j.id, o;
