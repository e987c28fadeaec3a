-- dialect: sqlite
CREATE TABLE "config" (collection VARCHAR(255) NOT NULL DEFAULT '', name VARCHAR(255) NOT NULL DEFAULT '', data BLOB NULL DEFAULT NULL, PRIMARY KEY (collection, name));
INSERT INTO "config" (name, data) VALUES ('advancedqueue.advancedqueue_queue.default', 'a:6:{s:2:"id";s:7:"default";s:7:"backend";s:8:"database";}'), ('advancedqueue.advancedqueue_queue.commerce_recurring', 'a:6:{s:2:"id";s:18:"commerce_recurring";s:7:"backend";s:8:"database";}');
CREATE TABLE "commerce_order" (order_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL CHECK (order_id >= 0), type VARCHAR(32) NOT NULL, uid INTEGER NOT NULL CHECK (uid >= 0), state VARCHAR(255) NULL DEFAULT NULL, created INTEGER NULL DEFAULT NULL, changed INTEGER NULL DEFAULT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 14)
INSERT INTO "commerce_order" (type, uid, state, created, changed) SELECT CASE i % 3 WHEN 0 THEN 'recurring' ELSE 'default' END, 5 + i, CASE i % 4 WHEN 0 THEN 'draft' WHEN 1 THEN 'canceled' ELSE 'completed' END, strftime('%s', '2026-10-03 10:00:00') + i * 86000, strftime('%s', '2026-10-03 11:00:00') + i * 86000 FROM n;
CREATE TABLE "users_field_data" (uid INTEGER NOT NULL PRIMARY KEY CHECK (uid >= 0), name VARCHAR(60) NOT NULL, mail VARCHAR(254) NULL DEFAULT NULL, status INTEGER NOT NULL, created INTEGER NOT NULL, login INTEGER NULL DEFAULT NULL);
INSERT INTO "users_field_data" VALUES (1, 'admin', 'admin@site.example', 1, 1790834400, 1795508000), (6, 'ann', 'ann@site.example', 1, 1790920800, 1795421000);

CREATE TABLE "advancedqueue" (
  job_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL CHECK (job_id >= 0),
  queue_id VARCHAR(255) NOT NULL,
  type VARCHAR(255) NOT NULL,
  payload BLOB NOT NULL,
  state VARCHAR(255) NOT NULL,
  message TEXT NULL DEFAULT NULL,
  num_retries INTEGER NOT NULL CHECK (num_retries >= 0) DEFAULT 0,
  available INTEGER NOT NULL CHECK (available >= 0) DEFAULT 0,
  processed INTEGER NOT NULL CHECK (processed >= 0) DEFAULT 0,
  expires INTEGER NOT NULL CHECK (expires >= 0) DEFAULT 0
);
CREATE INDEX "advancedqueue_queue" ON "advancedqueue" (queue_id, state, available, expires);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 178),
k AS (SELECT i, CASE WHEN i <= 152 THEN strftime('%s', '2026-10-05 05:20:00') + i * 28200 + (i * 83) % 1709 ELSE strftime('%s', '2026-11-24 11:44:00') + (i - 152) * 29 END AS c,
  CASE WHEN i <= 152 THEN CASE WHEN i % 19 = 8 THEN 'failure' WHEN i IN (147, 150) THEN 'retry' ELSE 'success' END WHEN i <= 157 THEN 'retry' WHEN i <= 159 THEN 'processing' ELSE 'queued' END AS st FROM n)
INSERT INTO "advancedqueue" (queue_id, type, payload, state, message, num_retries, available, processed, expires)
SELECT CASE i % 3 WHEN 0 THEN 'commerce_recurring' ELSE 'default' END, CASE i % 3 WHEN 0 THEN 'commerce_recurring_order_renew' WHEN 1 THEN 'crm_contact_push' ELSE 'search_export' END,
  '{"order_id":"' || (1 + i % 14) || '","rev":' || i || '}', CASE st WHEN 'retry' THEN 'queued' ELSE st END,
  CASE WHEN st IN ('failure', 'retry') THEN CASE i % 3 WHEN 0 THEN 'Could not charge the payment method: Your card was declined.' WHEN 1 THEN 'cURL error 28: Operation timed out after 30001 milliseconds' ELSE 'SQLSTATE[HY000]: database is locked' END WHEN st = 'success' AND i % 3 = 2 THEN 'Exported 1 document.' END,
  CASE st WHEN 'failure' THEN 3 WHEN 'retry' THEN 1 + i % 3 WHEN 'success' THEN CASE WHEN i % 17 = 3 THEN 1 ELSE 0 END ELSE 0 END,
  CASE st WHEN 'retry' THEN strftime('%s', '2026-11-24 11:59:30') + (i % 6) * 1300 WHEN 'failure' THEN c + 3 * 86400 WHEN 'queued' THEN CASE WHEN i > 171 THEN strftime('%s', '2026-11-25 00:00:00') + (i % 4) * 3600 ELSE c END ELSE CASE WHEN i % 17 = 3 THEN c + 3600 ELSE c END END,
  CASE st WHEN 'success' THEN c + CASE WHEN i % 17 = 3 THEN 3660 ELSE 20 + i % 40 END WHEN 'failure' THEN CASE WHEN c + 3 * 86400 + 45 < strftime('%s', '2026-11-24 11:59:00') THEN c + 3 * 86400 + 45 ELSE strftime('%s', '2026-11-24 11:30:00') END ELSE 0 END,
  CASE st WHEN 'processing' THEN strftime('%s', '2026-11-24 12:04:40') + i % 9 WHEN 'success' THEN c + CASE WHEN i % 17 = 3 THEN 3900 ELSE 300 END ELSE 0 END
FROM k ORDER BY i;
