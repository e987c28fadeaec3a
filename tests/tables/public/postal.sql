-- dialect: sqlite
CREATE TABLE servers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  organization_id int,
  uuid varchar(255),
  name varchar(255),
  mode varchar(255),
  ip_pool_id int,
  created_at datetime(6),
  updated_at datetime(6),
  permalink varchar(255),
  send_limit int,
  deleted_at datetime,
  suspended_at datetime,
  suspension_reason varchar(255),
  send_limit_approaching tinyint(1) DEFAULT 0
);
INSERT INTO servers VALUES
 (1, 1, '6d1f1e0a-6f5c-4d1b-9f35-0b5a7f9e4c11', 'Shop', 'Live', 1, '2026-03-02 09:12:44.118230', '2026-11-02 08:00:10.551120', 'shop', NULL, NULL, NULL, NULL, 0),
 (2, 1, '9b0a4f58-77c2-4f0e-8a2e-2c1f6b7d8e22', 'Newsletter', 'Live', 1, '2026-03-02 09:20:03.770011', '2026-10-19 14:31:55.002917', 'newsletter', 20000, NULL, NULL, NULL, 0),
 (3, 2, 'c2e58b7d-13f4-4b6a-b8d9-5e0d1c2b3a33', 'Intranet', 'Live', NULL, '2026-05-18 11:41:29.310442', '2026-05-18 11:41:29.310442', 'intranet', NULL, NULL, NULL, NULL, 0);
CREATE TABLE ip_addresses (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ip_pool_id int,
  ipv4 varchar(255),
  ipv6 varchar(255),
  created_at datetime(6),
  updated_at datetime(6),
  hostname varchar(255),
  priority int
);
INSERT INTO ip_addresses VALUES (1, 1, '192.0.2.25', NULL, '2026-03-02 09:14:20.410000', '2026-03-02 09:14:20.410000', 'mx1.mail.example', 100), (2, 1, '192.0.2.26', NULL, '2026-03-02 09:14:51.880000', '2026-03-02 09:14:51.880000', 'mx2.mail.example', 100);

CREATE TABLE queued_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  server_id int,
  message_id int,
  domain varchar(255),
  locked_by varchar(255),
  locked_at datetime(6),
  retry_after datetime,
  created_at datetime(6),
  updated_at datetime(6),
  ip_address_id int,
  attempts int DEFAULT 0,
  route_id int,
  manual tinyint(1) DEFAULT 0,
  batch_key varchar(255)
);
CREATE INDEX index_queued_messages_on_domain ON queued_messages (domain);
CREATE INDEX index_queued_messages_on_message_id ON queued_messages (message_id);
CREATE INDEX index_queued_messages_on_server_id ON queued_messages (server_id);

-- i = 1: its worker was killed three days ago; 2..150: soft fails of the last 31 hours (waits grow by 1.3 each time); 151..: being sent, and the last minute's
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 183),
tries(k, start, wait) AS (SELECT 1, 0.0, 300.0 UNION ALL SELECT k + 1, start + wait + 33, wait * 1.3 FROM tries WHERE k < 18),
a AS (SELECT i, CASE WHEN i = 1 THEN strftime('%s', '2026-11-21 16:20:41') + 0
    WHEN i <= 150 THEN strftime('%s', '2026-11-24 11:59:22') - (151 - i) * (151 - i) * 109 / 22 - 14 * (150 - i) - i * 7 % 11
    WHEN i <= 152 THEN strftime('%s', '2026-11-24 11:59:31') + (i - 150)
    ELSE strftime('%s', '2026-11-24 11:59:35') + (i - 153) * 4 / 5 END AS c, CASE WHEN i >= 153 THEN (i - 153) * 4 % 5 * 200000 + i * 613 ELSE (i * 617283) % 1000000 END AS us FROM n),
b AS (SELECT i, c, us, CASE WHEN i BETWEEN 2 AND 150 THEN (SELECT max(k) FROM tries WHERE start <= strftime('%s', '2026-11-24 11:59:30') - c) ELSE 0 END AS tr FROM a),
d AS (SELECT i, c, us, tr, CASE WHEN tr > 0 THEN CAST(c + start + wait + 1 AS integer) END AS due,
    CASE WHEN i >= 153 THEN 2 WHEN i % 11 = 5 THEN 3 WHEN i % 3 = 0 THEN 1 ELSE 2 END AS srv,
    CASE WHEN i % 11 = 5 AND i < 153 THEN 'intra.corp.example' ELSE (CASE i % 5 WHEN 0 THEN 'freemail.example' WHEN 1 THEN 'bigmail.example' WHEN 2 THEN 'provider.example' WHEN 3 THEN 'bigmail.example' ELSE 'firm' || (i % 17) || '.example' END) END AS dom
  FROM b LEFT JOIN tries ON k = tr)
INSERT INTO queued_messages (id, server_id, message_id, domain, locked_by, locked_at, retry_after, created_at, updated_at, ip_address_id, attempts, route_id, manual, batch_key)
SELECT CASE WHEN i = 1 THEN 4410233 WHEN i <= 150 THEN 4486848 - (strftime('%s', '2026-11-24 11:59:22') - c) / 6 ELSE 4486700 + i END,
  srv, CASE srv WHEN 1 THEN 310500 + i * 13 WHEN 2 THEN 4120100 + i * 77 ELSE 20870 + i END, dom,
  CASE WHEN i = 1 THEN 'host:postal-worker pid:1 thread:25 8c1f0d6a4b7e2c93' WHEN i IN (151, 152) THEN 'host:postal-worker pid:1 thread:' || (i - 118) || CASE i WHEN 151 THEN ' 02b9e7714fa6d05c' ELSE ' e45c90aa1b37f862' END END,
  CASE WHEN i = 1 THEN '2026-11-21 16:20:42.093317' WHEN i IN (151, 152) THEN '2026-11-24 11:59:5' || (i - 145) || printf('.%06d', i * 3911) END,
  CASE WHEN due IS NOT NULL THEN datetime(due, 'unixepoch') END,
  datetime(c, 'unixepoch') || printf('.%06d', us), datetime(c, 'unixepoch') || printf('.%06d', us),
  CASE WHEN srv < 3 THEN 1 + i % 2 END, tr, CASE WHEN srv = 3 THEN 4 END, CASE WHEN i IN (47, 118) THEN 1 ELSE 0 END,
  CASE WHEN srv = 3 THEN 'incoming-rt:4-ep:2-HTTPEndpoint' ELSE 'outgoing-' || dom END
FROM d ORDER BY i;
