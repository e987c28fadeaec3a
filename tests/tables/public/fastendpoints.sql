-- dialect: sqlite
CREATE TABLE "Jobs" (
    "Id" TEXT NOT NULL CONSTRAINT "PK_Jobs" PRIMARY KEY,
    "QueueID" TEXT NOT NULL,
    "TrackingID" TEXT NOT NULL,
    "ExecuteAfter" TEXT NOT NULL,
    "ExpireOn" TEXT NOT NULL,
    "IsComplete" INTEGER NOT NULL,
    "CommandJson" TEXT NOT NULL,
    "ResultJson" TEXT NULL
);
-- finished and expired jobs are purged once an hour (last time at 11:04); i in order of insertion
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 187),
k AS (SELECT i, CASE WHEN i <= 6 THEN datetime('2026-11-24 07:20:14', '+' || (i * 411) || ' seconds')
    WHEN i <= 11 THEN datetime('2026-11-20 09:41:00', '+' || (i * 24731) || ' seconds')
    WHEN i <= 178 THEN datetime('2026-11-24 11:04:09', '+' || ((i - 11) * 20 - (i * 13) % 11) || ' seconds')
    ELSE datetime('2026-11-24 11:59:31', '+' || ((i - 178) * 3) || ' seconds') END AS c,
  CASE WHEN i BETWEEN 7 AND 11 THEN 3 WHEN i % 7 = 2 THEN 2 WHEN i % 3 = 0 THEN 1 ELSE 0 END AS q FROM n),
s AS (SELECT *, CASE WHEN i IN (1, 2, 3, 4, 5) THEN 'x' WHEN i IN (6, 60, 97, 98, 141, 166, 171) THEN 'r' WHEN i BETWEEN 7 AND 11 THEN 'f' WHEN i <= 178 THEN 'c' ELSE 'n' END AS st FROM k)
INSERT INTO "Jobs" ("Id", "QueueID", "TrackingID", "ExecuteAfter", "ExpireOn", "IsComplete", "CommandJson", "ResultJson")
SELECT upper(printf('%08x-%04x-4%03x-a%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656)),
  CASE q WHEN 0 THEN '8F3B21D70A9C44E65B1F' WHEN 1 THEN 'C07A91E2D45F3B886A10' WHEN 2 THEN '1D5E6A0F94B7C23388FA' ELSE 'E9914C02B7D6A5F3310B' END,
  upper(printf('%08x-%04x-4%03x-b%03x-%012x', (i * 40503977) % 4294967296, (i * 613) % 65536, i % 4096, (i * 31) % 4096, i * 79190077)),
  CASE st WHEN 'x' THEN datetime(c, '+14402 seconds', '-' || (i * 7) || ' seconds') WHEN 'r' THEN datetime('2026-11-24 12:00:00', '+' || (i * 17 % 58) || ' seconds') WHEN 'f' THEN datetime('2026-11-25 06:00:00', '+' || ((i - 7) * 12) || ' hours') ELSE CASE WHEN i IN (50, 123) THEN datetime(c, '+66 seconds') ELSE c END END || CASE st WHEN 'f' THEN '' ELSE printf('.%07d', i * 771737 % 10000000) END,
  CASE st WHEN 'f' THEN datetime('2026-11-26 06:00:00', '+' || ((i - 7) * 12) || ' hours') ELSE datetime(c, '+4 hours') || printf('.%07d', i * 771737 % 10000000 + 43) END,
  CASE WHEN st = 'c' THEN 1 ELSE 0 END,
  CASE q WHEN 0 THEN '{"To":"kunde' || (i * 37 % 91) || '@mail.example","Template":"order-shipped","OrderId":' || (70311 + i) || '}' WHEN 1 THEN '{"OrderId":' || (70311 + i) || ',"Format":"pdf"}' WHEN 2 THEN '{"Name":"report-' || i || '","TrackingID":"' || lower(printf('%08x', (i * 40503977) % 4294967296)) || '-0000-4000-b000-000000000000"}' ELSE '{"CampaignId":' || i || '}' END,
  CASE WHEN q = 1 AND st = 'c' THEN '{"File":"invoice-' || (70311 + i) || '.pdf"}' WHEN q = 2 AND st = 'c' THEN '{"TotalSteps":100,"CurrentStep":99,"CurrentStatus":"all done!","Result":{"Message":"ok"},"ProgressPercentage":99,"IsComplete":true}'
    WHEN i = 177 OR i = 184 THEN '{"TotalSteps":100,"CurrentStep":12,"CurrentStatus":"completed step: 12","Result":null,"ProgressPercentage":12,"IsComplete":false}' END
FROM s ORDER BY i;
