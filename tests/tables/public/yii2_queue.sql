-- dialect: sqlite
CREATE TABLE migration (version varchar(180) NOT NULL PRIMARY KEY, apply_time integer);
INSERT INTO migration VALUES ('m000000_000000_base', 1790841600), ('yii\queue\db\migrations\M161119140200Queue', 1790841601), ('yii\queue\db\migrations\M170601155600Priority', 1790841602), ('yii\queue\db\migrations\M211218163000JobQueueSize', 1790841603);
CREATE TABLE user (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, username varchar(255) NOT NULL UNIQUE, email varchar(255) NOT NULL, status smallint NOT NULL DEFAULT 10, created_at integer NOT NULL, updated_at integer NOT NULL);
INSERT INTO user (username, email, status, created_at, updated_at) VALUES ('admin', 'admin@site.example', 10, 1790841700, 1790841700), ('ann', 'ann@site.example', 10, 1790851700, 1790851700), ('old', 'old@site.example', 0, 1790861700, 1793000000);
CREATE TABLE setting (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, category varchar(64), name varchar(64) NOT NULL, value text);
INSERT INTO setting (category, name, value) VALUES ('mail', 'from', 'site@site.example'), ('site', 'title', 'Site');

CREATE TABLE queue (
  id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
  channel varchar(255) NOT NULL,
  job blob NOT NULL,
  pushed_at integer NOT NULL,
  ttr integer NOT NULL,
  delay integer NOT NULL DEFAULT 0,
  priority integer NOT NULL DEFAULT 1024,
  reserved_at integer,
  attempt integer,
  done_at integer
);
CREATE INDEX channel ON queue (channel);
CREATE INDEX reserved_at ON queue (reserved_at);
CREATE INDEX priority ON queue (priority);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 145),
k AS (SELECT i, CASE WHEN i <= 127 THEN 1794180000 + i * 10480 + (i * 37) % 900 ELSE 1795518000 + (i - 127) * 190 END AS t, CASE WHEN i <= 127 THEN 'done' WHEN i <= 129 THEN 'run' WHEN i <= 133 THEN 'again' ELSE 'new' END AS st FROM n)
INSERT INTO queue (channel, job, pushed_at, ttr, delay, priority, reserved_at, attempt, done_at)
SELECT CASE WHEN i % 6 = 0 THEN 'slow' ELSE 'default' END,
  CAST('O:' || CASE i % 2 WHEN 0 THEN '20:"app\jobs\SendMailJob' ELSE '20:"app\jobs\ResizeImage' END || '":1:{s:2:"id";i:' || i || ';}' AS blob),
  t, 300, CASE WHEN st = 'new' AND i % 3 = 0 THEN 86400 WHEN i % 10 = 0 THEN 600 ELSE 0 END, CASE WHEN i % 8 = 0 THEN 100 ELSE 1024 END,
  CASE st WHEN 'done' THEN t + CASE WHEN i % 10 = 0 THEN 602 ELSE 2 END + i % 9 WHEN 'run' THEN 1795521590 + i % 5 END,
  CASE st WHEN 'done' THEN CASE WHEN i % 21 = 0 THEN 3 ELSE 1 END WHEN 'run' THEN 1 + i % 2 WHEN 'again' THEN 1 + i % 2 END,
  CASE st WHEN 'done' THEN t + CASE WHEN i % 10 = 0 THEN 602 ELSE 2 END + i % 9 + 1 + i % 47 END
FROM k ORDER BY i;
