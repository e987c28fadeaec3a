-- dialect: sqlite
CREATE TABLE `version` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `version` INTEGER NULL);
INSERT INTO version VALUES (1, 305);
CREATE TABLE `user` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `lower_name` TEXT NOT NULL UNIQUE, `name` TEXT NOT NULL UNIQUE, `email` TEXT NOT NULL, `is_active` INTEGER NULL, `is_admin` INTEGER NULL, `created_unix` INTEGER NULL, `updated_unix` INTEGER NULL);
INSERT INTO `user` VALUES (1, 'root', 'root', 'root@git.example', 1, 1, 1790841600, 1795000000), (2, 'ann', 'ann', 'ann@git.example', 1, 0, 1790845200, 1795100000), (3, 'bob', 'bob', 'bob@git.example', 1, 0, 1790848800, 1795200000);
CREATE TABLE `repository` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `owner_id` INTEGER NULL, `lower_name` TEXT NOT NULL, `name` TEXT NOT NULL, `is_private` INTEGER NULL, `created_unix` INTEGER NULL, `updated_unix` INTEGER NULL);
INSERT INTO repository VALUES (1, 2, 'site', 'site', 0, 1790850000, 1795300000), (2, 3, 'tools', 'tools', 1, 1790860000, 1795400000);
CREATE TABLE `webhook` (`id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, `repo_id` INTEGER NULL, `owner_id` INTEGER NULL, `is_system_webhook` INTEGER NULL, `url` TEXT NULL, `http_method` TEXT NULL, `content_type` INTEGER NULL, `secret` TEXT NULL, `events` TEXT NULL, `is_active` INTEGER NULL, `type` TEXT NULL, `meta` TEXT NULL, `last_status` INTEGER NULL, `created_unix` INTEGER NULL, `updated_unix` INTEGER NULL);
INSERT INTO webhook VALUES (1, 1, 0, 0, 'https://ci.example/hook', 'POST', 1, 'x', '{"push_only":true}', 1, 'gitea', '', 1, 1790870000, 1795500000), (2, 2, 0, 0, 'https://chat.example/in', 'POST', 1, '', '{"send_everything":true}', 1, 'slack', '{}', 2, 1790880000, 1795510000);

CREATE TABLE `hook_task` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  `hook_id` INTEGER NULL,
  `uuid` TEXT NULL,
  `payload_content` TEXT NULL,
  `payload_version` INTEGER DEFAULT 1 NULL,
  `event_type` TEXT NULL,
  `is_delivered` INTEGER NULL,
  `delivered` INTEGER NULL,
  `is_succeed` INTEGER NULL,
  `request_content` TEXT NULL,
  `response_content` TEXT NULL
);
CREATE INDEX `IDX_hook_task_hook_id` ON `hook_task` (`hook_id`);
CREATE UNIQUE INDEX `UQE_hook_task_uuid` ON `hook_task` (`uuid`);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 168),
k AS (SELECT i, CASE WHEN i <= 157 AND i % 11 = 8 THEN 'bad' WHEN i <= 157 THEN 'ok' ELSE 'new' END AS st, CASE WHEN i <= 157 THEN 1792200000000000000 + i * 20936000000000 ELSE 1795519800000000000 + (i - 157) * 150000000000 END + (i * 7919 % 1000) * 1000003 AS t FROM n)
INSERT INTO hook_task (hook_id, uuid, payload_content, payload_version, event_type, is_delivered, delivered, is_succeed, request_content, response_content)
SELECT 1 + i % 2,
  printf('%08x-%04x-4%03x-a%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 77) % 4096, (i * 131) % 4096, (i * 982451653 * 7) % 281474976710656),
  '{"ref":"refs/heads/main","after":"' || printf('%040x', i * 982451653) || '","repository":{"id":' || (1 + i % 2) || '},"pusher":{"login":"ann"}}',
  2,
  CASE i % 4 WHEN 0 THEN 'push' WHEN 1 THEN 'issues' WHEN 2 THEN 'pull_request' ELSE 'issue_comment' END,
  CASE st WHEN 'new' THEN 0 ELSE 1 END, t,
  CASE st WHEN 'ok' THEN 1 ELSE 0 END,
  CASE st WHEN 'new' THEN '' ELSE '{"url":"https://ci.example/hook","http_method":"POST","headers":{"X-Gitea-Event":"push"},"body":"{}"}' END,
  CASE st WHEN 'new' THEN '' WHEN 'ok' THEN '{"status":200,"headers":{"Content-Length":"2"},"body":"ok"}' ELSE CASE i % 2 WHEN 0 THEN '{"status":502,"headers":{},"body":"Bad Gateway"}' ELSE '{"status":0,"headers":null,"body":"Delivery: Post \"https://ci.example/hook\": dial tcp: connect: connection refused"}' END END
FROM k ORDER BY i;
