-- dialect: sqlite
CREATE TABLE notifications (
    record_id INTEGER PRIMARY KEY AUTOINCREMENT,
    class_name varchar(256) NOT NULL,
    event_json varchar(2048) NOT NULL,
    user_token varchar(36),
    created_date datetime NOT NULL,
    creating_owner varchar(50) NOT NULL,
    processing_owner varchar(50) DEFAULT NULL,
    processing_available_date datetime DEFAULT NULL,
    processing_state varchar(14) DEFAULT 'AVAILABLE',
    error_count int DEFAULT 0,
    search_key1 bigint DEFAULT NULL,
    search_key2 bigint DEFAULT NULL,
    queue_name varchar(64) NOT NULL,
    effective_date datetime NOT NULL,
    future_user_token varchar(36)
);
CREATE INDEX idx_comp_where ON notifications(effective_date, processing_state, processing_owner, processing_available_date);
CREATE INDEX idx_update ON notifications(processing_state, processing_owner, processing_available_date);
CREATE INDEX idx_get_ready ON notifications(effective_date, created_date);
CREATE INDEX notifications_search_keys ON notifications(search_key2, search_key1);
CREATE TABLE notifications_history (
    record_id INTEGER PRIMARY KEY AUTOINCREMENT,
    class_name varchar(256) NOT NULL,
    event_json varchar(2048) NOT NULL,
    user_token varchar(36),
    created_date datetime NOT NULL,
    creating_owner varchar(50) NOT NULL,
    processing_owner varchar(50) DEFAULT NULL,
    processing_available_date datetime DEFAULT NULL,
    processing_state varchar(14) DEFAULT 'AVAILABLE',
    error_count int DEFAULT 0,
    search_key1 bigint DEFAULT NULL,
    search_key2 bigint DEFAULT NULL,
    queue_name varchar(64) NOT NULL,
    effective_date datetime NOT NULL,
    future_user_token varchar(36)
);
CREATE INDEX notifications_history_search_keys ON notifications_history(search_key2, search_key1);

-- i: a notification once made; most of those that were due have gone to the history. Gaps in record_id are the rows gone.
CREATE TEMP TABLE g AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 640)
SELECT i, datetime('2026-10-05 04:10:00', '+' || (CASE WHEN i <= 630 THEN i * 6830 + (i * 7919) % 5000 ELSE 4347725 + (i - 630) * 47 END) || ' seconds') AS c,
  CASE WHEN i % 10 < 6 THEN 0 WHEN i % 10 < 8 THEN 1 WHEN i % 10 = 8 THEN 2 ELSE 3 END AS q FROM n;
CREATE TEMP TABLE h AS
SELECT *, CASE
    WHEN i = 402 THEN '2026-11-24 11:59:57' WHEN i = 418 THEN '2026-11-24 11:59:58' WHEN i IN (420, 433) THEN '2026-11-24 11:59:59'
    WHEN i IN (395, 411, 428) THEN '2026-11-24 11:5' || (i % 10) || ':02'
    WHEN i = 640 THEN datetime(c, '+1 seconds')
    WHEN q = 0 THEN date(c, '+' || (CASE WHEN i % 7 = 1 THEN 12 WHEN i % 11 = 3 THEN 3 ELSE 1 END) || ' months') || ' 00:00:00'
    WHEN q = 1 THEN datetime(c, '+' || (CASE WHEN i % 3 = 0 THEN 14 ELSE 30 END) || ' days')
    WHEN q = 2 THEN datetime(c, '+' || (7 + i % 9) || ' days')
    ELSE datetime(c, '+' || (1 + i % 8) || ' days') END AS e FROM g;
INSERT INTO notifications
SELECT 20117 + i,
  CASE q WHEN 0 THEN 'org.killbill.billing.invoice.notification.NextBillingDateNotificationKey' WHEN 1 THEN 'org.killbill.billing.subscription.engine.core.SubscriptionNotificationKey' WHEN 2 THEN 'org.killbill.billing.overdue.notification.OverdueCheckNotificationKey' ELSE 'org.killbill.billing.payment.core.janitor.JanitorNotificationKey' END,
  CASE q WHEN 0 THEN '{"uuidKey":null,"uuidKeys":["' || u || '"],"targetDate":"' || replace(e, ' ', 'T') || '.000Z","isDryRunForInvoiceNotification":false,"isRescheduled":false}' WHEN 1 THEN '{"eventId":"' || u || '","seqId":0}' ELSE '{"uuidKey":"' || u || '"}' END,
  printf('%08x-%04x-4%03x-a%03x-%012x', (i * 40503977) % 4294967296, (i * 613) % 65536, i % 4096, (i * 31) % 4096, (i * 987654321123) % 281474976710656),
  c, 'kb-node-' || (1 + i % 2),
  CASE WHEN i IN (402, 418) THEN 'kb-node-' || (1 + i % 2) END,
  CASE WHEN i IN (402, 418) THEN datetime(e, '+302 seconds') WHEN i IN (395, 411, 428) THEN '2026-11-24 11:59:' || (50 + i % 9) END,
  CASE WHEN i IN (402, 418) THEN 'IN_PROCESSING' ELSE 'AVAILABLE' END,
  CASE i WHEN 395 THEN 2 WHEN 411 THEN 1 WHEN 428 THEN 3 ELSE 0 END,
  300 + (i * 37) % 190, 1 + i % 3,
  CASE q WHEN 0 THEN 'invoice-service:next-billing-date-queue' WHEN 1 THEN 'subscription-service:subscription-events' WHEN 2 THEN 'overdue-service:overdue-check-queue' ELSE 'payment-service:janitor' END,
  e,
  printf('%08x-%04x-4%03x-b%03x-%012x', (i * 2654435761) % 4294967296, (i * 7001) % 65536, (i * 17) % 4096, (i * 53) % 4096, (i * 123456789123) % 281474976710656)
FROM (SELECT *, printf('%08x-%04x-4%03x-9%03x-%012x', (i * 3266489917) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, i * 7919123) AS u FROM h)
WHERE e >= '2026-11-24 11:50:00' ORDER BY i;
INSERT INTO notifications_history (record_id, class_name, event_json, user_token, created_date, creating_owner, processing_owner, processing_available_date, processing_state, error_count, search_key1, search_key2, queue_name, effective_date, future_user_token)
SELECT 20117 + i, 'org.killbill.billing.overdue.notification.OverdueCheckNotificationKey', '{"uuidKey":"' || printf('%08x', i * 2654435) || '-0000-4000-a000-000000000001"}', NULL, c, 'kb-node-1', 'kb-node-1', datetime(e, '+2 seconds'),
  CASE WHEN i % 50 = 8 THEN 'FAILED' ELSE 'PROCESSED' END, CASE WHEN i % 50 = 8 THEN 3 ELSE 0 END, 300 + (i * 37) % 190, 1 + i % 3, 'overdue-service:overdue-check-queue', e, NULL
FROM h WHERE q = 2 AND i < 160 ORDER BY i;
DROP TABLE h; DROP TABLE g;
