-- dialect: sqlite
create table customer (id integer primary key, name varchar(200) not null, email varchar(200) not null);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) INSERT INTO customer SELECT i, 'Customer ' || i, 'customer' || i || '@mail.example' FROM n;
create table invoice (id integer primary key, customer_id integer not null references customer (id), amount_cents integer not null, due_date text not null, paid integer not null default 0);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 16) INSERT INTO invoice SELECT 10230 + i, 1 + i % 12, 4900 + i * 350, date('2026-11-10', '+' || i || ' days'), i % 5 = 0 FROM n;

create table scheduled_tasks (
    task_name varchar(100),
    task_instance varchar(100),
    task_data blob,
    execution_time TIMESTAMP,
    picked BIT,
    picked_by varchar(50),
    last_success TIMESTAMP,
    last_failure TIMESTAMP,
    consecutive_failures INT,
    last_heartbeat TIMESTAMP,
    version BIGINT,
    priority SMALLINT,
    PRIMARY KEY (task_name, task_instance)
);
CREATE INDEX execution_time_idx ON scheduled_tasks (execution_time);
CREATE INDEX last_heartbeat_idx ON scheduled_tasks (last_heartbeat);
CREATE INDEX priority_execution_time_idx on scheduled_tasks (priority desc, execution_time asc);

-- 1795521600000 is 2026-11-24 12:00:00 UTC in milliseconds; recurring tasks first, made as the application started for the first time
INSERT INTO scheduled_tasks (task_name, task_instance, task_data, execution_time, picked, picked_by, last_success, last_failure, consecutive_failures, last_heartbeat, version) VALUES
('poll-mailbox', 'recurring', NULL, 1795521600000 - 6000, 1, 'billing-6d9f7c-x2k4q', 1795521600000 - 306000, 1795521600000 - 401884000, 0, 1795521600000 - 1740, 22318),
('send-digest', 'recurring', NULL, 1795521600000 + 68400000, 0, NULL, 1795521600000 - 17996871, NULL, 0, NULL, 161),
('sync-prices', 'recurring', NULL, 1795521600000 + 1502233, 0, NULL, 1795521600000 - 12900412, 1795521600000 - 2097767, 3, NULL, 3875),
('delete-old-files', 'recurring', NULL, 1795521600000 + 52200000, 0, NULL, 1795521600000 - 34199103, NULL, 0, NULL, 163),
('exchange-rates', 'recurring', NULL, 1795521600000 + 9000000, 0, NULL, 1795521600000 - 5398220, 1795521600000 - 1301400775, 0, NULL, 985);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 138),
w(f, d) AS (VALUES (1, 60000), (2, 90000), (3, 135000), (4, 202500), (5, 303750), (6, 455625), (7, 683438), (8, 1025156), (9, 1537734)),
k AS (
  -- i 1 to 96: reminders of the next weeks, asked for in the last weeks; then web hooks that failed f times, one that runs, new ones
  SELECT i, 'send-reminder' AS t, 'invoice-' || (10150 + i) AS inst, 0 AS f, 0 AS d, 1795521600000 + i * 19300000 + i % 3 * 604800000 + (i * 7919) % 86400 * 1000 AS due, 0 AS picked FROM n WHERE i <= 96
  UNION ALL
  SELECT i, 'deliver-webhook', printf('%08x-%04x-4%03x-9%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656), w.f, w.d, 1795521600000 + (w.d * ((i * 29) % 41 + 3)) / 53, 0
    FROM n JOIN w ON w.f = min(9, (117 - i) / 2) WHERE i BETWEEN 97 AND 115
  UNION ALL
  SELECT i, 'deliver-webhook', printf('%08x-%04x-4%03x-9%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656), 0, 0, 1795521600000 - 8204 + (i - 116) * 351, i = 116
    FROM n WHERE i >= 116
)
INSERT INTO scheduled_tasks (task_name, task_instance, task_data, execution_time, picked, picked_by, last_success, last_failure, consecutive_failures, last_heartbeat, version)
SELECT t, inst,
  CAST(CASE t WHEN 'send-reminder' THEN '{"invoiceId":' || (10150 + i) || ',"level":' || (1 + i % 3) || '}' ELSE '{"url":"https://hooks' || (1 + i % 4) || '.example/billing","event":"invoice.paid","invoiceId":' || (10000 + i * 3) || '}' END AS BLOB),
  due, picked,
  CASE WHEN picked THEN 'billing-6d9f7c-x2k4q' END,
  NULL,
  CASE WHEN f > 0 THEN due - d END,
  CASE WHEN f > 0 THEN f END,
  CASE WHEN picked THEN 1795521600000 - 1690 END,
  1 + 2 * f + picked
FROM k ORDER BY i;
