-- dialect: sqlite
CREATE TABLE tx_crawler_configuration (uid INTEGER PRIMARY KEY AUTOINCREMENT, pid INT NOT NULL DEFAULT 0, name TINYTEXT NOT NULL, force_ssl TINYINT NOT NULL DEFAULT 0, processing_instruction_filter VARCHAR(200) NOT NULL DEFAULT '', processing_instruction_parameters_ts VARCHAR(200) NOT NULL DEFAULT '', configuration TEXT NOT NULL, base_url TINYTEXT NOT NULL, pidsonly BLOB, begroups VARCHAR(100) NOT NULL DEFAULT '0', fegroups VARCHAR(100) NOT NULL DEFAULT '0', exclude TEXT NOT NULL);
INSERT INTO tx_crawler_configuration VALUES (1, 1, 'default', 1, 'tx_indexedsearch_reindex', '', '', 'https://www.museum.example/', '', '0', '', ''), (2, 1, 'news', 1, 'tx_indexedsearch_reindex', '', '&tx_news_pi1[news]=[_TABLE:tx_news_domain_model_news;_PID:48]', 'https://www.museum.example/', '', '0', '', '');
CREATE TABLE tx_crawler_process (process_id VARCHAR(50) NOT NULL DEFAULT '', active SMALLINT DEFAULT 0, ttl INT NOT NULL DEFAULT 0, assigned_items_count INT NOT NULL DEFAULT 0, deleted TINYINT NOT NULL DEFAULT 0, system_process_id INT NOT NULL DEFAULT 0);
INSERT INTO tx_crawler_process VALUES ('5b0e6f2a9c4d417f8a33e1d07bc29a64', 0, strftime('%s', '2026-11-24 09:56:05') + 300, 6, 0, 20733), ('c83d17a05e9b4f628f7a2b6e4419d0c7', 1, strftime('%s', '2026-11-24 11:59:51') + 300, 10, 0, 21418);

CREATE TABLE tx_crawler_queue (
  qid INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  page_id INT(11) NOT NULL DEFAULT 0,
  parameters TEXT NOT NULL,
  parameters_hash VARCHAR(50) NOT NULL DEFAULT '',
  configuration_hash VARCHAR(50) NOT NULL DEFAULT '',
  scheduled INT(11) NOT NULL DEFAULT 0,
  exec_time INT(11) NOT NULL DEFAULT 0,
  set_id INT(11) NOT NULL DEFAULT 0,
  result_data LONGTEXT NOT NULL,
  process_scheduled INT(11) NOT NULL DEFAULT 0,
  process_id VARCHAR(50) NOT NULL DEFAULT '',
  process_id_completed VARCHAR(50) NOT NULL DEFAULT '',
  configuration VARCHAR(250) NOT NULL DEFAULT ''
);
CREATE INDEX tx_crawler_queue_page_id ON tx_crawler_queue (page_id);
CREATE INDEX tx_crawler_queue_set_id ON tx_crawler_queue (set_id);
CREATE INDEX tx_crawler_queue_exec_time ON tx_crawler_queue (exec_time);
CREATE INDEX tx_crawler_queue_scheduled ON tx_crawler_queue (scheduled);
CREATE INDEX tx_crawler_queue_process_id ON tx_crawler_queue (process_id);
CREATE INDEX tx_crawler_queue_parameters_hash ON tx_crawler_queue (parameters_hash);
CREATE INDEX tx_crawler_queue_configuration_hash ON tx_crawler_queue (configuration_hash);
CREATE INDEX tx_crawler_queue_cleanup ON tx_crawler_queue (exec_time, scheduled);

-- A set of six news pages every two hours at hh:56, one of sixty pages at 03:00, and one of 24 pages by hand at 11:57. Pages that an
-- editor saved follow singly, those with a start time with that date. A run of processQueue every five minutes takes up to ten; done rows go after two days.
WITH RECURSIVE h(s, at, cnt, conf) AS (SELECT 1, strftime('%s', '2026-11-22 13:56:01') + 0, 6, 2 UNION ALL SELECT s + 1, at + 7200, 6, 2 FROM h WHERE s < 23),
b AS (SELECT at, cnt, conf FROM h UNION ALL VALUES (strftime('%s', '2026-11-23 03:00:01') + 0, 60, 1), (strftime('%s', '2026-11-24 03:00:01') + 0, 60, 1), (strftime('%s', '2026-11-24 11:57:22') + 0, 24, 1)
  UNION ALL VALUES (strftime('%s', '2026-11-23 09:14:37') + 0, 1, 1), (strftime('%s', '2026-11-23 15:41:09') + 0, 1, 1), (strftime('%s', '2026-11-24 08:22:50') + 0, 1, 1), (strftime('%s', '2026-11-24 10:31:18') + 0, 1, 1), (strftime('%s', '2026-11-24 10:47:02') + 0, 1, 1),
    (strftime('%s', '2026-11-24 11:58:06') + 0, 1, 1), (strftime('%s', '2026-11-24 11:59:13') + 0, 1, 1), (strftime('%s', '2026-11-24 11:59:40') + 0, 1, 1)),
