-- dialect: sqlite
CREATE TABLE core_store (store_id INTEGER PRIMARY KEY AUTOINCREMENT, code VARCHAR(32) DEFAULT NULL UNIQUE, website_id INTEGER NOT NULL DEFAULT 0, name VARCHAR(255) NOT NULL, sort_order INTEGER NOT NULL DEFAULT 0, is_active INTEGER NOT NULL DEFAULT 0);
INSERT INTO core_store VALUES (1, 'default', 1, 'Default Store View', 0, 1), (2, 'de', 1, 'Deutsch', 1, 1);
CREATE TABLE sales_flat_order (entity_id INTEGER PRIMARY KEY AUTOINCREMENT, state VARCHAR(32), status VARCHAR(32), store_id INTEGER, customer_email VARCHAR(255), grand_total DECIMAL(12,4), increment_id VARCHAR(50) UNIQUE, email_sent SMALLINT, created_at TIMESTAMP, updated_at TIMESTAMP);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
INSERT INTO sales_flat_order (state, status, store_id, customer_email, grand_total, increment_id, email_sent, created_at, updated_at) SELECT 'processing', CASE i % 3 WHEN 0 THEN 'complete' ELSE 'processing' END, 1, 'buyer' || i || '@mail.example', 20.5 * i, printf('1000%05d', i), 1, datetime('2026-11-20 07:00:00', '+' || (i * 5) || ' hours'), datetime('2026-11-20 07:20:00', '+' || (i * 5) || ' hours') FROM n;

CREATE TABLE core_email_queue (
  message_id INTEGER PRIMARY KEY AUTOINCREMENT,
  entity_id INTEGER DEFAULT NULL,
  entity_type VARCHAR(128) DEFAULT NULL,
  event_type VARCHAR(128) DEFAULT NULL,
  message_body_hash VARCHAR(64) NOT NULL,
  message_body TEXT NOT NULL,
  message_parameters TEXT NOT NULL,
  created_at TIMESTAMP NULL DEFAULT NULL,
  processed_at TIMESTAMP NULL DEFAULT NULL
);
CREATE INDEX "0ADECE62FD629241C147389ADF20706E" ON core_email_queue (entity_id, entity_type, event_type, message_body_hash);
CREATE TABLE core_email_queue_recipients (recipient_id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER NOT NULL REFERENCES core_email_queue (message_id) ON DELETE CASCADE ON UPDATE CASCADE, recipient_email VARCHAR(128) NOT NULL, recipient_name VARCHAR(255) NOT NULL, email_type SMALLINT NOT NULL DEFAULT 0, UNIQUE (message_id, recipient_email, email_type));

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 168),
k AS (SELECT i, datetime(CASE WHEN i <= 150 THEN '2026-10-25 06:00:00' ELSE '2026-11-24 11:55:08' END, '+' || (CASE WHEN i <= 150 THEN i * 17200 + (i * 97) % 2503 ELSE (i - 150) * 14 END) || ' seconds') AS c, CASE i % 4 WHEN 0 THEN 'new_shipment' WHEN 1 THEN 'update_order' ELSE 'new_order' END AS ev FROM n)
INSERT INTO core_email_queue (entity_id, entity_type, event_type, message_body_hash, message_body, message_parameters, created_at, processed_at)
SELECT 400 + i, CASE i % 4 WHEN 0 THEN 'shipment' ELSE 'order' END, ev, printf('%08x%08x%08x%08x', (i * 2654435761) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296), '<html><body><h1>Thank you for your order from Main Website Store.</h1><p>#' || printf('1000%05d', i) || '</p></body></html>',
  'a:7:{s:7:"subject";s:30:"Main Store: New Order # ' || printf('1000%05d', i) || '";s:17:"return_path_email";N;s:8:"is_plain";b:0;s:10:"from_email";s:18:"sales@shop.example";s:9:"from_name";s:5:"Sales";s:8:"reply_to";N;s:9:"return_to";N;}', c,
  CASE WHEN NOT (i > 150 OR i IN (64, 97, 131, 146, 149)) THEN strftime('%Y-%m-%d %H:', c) || printf('%02d', (strftime('%M', c) / 5) * 5 + 4) || printf(':%02d', 30 + i % 29) END
FROM k ORDER BY i;
UPDATE core_email_queue SET processed_at = datetime(processed_at, '+5 minutes') WHERE processed_at < created_at;
INSERT INTO core_email_queue_recipients (message_id, recipient_email, recipient_name, email_type) SELECT message_id, 'buyer' || message_id || '@mail.example', 'Buyer ' || message_id, 0 FROM core_email_queue ORDER BY message_id;
