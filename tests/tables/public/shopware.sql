-- dialect: sqlite
CREATE TABLE app (id BLOB NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL UNIQUE, path VARCHAR(4096) NOT NULL, author VARCHAR(255), version VARCHAR(255) NOT NULL, active TINYINT NOT NULL DEFAULT 0, created_at DATETIME NOT NULL, updated_at DATETIME);
INSERT INTO app VALUES (x'018b2a0c11d2707f9b5e1c0a4d6e2f01', 'ErpConnect', 'custom/apps/ErpConnect', 'Nord Soft', '2.3.1', 1, '2026-10-01 09:00:00.000', '2026-10-20 09:00:00.000'), (x'018b2a0c11d2707f9b5e1c0a4d6e2f02', 'ParcelTrack', 'custom/apps/ParcelTrack', 'Paketo', '1.0.4', 1, '2026-10-03 09:00:00.000', NULL);
CREATE TABLE webhook (id BLOB NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, event_name VARCHAR(500) NOT NULL, url VARCHAR(500) NOT NULL, app_id BLOB, active TINYINT NOT NULL DEFAULT 1, error_count INTEGER NOT NULL DEFAULT 0, created_at DATETIME NOT NULL, updated_at DATETIME);
INSERT INTO webhook VALUES (x'018b2a0c22d2707f9b5e1c0a4d6e2f01', 'orderPlaced', 'checkout.order.placed', 'https://erp.example/hook', x'018b2a0c11d2707f9b5e1c0a4d6e2f01', 1, 0, '2026-10-01 09:00:00.000', NULL), (x'018b2a0c22d2707f9b5e1c0a4d6e2f02', 'deliveryShipped', 'state_enter.order_delivery.state.shipped', 'https://parcel.example/in', x'018b2a0c11d2707f9b5e1c0a4d6e2f02', 1, 3, '2026-10-03 09:00:00.000', '2026-11-24 09:00:00.000');
CREATE TABLE increment (pool VARCHAR(255) NOT NULL, cluster VARCHAR(255) NOT NULL, "key" VARCHAR(255) NOT NULL, count INTEGER NOT NULL DEFAULT 1, created_at DATETIME NOT NULL, updated_at DATETIME, PRIMARY KEY (pool, cluster, "key"));
INSERT INTO increment VALUES ('message_queue', 'message_queue_stats', 'Shopware\Core\Framework\Webhook\Message\WebhookEventMessage', 9, '2026-10-01 09:00:00.000', '2026-11-24 11:59:00.000');

CREATE TABLE webhook_event_log (
  id BLOB NOT NULL,
  app_name VARCHAR(255) NULL,
  webhook_name VARCHAR(255) NOT NULL,
  event_name VARCHAR(255) NOT NULL,
  delivery_status VARCHAR(255) NOT NULL,
  timestamp INTEGER NULL,
  processing_time INTEGER NULL,
  app_version VARCHAR(255) NULL,
  request_content JSON NULL CHECK (request_content IS NULL OR json_valid(request_content)),
  response_content JSON NULL CHECK (response_content IS NULL OR json_valid(response_content)),
  response_status_code INTEGER NULL,
  response_reason_phrase VARCHAR(255) NULL,
  url VARCHAR(500) NOT NULL,
  only_live_version TINYINT NOT NULL DEFAULT 0,
  serialized_webhook_message BLOB NOT NULL,
  custom_fields JSON NULL CHECK (custom_fields IS NULL OR json_valid(custom_fields)),
  created_at DATETIME NOT NULL,
  updated_at DATETIME NULL,
  PRIMARY KEY (id)
);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 142),
k AS (SELECT i, 1792886400 + CASE WHEN i <= 128 THEN i * 20300 + (i * 83) % 900 ELSE 2630100 + (i - 128) * 180 END AS e, i % 3 = 0 AS par,
  CASE WHEN i <= 128 AND i % 16 = 6 THEN 'failed' WHEN i <= 128 THEN 'success' WHEN i <= 130 THEN 'running' ELSE 'queued' END AS st FROM n),
c AS (SELECT k.*, datetime(e, 'unixepoch') AS c FROM k)
INSERT INTO webhook_event_log (id, app_name, webhook_name, event_name, delivery_status, timestamp, processing_time, app_version, request_content, response_content, response_status_code, response_reason_phrase, url, only_live_version, serialized_webhook_message, custom_fields, created_at, updated_at)
SELECT CAST(char(1, 25) || printf('%06d', i) || substr('kqzwhvtm', 1 + i % 4, 4) || printf('%04d', (i * 7919) % 10000) AS BLOB),
  CASE par WHEN 1 THEN 'ParcelTrack' ELSE 'ErpConnect' END, CASE par WHEN 1 THEN 'deliveryShipped' ELSE 'orderPlaced' END,
  CASE par WHEN 1 THEN 'state_enter.order_delivery.state.shipped' ELSE 'checkout.order.placed' END,
  st,
  CASE WHEN st = 'queued' AND i % 4 <> 0 THEN NULL ELSE e + 2 END,
  CASE WHEN st IN ('success', 'failed') OR (st = 'queued' AND i % 4 = 0) THEN i % 5 END,
  CASE par WHEN 1 THEN '1.0.4' ELSE '2.3.1' END,
  CASE WHEN st <> 'queued' OR i % 4 = 0 THEN '{"headers":{"Content-Type":"application/json","sw-version":"6.6.8.0"},"body":{"data":{"event":"order","orderNumber":"' || (10200 + i) || '"}}}' END,
  CASE st WHEN 'success' THEN '{"headers":{"Server":["nginx"]},"body":"ok"}' WHEN 'failed' THEN '{"headers":{},"body":"upstream error"}' WHEN 'queued' THEN CASE WHEN i % 4 = 0 THEN '{"headers":{},"body":"try later"}' END END,
  CASE st WHEN 'success' THEN 200 WHEN 'failed' THEN CASE i % 2 WHEN 0 THEN 500 ELSE 502 END WHEN 'queued' THEN CASE WHEN i % 4 = 0 THEN 503 END END,
  CASE st WHEN 'success' THEN 'OK' WHEN 'failed' THEN CASE i % 2 WHEN 0 THEN 'Internal Server Error' ELSE 'Bad Gateway' END WHEN 'queued' THEN CASE WHEN i % 4 = 0 THEN 'Service Unavailable' END END,
  CASE par WHEN 1 THEN 'https://parcel.example/in' ELSE 'https://erp.example/hook' END, 0,
  CAST('O:60:"Shopware\Core\Framework\Webhook\Message\WebhookEventMessage":2:{s:7:"payload";a:1:{s:11:"orderNumber";s:5:"' || (10200 + i) || '";}s:3:"url";s:23:"https://erp.example/hook";}' AS BLOB),
  NULL, c || printf('.%03d', (i * 37) % 1000),
  CASE WHEN st <> 'queued' OR i % 4 = 0 THEN datetime(e + 2 + i % 5, 'unixepoch') || '.250' END
FROM c ORDER BY i;
