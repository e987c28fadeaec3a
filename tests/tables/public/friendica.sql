-- dialect: sqlite
CREATE TABLE process (pid INTEGER NOT NULL, hostname VARCHAR(255) NOT NULL DEFAULT 'localhost', command VARBINARY(32) NOT NULL DEFAULT '', created DATETIME NOT NULL DEFAULT '0001-01-01 00:00:00', PRIMARY KEY (pid, hostname));
INSERT INTO process VALUES (21877, 'social', 'Worker.php', '2026-11-24 11:55:02'), (21901, 'social', 'Worker.php', '2026-11-24 11:57:11'), (21934, 'social', 'Worker.php', '2026-11-24 11:59:40');

CREATE TABLE workerqueue (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  command VARCHAR(100),
  parameter MEDIUMTEXT,
  priority TINYINT UNSIGNED NOT NULL DEFAULT 0,
  created DATETIME NOT NULL DEFAULT '0001-01-01 00:00:00',
  pid INT UNSIGNED NOT NULL DEFAULT 0,
  executed DATETIME NOT NULL DEFAULT '0001-01-01 00:00:00',
  next_try DATETIME NOT NULL DEFAULT '0001-01-01 00:00:00',
  retrial TINYINT NOT NULL DEFAULT 0,
  done BOOLEAN NOT NULL DEFAULT '0'
);
CREATE INDEX command ON workerqueue (command);
CREATE INDEX done_command_parameter ON workerqueue (done, command, parameter);
CREATE INDEX done_executed ON workerqueue (done, executed);
CREATE INDEX done_priority_retrial_created ON workerqueue (done, priority, retrial, created);
CREATE INDEX done_priority_next_try ON workerqueue (done, priority, next_try);
CREATE INDEX done_pid_next_try ON workerqueue (done, pid, next_try);
CREATE INDEX done_pid_retrial ON workerqueue (done, pid, retrial);
CREATE INDEX done_pid_priority_created ON workerqueue (done, pid, priority, created);

-- Done entries are deleted an hour after their execution, by an hourly task (last at 11:05). Servers that do not answer are tried again for four days.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 232),
lv(r, s) AS (SELECT 0, 0 UNION ALL SELECT r + 1, s + (r + 3) * (r + 3) * (r + 3) * (r + 3) + 15 * (r + 1) FROM lv WHERE r < 15),
c AS (SELECT i, strftime('%s', '2026-11-24 12:00:00') + 0 AS now,
  CASE WHEN i <= 26 THEN strftime('%s', '2026-11-20 17:41:07') + i * 12480 + (i * 977) % 3600
    WHEN i <= 219 THEN strftime('%s', '2026-11-24 10:06:11') + (i - 26) * 35 + (i * 13) % 30
    WHEN i <= 230 THEN strftime('%s', '2026-11-24 11:59:12') + (i - 219) * 4 ELSE strftime('%s', '2026-11-24 11:59:57') + (i - 231) END AS c FROM n),
k AS (SELECT i, now, c,
  CASE WHEN i IN (1, 2) THEN 'gaveup' WHEN i IN (9, 14, 22) THEN 'lateok' WHEN i <= 26 THEN 'defer' WHEN i IN (88, 131, 165, 190, 204, 211) THEN 'defer' WHEN i IN (97, 196) THEN 'delayed' WHEN i <= 219 THEN 'done' WHEN i IN (220, 222) THEN 'run' WHEN i <= 230 AND i % 3 = 0 THEN 'done' ELSE 'new' END AS k FROM c),
d AS (SELECT k.*, CASE k WHEN 'gaveup' THEN 15 WHEN 'lateok' THEN (SELECT max(r) FROM lv WHERE s < now - 1500 - i * 30 - c) WHEN 'defer' THEN (SELECT min(r) FROM lv WHERE s > now - c) ELSE 0 END AS r FROM k)
INSERT INTO workerqueue (id, command, parameter, priority, created, pid, executed, next_try, retrial, done)
SELECT 7140200 + (c - strftime('%s', '2026-11-20 17:00:00')) / 5 + i,
  CASE WHEN k = 'delayed' THEN 'DelayedPublish' WHEN i <= 26 OR k = 'defer' THEN CASE i % 3 WHEN 0 THEN 'FetchMissingActivity' ELSE 'APDelivery' END ELSE
    CASE i % 9 WHEN 0 THEN 'APDelivery' WHEN 1 THEN 'UpdateContact' WHEN 2 THEN 'APDelivery' WHEN 3 THEN 'OnePoll' WHEN 4 THEN 'Notifier' WHEN 5 THEN 'UpdateGServer' WHEN 6 THEN 'Cron' WHEN 7 THEN 'FetchMissingActivity' ELSE 'ProcessReplyByUri' END END,
  CASE WHEN k = 'delayed' THEN '[' || (410 + i) || ']' WHEN i <= 26 OR k = 'defer' THEN CASE i % 3 WHEN 0 THEN '["https://gone' || (i % 5) || '.example/objects/' || printf('%08x', i * 104729) || '",[],"",1]' ELSE '["wall-new",' || (90211 + i * 7) || ',"https://down' || (i % 4) || '.example/inbox",2,[],' || (88120 + i) || ']' END ELSE
    CASE i % 9 WHEN 6 THEN '[]' WHEN 4 THEN '["wall-new",' || (99000 + i) || ',2]' WHEN 1 THEN '[' || (3100 + i) || ']' WHEN 3 THEN '[' || (120 + i % 60) || ',"' || datetime(c, 'unixepoch') || '"]' WHEN 5 THEN '["https://node' || i || '.example",false]' WHEN 8 THEN '["https://node' || (i % 12) || '.example/p/' || i || '"]' WHEN 7 THEN '["https://node' || (i % 12) || '.example/objects/' || printf('%08x', i * 7919) || '",[],"",1]' ELSE '["wall-new",' || (99000 + i) || ',"https://node' || (i % 12) || '.example/inbox",2,[],' || (98000 + i) || ']' END END,
  CASE WHEN r > 8 THEN 50 WHEN r > 6 THEN 40 WHEN r > 3 THEN 30 WHEN i % 9 IN (1, 5) AND k <> 'defer' THEN 40 WHEN i % 9 IN (3, 6) AND k <> 'defer' THEN 30 ELSE 20 END,
  datetime(c, 'unixepoch'),
  CASE WHEN k IN ('done', 'lateok', 'gaveup') THEN 21000 + (i * 37) % 900 WHEN k = 'run' THEN CASE i WHEN 220 THEN 21877 ELSE 21934 END ELSE 0 END,
  CASE k WHEN 'done' THEN datetime(c + i % 5, 'unixepoch') WHEN 'run' THEN datetime(now - 9 + i % 7, 'unixepoch') WHEN 'lateok' THEN datetime(now - 1490 - i * 30, 'unixepoch') WHEN 'gaveup' THEN datetime(now - 4200 + i * 800, 'unixepoch') ELSE '0001-01-01 00:00:00' END,
  CASE k WHEN 'delayed' THEN datetime(now + i * 31, 'unixepoch') WHEN 'defer' THEN datetime(c + (SELECT s FROM lv WHERE lv.r = d.r), 'unixepoch') WHEN 'lateok' THEN datetime(now - 1495 - i * 30, 'unixepoch') WHEN 'gaveup' THEN datetime(now - 4260 + i * 800, 'unixepoch') ELSE '0001-01-01 00:00:00' END,
  r, k IN ('done', 'lateok', 'gaveup')
FROM d ORDER BY i;