m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 59),
r AS (SELECT row_number() OVER (ORDER BY at, j) AS i, at, cnt, conf, j, CASE WHEN at IN (strftime('%s', '2026-11-23 15:41:09') + 0, strftime('%s', '2026-11-24 10:47:02') + 0) THEN strftime('%s', '2026-11-27 00:00:00') + 0 ELSE at END AS sch,
    (at / 300 + 1) * 300 + 2 + (j / 10) * 300 AS run FROM b, m WHERE j < cnt),
t AS (SELECT *, CASE WHEN sch > at OR at > strftime('%s', '2026-11-24 11:58:00') + 0 OR (cnt = 24 AND j >= 10) THEN 'new' WHEN cnt = 24 AND j > 4 THEN 'assigned' WHEN cnt = 24 AND j = 4 THEN 'running' WHEN i = 88 THEN 'lost' WHEN cnt > 6 AND j IN (21, 47) AND cnt = 60 THEN 'error' WHEN i IN (31, 140, 141, 200) THEN 'error' ELSE 'done' END AS st,
  CASE WHEN cnt = 24 THEN strftime('%s', '2026-11-24 11:59:51') + 0 ELSE run END AS ps FROM r),
p AS (SELECT *, CASE WHEN cnt = 24 THEN 'c83d17a05e9b4f628f7a2b6e4419d0c7' ELSE printf('%08x%08x%08x%08x', ps * 2654435761 % 4294967296, ps * 40503977 % 4294967296, ps * 97561733 % 4294967296, ps * 6700417 % 4294967296) END AS pid,
  CASE WHEN conf = 2 THEN 48 WHEN cnt = 1 THEN 20 + i % 50 ELSE 3 + j END AS page FROM t)
INSERT INTO tx_crawler_queue (qid, page_id, parameters, parameters_hash, configuration_hash, scheduled, exec_time, set_id, result_data, process_scheduled, process_id, process_id_completed, configuration)
SELECT 18240 + i, page,
  '{"url":"https:\/\/www.museum.example\/' || CASE conf WHEN 2 THEN 'news\/article-' || (300 + at / 7200 % 40 + j) ELSE 'page-' || page END || '","procInstructions":["tx_indexedsearch_reindex"],"procInstrParams":[]}',
  printf('%08x%02x', page * 2654435761 % 4294967296, (page * 7 + j) % 256), CASE conf WHEN 2 THEN 'b6d1e0f04a7c98325ce71f9a6d20834b' ELSE '0c4fa91e77b2d86350ae14c92f6b8d37' END,
  sch, CASE WHEN st IN ('new', 'assigned') THEN 0 ELSE ps + (j % 10) * 2 END, at * 7919 % 268435456,
  CASE st WHEN 'done' THEN '{"content":"{\"id\":' || page || ',\"running\":true,\"log\":[\"User Groups: \"],\"success\":{\"tx_indexedsearch_reindex\":true},\"parameters\":{\"procInstructions\":[\"tx_indexedsearch_reindex\"]}}"}'
    WHEN 'error' THEN '{"content":"{\"errorlog\":[\"' || CASE i % 3 WHEN 0 THEN '404 Not Found' WHEN 1 THEN '503 Service Unavailable' ELSE '28 cURL error 28: Connection timed out' END || '\"]}"}' ELSE '' END,
  CASE st WHEN 'new' THEN 0 ELSE ps END, CASE st WHEN 'new' THEN '' ELSE pid END, CASE WHEN st IN ('new', 'assigned') THEN '' ELSE pid END, CASE conf WHEN 2 THEN 'news' ELSE 'default' END
FROM p ORDER BY i;
