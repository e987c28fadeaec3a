-- dialect: sqlite
CREATE TABLE mojo_migrations (name text not null primary key, version integer not null check (version >= 0));
INSERT INTO mojo_migrations VALUES ('minion', 10), ('app', 4);
CREATE TABLE feeds (id integer not null primary key autoincrement, url text not null unique, title text, last_checked text);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO feeds SELECT i, 'https://blog' || i || '.example/feed.xml', 'Blog ' || i, datetime('2026-11-24 08:00:00', '+' || i || ' minutes') FROM n;
CREATE TABLE minion_workers (id integer not null primary key autoincrement, host text not null, pid integer not null, started text not null default current_timestamp, notified text not null default current_timestamp, inbox text not null default '[]', status text not null default '{}');
INSERT INTO minion_workers VALUES (11, 'box-a', 4410, '2026-11-23 06:00:00', '2026-11-24 11:59:40', '[]', '{"jobs":4,"performed":1833}'), (12, 'box-a', 4411, '2026-11-23 06:00:02', '2026-11-24 11:59:41', '[]', '{"jobs":4,"performed":1790}');
CREATE TABLE minion_locks (id integer not null primary key autoincrement, name text not null, expires text not null);
INSERT INTO minion_locks VALUES (1, 'feed_poll', '2026-11-24 12:03:00');

CREATE TABLE minion_jobs (
  id integer not null primary key autoincrement,
  args text not null,
  created text not null default current_timestamp,
  delayed text not null,
  finished text,
  priority integer not null,
  result text,
  retried text,
  retries integer not null default 0,
  started text,
  state text not null default 'inactive',
  task text not null,
  worker integer,
  queue text not null default 'default',
  attempts integer not null default 1,
  parents text not null default '[]',
  notes text not null default '{}'
);
CREATE INDEX minion_jobs_priority_created ON minion_jobs (priority desc, created);
CREATE INDEX minion_jobs_state ON minion_jobs (state, priority desc, created);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 170),
k AS (SELECT i,
  datetime(CASE WHEN i <= 9 THEN '2026-10-04 11:20:31' WHEN i <= 146 THEN '2026-11-22 12:10:05' ELSE '2026-11-24 11:34:50' END, '+' || (CASE WHEN i <= 9 THEN i * 431000 WHEN i <= 146 THEN (i - 9) * 1240 ELSE (i - 146) * 57 END) || ' seconds') AS c,
  CASE i % 3 WHEN 0 THEN 'poll_feed' WHEN 1 THEN 'mail_digest' ELSE 'resize_image' END AS t,
  CASE WHEN i <= 9 THEN 'failed' WHEN i <= 146 AND i % 34 = 20 THEN 'failed' WHEN i <= 146 THEN 'finished' WHEN i <= 149 THEN 'active' ELSE 'inactive' END AS st,
  CASE WHEN i BETWEEN 150 AND 155 THEN 1 ELSE 0 END AS r FROM n)
INSERT INTO minion_jobs (id, args, created, delayed, finished, priority, result, retried, retries, started, state, task, worker, queue, attempts, parents, notes)
SELECT 20400 + i,
  CASE t WHEN 'poll_feed' THEN '[' || (1 + i % 9) || ']' WHEN 'mail_digest' THEN '["reader' || (i % 25) || '@post.example","weekly"]' ELSE '["/var/up/' || printf('%06x', i * 7919) || '.jpg",{"width":640}]' END,
  c,
  CASE WHEN r THEN datetime('2026-11-24 11:58:30', '+' || ((i % 6) * 55) || ' seconds') WHEN st = 'inactive' AND i > 162 THEN datetime('2026-11-24 12:20:00', '+' || ((i - 162) * 38) || ' minutes') WHEN st = 'failed' THEN datetime(c, '+126 seconds') ELSE c END,
  CASE WHEN st = 'finished' THEN datetime(c, '+' || (2 + i % 11) || ' seconds') WHEN st = 'failed' THEN datetime(c, '+131 seconds') WHEN r THEN datetime(c, '+9 seconds') END,
  CASE t WHEN 'mail_digest' THEN 5 ELSE 0 END,
  CASE WHEN st = 'finished' THEN CASE t WHEN 'poll_feed' THEN '{"new":' || (i % 4) || '}' WHEN 'mail_digest' THEN '"All went well!"' END WHEN st = 'failed' OR r THEN CASE i % 3 WHEN 0 THEN '"Connect timeout at lib/Reader/Task/Feed.pm line 41.\n"' WHEN 1 THEN '"Worker went away"' ELSE '"Can''t open file: No such file or directory at lib/Reader/Task/Image.pm line 17.\n"' END END,
  CASE WHEN r THEN datetime(c, '+9 seconds') WHEN st = 'failed' THEN datetime(c, '+40 seconds') WHEN st = 'finished' AND i % 29 = 12 THEN datetime(c, '+1 seconds') END,
  CASE WHEN r THEN 1 + i % 3 WHEN st = 'failed' THEN 4 WHEN st = 'finished' AND i % 29 = 12 THEN 1 ELSE 0 END,
  CASE WHEN st = 'finished' THEN datetime(c, '+1 seconds') WHEN st = 'failed' THEN datetime(c, '+127 seconds') WHEN st = 'active' THEN '2026-11-24 11:59:36' WHEN r THEN datetime(c, '+4 seconds') END,
  st, t,
  CASE WHEN st <> 'inactive' OR r THEN 11 + i % 2 END,
  CASE t WHEN 'resize_image' THEN 'images' ELSE 'default' END, 5, '[]', CASE WHEN i % 10 = 0 THEN '{"progress":100}' ELSE '{}' END
FROM k ORDER BY i;
