-- dialect: sqlite
CREATE TABLE "channel" ("createdAt" datetime NOT NULL DEFAULT (datetime('now')), "updatedAt" datetime NOT NULL DEFAULT (datetime('now')), "code" varchar NOT NULL, "token" varchar NOT NULL, "defaultLanguageCode" varchar NOT NULL, "pricesIncludeTax" boolean NOT NULL, "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, CONSTRAINT "UQ_06127ac6c6d913f4320759971db" UNIQUE ("code"));
INSERT INTO "channel" VALUES ('2026-10-01 08:00:00.000', '2026-10-01 08:00:00.000', '__default_channel__', 'tk8f1', 'en', 0, 1);
CREATE TABLE "administrator" ("createdAt" datetime NOT NULL DEFAULT (datetime('now')), "updatedAt" datetime NOT NULL DEFAULT (datetime('now')), "deletedAt" datetime, "firstName" varchar NOT NULL, "lastName" varchar NOT NULL, "emailAddress" varchar NOT NULL, "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL);
INSERT INTO "administrator" VALUES ('2026-10-01 08:00:00.000', '2026-10-01 08:00:00.000', NULL, 'Super', 'Admin', 'superadmin', 1), ('2026-10-04 08:00:00.000', '2026-11-02 10:00:00.000', '2026-11-02 10:00:00.000', 'Bo', 'Berg', 'bo@shop.example', 2);
CREATE TABLE "job_record_buffer" ("createdAt" datetime NOT NULL DEFAULT (datetime('now')), "updatedAt" datetime NOT NULL DEFAULT (datetime('now')), "bufferId" varchar NOT NULL, "job" text NOT NULL, "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL);
INSERT INTO "job_record_buffer" VALUES ('2026-11-24 11:50:01.000', '2026-11-24 11:50:01.000', 'search-plugin-update-search-index', '{"queueName":"update-search-index","data":{"type":"update-product","productId":14}}', 1);

CREATE TABLE "job_record" (
  "createdAt" datetime NOT NULL DEFAULT (datetime('now')),
  "updatedAt" datetime NOT NULL DEFAULT (datetime('now')),
  "queueName" varchar NOT NULL,
  "data" text,
  "state" varchar NOT NULL,
  "progress" integer NOT NULL,
  "result" text,
  "error" varchar,
  "startedAt" datetime(6),
  "settledAt" datetime(6),
  "isSettled" boolean NOT NULL,
  "retries" integer NOT NULL,
  "attempts" integer NOT NULL,
  "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL
);
CREATE INDEX "IDX_job_record_createdAt" ON "job_record" ("createdAt");
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 160),
k AS (SELECT i, datetime(CASE WHEN i <= 138 THEN '2026-10-25 08:20:09' ELSE '2026-11-24 11:35:10' END, '+' || (CASE WHEN i <= 138 THEN i * 18600 + (i * 71) % 900 ELSE (i - 138) * 58 END) || ' seconds') AS c,
  CASE i % 4 WHEN 0 THEN 'send-email' WHEN 1 THEN 'update-search-index' WHEN 2 THEN 'apply-collection-filters' ELSE 'send-email' END AS q,
  CASE WHEN i <= 138 AND i % 23 = 9 THEN 'FAILED' WHEN i <= 138 AND i IN (44, 101) THEN 'CANCELLED' WHEN i <= 138 THEN 'COMPLETED' WHEN i <= 143 THEN 'RETRYING' WHEN i <= 145 THEN 'RUNNING' ELSE 'PENDING' END AS st FROM n)
INSERT INTO "job_record" ("createdAt", "updatedAt", "queueName", "data", "state", "progress", "result", "error", "startedAt", "settledAt", "isSettled", "retries", "attempts", "id")
SELECT c || printf('.%03d', (i * 37) % 1000),
  CASE st WHEN 'PENDING' THEN c || printf('.%03d', (i * 37) % 1000) WHEN 'RUNNING' THEN '2026-11-24 11:59:51.402' ELSE datetime(c, '+' || (2 + i % 8) || ' seconds') || '.118' END,
  q,
  CASE q WHEN 'send-email' THEN '{"type":"order-confirmation","recipient":"c' || (i % 30) || '@mail.example","from":"noreply@shop.example","templateFile":"body.hbs","templateVars":{"orderCode":"ORD' || (7000 + i) || '"}}' WHEN 'update-search-index' THEN '{"type":"update-variants","ctx":{"_channelId":1},"variantIds":[' || i || ',' || (i + 1) || ']}' ELSE '{"ctx":{"_channelId":1},"collectionIds":[' || (1 + i % 9) || ']}' END,
  st, CASE st WHEN 'COMPLETED' THEN 100 WHEN 'RUNNING' THEN 35 ELSE 0 END,
  CASE st WHEN 'COMPLETED' THEN CASE q WHEN 'send-email' THEN 'true' ELSE '{"success":true,"indexedItemCount":' || (2 + i % 5) || ',"timeTaken":' || (40 + i) || '}' END END,
  CASE WHEN st IN ('FAILED', 'RETRYING') THEN CASE i % 2 WHEN 0 THEN 'Error: connect ECONNREFUSED 10.4.0.25:587' ELSE '{"code":"EENVELOPE","response":"450 4.2.1 Mailbox busy","responseCode":450,"command":"RCPT TO"}' END END,
  CASE WHEN st <> 'PENDING' AND st <> 'CANCELLED' THEN datetime(c, '+1 seconds') || '.204' END,
  CASE WHEN st IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN datetime(c, '+' || (2 + i % 8) || ' seconds') || '.117' END,
  st IN ('COMPLETED', 'FAILED', 'CANCELLED'),
  CASE q WHEN 'send-email' THEN 5 ELSE 0 END,
  CASE st WHEN 'PENDING' THEN 0 WHEN 'CANCELLED' THEN 0 WHEN 'FAILED' THEN CASE q WHEN 'send-email' THEN 6 ELSE 1 END WHEN 'RETRYING' THEN 1 + i % 4 ELSE 1 END, i
FROM k ORDER BY i;
UPDATE "job_record" SET "queueName" = 'send-email', "retries" = 5, "data" = '{"type":"password-reset","recipient":"c9@mail.example","from":"noreply@shop.example","templateFile":"body.hbs","templateVars":{}}' WHERE "state" = 'RETRYING';
