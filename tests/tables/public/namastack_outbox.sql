-- dialect: postgres
CREATE TABLE customer_order (
  id varchar(36) PRIMARY KEY,
  customer_email varchar(255) NOT NULL,
  total numeric(10, 2) NOT NULL,
  placed_at timestamptz NOT NULL
);
INSERT INTO customer_order SELECT overlay(overlay(md5('order' || g) placing '4' from 13) placing 'a' from 17)::uuid, 'customer' || g || '@mail.example', 12.5 + (g * 37) % 190, timestamptz '2026-11-24 09:00:00+00' + g * interval '13 minutes 21 seconds' FROM generate_series(1, 12) g;

CREATE TABLE outbox_record
(
    id             VARCHAR(255)             NOT NULL,
    status         VARCHAR(20)              NOT NULL,
    record_key     VARCHAR(255)             NOT NULL,
    record_type    VARCHAR(255)             NOT NULL,
    payload        TEXT                     NOT NULL,
    context        TEXT,
    created_at     TIMESTAMP WITH TIME ZONE NOT NULL,
    completed_at   TIMESTAMP WITH TIME ZONE,
    failure_count  INT                      NOT NULL,
    failure_reason VARCHAR(1000),
    next_retry_at  TIMESTAMP WITH TIME ZONE NOT NULL,
    partition_no   INTEGER                  NOT NULL,
    handler_id     VARCHAR(1000)            NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE outbox_instance
(
    instance_id    VARCHAR(255) PRIMARY KEY,
    hostname       VARCHAR(255)             NOT NULL,
    port           INTEGER                  NOT NULL,
    status         VARCHAR(50)              NOT NULL,
    started_at     TIMESTAMP WITH TIME ZONE NOT NULL,
    last_heartbeat TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at     TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at     TIMESTAMP WITH TIME ZONE NOT NULL
);
CREATE TABLE outbox_partition
(
    partition_number INTEGER PRIMARY KEY,
    instance_id      VARCHAR(255),
    version          BIGINT                   NOT NULL DEFAULT 0,
    updated_at       TIMESTAMP WITH TIME ZONE NOT NULL
);
CREATE INDEX idx_outbox_record_record_key_created ON outbox_record (record_key, created_at);
CREATE INDEX idx_outbox_record_partition_status_retry ON outbox_record (partition_no, status, next_retry_at);
CREATE INDEX idx_outbox_record_status_retry ON outbox_record (status, next_retry_at);
CREATE INDEX idx_outbox_record_status ON outbox_record (status);
CREATE INDEX idx_outbox_record_record_key_completed_created ON outbox_record (record_key, completed_at, created_at);
CREATE INDEX idx_outbox_instance_status_heartbeat ON outbox_instance (status, last_heartbeat);
CREATE INDEX idx_outbox_partition_instance_id ON outbox_partition (instance_id);

INSERT INTO outbox_instance VALUES
  ('2f0c8f3e-6a0b-4d1c-9b86-0a6f6e1f7c11', 'shop-7d9f6c-x2k4p', 8080, 'ACTIVE', '2026-11-23 06:01:12.551920+00', '2026-11-24 11:59:57.102331+00', '2026-11-23 06:01:12.551920+00', '2026-11-24 11:59:57.102331+00'),
  ('b81c77d0-13f7-4e61-8d55-7be3a2c59012', 'shop-7d9f6c-q8m2z', 8080, 'ACTIVE', '2026-11-23 06:01:40.118204+00', '2026-11-24 11:59:55.870116+00', '2026-11-23 06:01:40.118204+00', '2026-11-24 11:59:55.870116+00');
INSERT INTO outbox_partition SELECT g, CASE WHEN g < 128 THEN '2f0c8f3e-6a0b-4d1c-9b86-0a6f6e1f7c11' ELSE 'b81c77d0-13f7-4e61-8d55-7be3a2c59012' END, 14, '2026-11-23 06:01:50.118204+00' FROM generate_series(0, 255) g;

-- An order makes two records: one for the warehouse, one for the mail of confirmation. The warehouse answers 503 since 11:21.
INSERT INTO outbox_record (id, status, record_key, record_type, payload, context, created_at, completed_at, failure_count, failure_reason, next_retry_at, partition_no, handler_id)
SELECT overlay(overlay(md5('rec' || i || h) placing '4' from 13) placing '8' from 17)::uuid,
  st, key, 'com.acme.shop.order.' || typ,
  '{"orderId":"' || key || '","customer":"customer' || i % 40 || '@mail.example","total":' || 12 + (i * 37) % 190 || '.50}',
  '{"traceId":"' || md5('t' || i) || '","spanId":"' || left(md5('s' || i || h), 16) || '"}',
  c,
  CASE WHEN st = 'COMPLETED' THEN c + w + (120 + (i * 41) % 1900) * interval '1 millisecond' + (i % 7) * interval '113 microseconds' END,
  f,
  CASE WHEN f > 0 THEN CASE WHEN st = 'FAILED' AND f = 1 THEN 'Invalid address: customer' || i % 40 || '@mail..example' WHEN h = 'mail' THEN 'Mail server connection failed. Failed messages: org.eclipse.angus.mail.util.MailConnectException: Couldn''t connect to host, port: smtp.acme.example, 587; timeout 5000'
    ELSE (ARRAY['503 Service Unavailable: "upstream connect error"', 'I/O error on POST request for "http://warehouse.internal/api/orders": Read timed out'])[1 + i % 2] END END,
  CASE WHEN f = 0 OR (f = 1 AND st = 'FAILED') THEN c ELSE c + w END,
  (('x' || left(md5(key), 4))::bit(16)::int) % 256,
  CASE h WHEN 'mail' THEN 'com.acme.shop.mail.OrderMailHandler#handle(com.acme.shop.order.' || typ || ')' ELSE 'com.acme.shop.warehouse.WarehouseHandler#handle(com.acme.shop.order.' || typ || ')' END
FROM (
  SELECT z.*, CASE WHEN f = 0 OR (f = 1 AND st = 'FAILED') THEN interval '0' ELSE
    (SELECT sum(least(30 * (1 << (k - 1)), 1800)) FROM generate_series(1, CASE st WHEN 'FAILED' THEN 8 ELSE f END) k) * interval '1 second' + f * interval '1.207331 seconds' END AS w
  FROM (
    SELECT y.*, overlay(overlay(md5('order' || i) placing '4' from 13) placing 'a' from 17)::uuid::text AS key,
      CASE i % 5 WHEN 3 THEN 'OrderCancelled' WHEN 4 THEN 'OrderShipped' ELSE 'OrderPlaced' END AS typ,
      CASE WHEN i <= 118 THEN CASE WHEN h = 'warehouse' AND i IN (31, 32, 77) THEN 'FAILED' WHEN h = 'mail' AND i IN (54, 101) THEN 'FAILED' ELSE 'COMPLETED' END
        WHEN h = 'mail' AND i <= 133 THEN 'COMPLETED' ELSE 'NEW' END AS st,
      CASE WHEN i <= 118 THEN CASE WHEN h = 'warehouse' AND i IN (31, 32, 77) THEN 9 WHEN h = 'mail' AND i IN (54, 101) THEN 1 WHEN h = 'warehouse' AND i % 17 = 5 THEN 1 + i % 2 WHEN h = 'mail' AND i % 29 = 8 THEN 1 ELSE 0 END
        WHEN h = 'mail' OR i > 133 THEN 0
        ELSE greatest(1, floor(log(2.0, (extract(epoch FROM timestamptz '2026-11-24 11:59:50+00' - c) / 30 + 1)::numeric))::int + 1) END AS f
    FROM (SELECT i, h, o, CASE WHEN i <= 118 THEN timestamptz '2026-10-14 07:12:44.180217+00' + i * interval '8 hours 19 minutes 3.0721 seconds' + (i * i % 311) * interval '17.113 seconds'
        WHEN i <= 133 THEN timestamptz '2026-11-24 11:20:31.604418+00' + (i - 118) * interval '2 minutes 31.3107 seconds' ELSE timestamptz '2026-11-24 11:59:56.110227+00' + (i - 133) * interval '0.7713 seconds' END + o AS c
      FROM generate_series(1, 137) i, (VALUES ('warehouse', interval '0'), ('mail', interval '0.002191 seconds')) v(h, o)) y
  ) z
) q ORDER BY c;
