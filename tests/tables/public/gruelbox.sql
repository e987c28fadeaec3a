-- dialect: postgres
CREATE TABLE txno_version (id integer DEFAULT 0 NOT NULL PRIMARY KEY, version integer);
INSERT INTO txno_version VALUES (0, 13);
CREATE TABLE txno_sequence (topic varchar(250) NOT NULL, seq bigint NOT NULL, CONSTRAINT pk_txno_sequence PRIMARY KEY (topic, seq));
INSERT INTO txno_sequence VALUES ('ledger', 41);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL, total numeric(12,2) NOT NULL, currency char(3) NOT NULL, created_at timestamp NOT NULL);
INSERT INTO orders (customer_id, total, currency, created_at) SELECT 10 + g % 7, 19.9 * g, 'EUR', timestamp '2026-11-20 09:00' + g * interval '2 hours' FROM generate_series(1, 12) g;

CREATE TABLE txno_outbox (
  id varchar(36) PRIMARY KEY,
  invocation text,
  nextattempttime timestamp(6),
  attempts integer,
  blocked boolean,
  version integer,
  uniquerequestid varchar(250) UNIQUE,
  processed boolean,
  lastattempttime timestamp(6),
  topic varchar(250) NOT NULL DEFAULT '*',
  seq bigint
);
CREATE INDEX ix_txno_outbox_1 ON txno_outbox (processed, blocked, nextattempttime);
CREATE UNIQUE INDEX ix_txno_outbox_2 ON txno_outbox (topic, seq);

INSERT INTO txno_outbox
SELECT md5('tx' || i)::uuid::text,
  '{"c":"com.example.shop.' || CASE i % 3 WHEN 0 THEN 'MailGateway' WHEN 1 THEN 'LedgerClient' ELSE 'StockClient' END || '","m":"' || CASE i % 3 WHEN 0 THEN 'sendConfirmation' WHEN 1 THEN 'book' ELSE 'reserve' END || '","p":["Long","String"],"a":[{"t":"Long","v":' || 5000 + i || '},{"t":"String","v":"EUR"}],"x":{"requestId":"' || substr(md5('rq' || i), 1, 8) || '"}}',
  CASE k WHEN 'done' THEN la + interval '60 days' WHEN 'blocked' THEN la + interval '2 minutes' WHEN 'fail' THEN timestamp '2026-11-24 11:59:20' + (i % 6) * interval '20 seconds' ELSE c + interval '2 minutes' END,
  n, k = 'blocked', CASE k WHEN 'done' THEN n + 2 WHEN 'new' THEN i % 2 ELSE n * 2 END,
  'order-' || 5000 + i, k = 'done',
  CASE WHEN k = 'new' AND i % 2 = 0 THEN NULL ELSE la END,
  '*', NULL
FROM (SELECT *, CASE k WHEN 'done' THEN CASE WHEN i % 16 = 2 THEN 1 + i % 3 ELSE 0 END WHEN 'blocked' THEN 5 WHEN 'fail' THEN 1 + i % 4 ELSE 0 END AS n,
    CASE k WHEN 'blocked' THEN c + interval '8 minutes 4 seconds' WHEN 'fail' THEN timestamp '2026-11-24 11:57:20' + (i % 6) * interval '20 seconds' ELSE c + (20 + i % 90) * interval '1 millisecond' END AS la
  FROM (SELECT i, CASE WHEN i <= 150 THEN timestamp '2026-10-19 08:02:13.551' + i * interval '5 hours 44 minutes' + (i * 37 % 53) * interval '79 seconds' WHEN i <= 158 THEN timestamp '2026-11-24 11:49:00.2' + (i - 150) * interval '31 seconds' ELSE timestamp '2026-11-24 11:59:02.8' + (i - 158) * interval '3 seconds' END AS c,
    CASE WHEN i <= 150 AND i % 21 = 8 THEN 'blocked' WHEN i <= 150 THEN 'done' WHEN i <= 158 THEN 'fail' ELSE 'new' END AS k
    FROM generate_series(1, 172) i) a) b ORDER BY i;
