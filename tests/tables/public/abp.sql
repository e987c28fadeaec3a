-- dialect: sqlite
CREATE TABLE "__EFMigrationsHistory" ("MigrationId" TEXT NOT NULL CONSTRAINT "PK___EFMigrationsHistory" PRIMARY KEY, "ProductVersion" TEXT NOT NULL);
INSERT INTO "__EFMigrationsHistory" VALUES ('20260303091112_Initial', '9.0.5'), ('20260518140233_Added_Books', '9.0.5');
CREATE TABLE "AbpTenants" (
    "Id" TEXT NOT NULL CONSTRAINT "PK_AbpTenants" PRIMARY KEY,
    "Name" TEXT NOT NULL,
    "NormalizedName" TEXT NOT NULL,
    "EntityVersion" INTEGER NOT NULL,
    "ExtraProperties" TEXT NOT NULL,
    "ConcurrencyStamp" TEXT NOT NULL,
    "CreationTime" TEXT NOT NULL,
    "CreatorId" TEXT NULL,
    "IsDeleted" INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX "IX_AbpTenants_Name" ON "AbpTenants" ("Name");
INSERT INTO "AbpTenants" VALUES
('5B0C1F42-9E37-4C11-8A5D-3A1E7C20B8F1', 'northwind', 'NORTHWIND', 0, '{}', '0f4c2f9d51be4c0b8b6f7fe2ab4a7d10', '2026-03-03 09:40:11.5520318', NULL, 0),
('C47E9A10-26B4-73D8-E1F0-3A1E7C264D09', 'contoso', 'CONTOSO', 1, '{}', '7a60a7d4e8f14ce19a44c7a1c2b7e3f5', '2026-03-03 09:46:20.1043377', NULL, 0);

CREATE TABLE "AbpBackgroundJobs" (
    "Id" TEXT NOT NULL CONSTRAINT "PK_AbpBackgroundJobs" PRIMARY KEY,
    "ApplicationName" TEXT NULL,
    "JobName" TEXT NOT NULL,
    "JobArgs" TEXT NOT NULL,
    "TryCount" INTEGER NOT NULL DEFAULT 0,
    "CreationTime" TEXT NOT NULL,
    "NextTryTime" TEXT NOT NULL,
    "LastTryTime" TEXT NULL,
    "IsAbandoned" INTEGER NOT NULL DEFAULT 0,
    "Priority" INTEGER NOT NULL DEFAULT 15,
    "ExtraProperties" TEXT NOT NULL,
    "ConcurrencyStamp" TEXT NOT NULL
);
CREATE INDEX "IX_AbpBackgroundJobs_IsAbandoned_NextTryTime" ON "AbpBackgroundJobs" ("IsAbandoned", "NextTryTime");

-- k: dead = abandoned after 12 tries (two days), bad = abandoned at the first (job cannot be found or read), retry = waits for its next try, delay = enqueued with a delay, new = not tried yet
-- s = seconds before noon at which the job was enqueued, tr = number of tries, d = delay in seconds
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 104),
j(i, k, s, tr, d) AS (
  SELECT i, CASE WHEN i % 6 = 2 THEN 'bad' ELSE 'dead' END, 6100000 - i * 138000 + (i * 7717) % 9000, CASE WHEN i % 6 = 2 THEN 1 ELSE 12 END, 0 FROM n WHERE i <= 42
  UNION ALL SELECT i, 'retry', 60 * ((1 << (i - 42)) - 1) - (19 + i * 5 % 13) - 3 * (1 << (i - 42)), i - 42, 0 FROM n WHERE i BETWEEN 43 AND 53
  UNION ALL SELECT i, 'retry', 60 * ((1 << (i - 45)) - 1) - (23 + i * 3 % 11) - 9 * (1 << (i - 45)), i - 45, 0 FROM n WHERE i BETWEEN 54 AND 56
  UNION ALL SELECT i, 'delay', 600000 - (i - 56) * 31000 - (i * 613) % 4001, 0, CASE i % 3 WHEN 0 THEN 604800 WHEN 1 THEN 691200 ELSE 1209600 END FROM n WHERE i BETWEEN 57 AND 74
  UNION ALL SELECT i, 'new', 3, 0, 0 FROM n WHERE i > 74
),
t AS (
  SELECT *, CAST(strftime('%s', '2026-11-24 12:00:00') AS INTEGER) - s AS c, CASE WHEN k = 'new' THEN 1204000 + (i - 74) * 81937 ELSE (i * 2750159) % 9999990 END AS f,
    CASE WHEN k = 'delay' THEN 'Acme.BookStore.Reviews.ReviewReminderArgs' WHEN k = 'bad' THEN CASE WHEN i > 20 THEN 'Acme.BookStore.Exports.LegacyExportArgs' ELSE 'Acme.BookStore.Stock.StockSyncArgs' END
      WHEN k = 'new' OR i % 3 > 0 THEN 'Volo.Abp.Emailing.BackgroundEmailSendingJobArgs' ELSE 'Acme.BookStore.Stock.StockSyncArgs' END AS jn
  FROM j
),
u AS (
  SELECT *, CASE WHEN tr > 0 THEN c + 60 * ((1 << (tr - 1)) - 1) + 2 + i % 3 END AS l FROM t
)
INSERT INTO "AbpBackgroundJobs" ("Id", "ApplicationName", "JobName", "JobArgs", "TryCount", "CreationTime", "NextTryTime", "LastTryTime", "IsAbandoned", "Priority", "ExtraProperties", "ConcurrencyStamp")
SELECT
  printf('%08X-%04X-%04X-%04X-%012X', (i * 2654435761 + 40503) % 4294967296, (i * 40503 + 977) % 65536, (i * 30011 + 5) % 65536, (i * 24593 + 31) % 65536, c * 1000 + f / 10000 + 62135596800000),
  NULL, jn,
  CASE jn WHEN 'Volo.Abp.Emailing.BackgroundEmailSendingJobArgs' THEN '{"TenantId":' || CASE i % 4 WHEN 0 THEN 'null' WHEN 1 THEN '"5b0c1f42-9e37-4c11-8a5d-3a1e7c20b8f1"' ELSE '"c47e9a10-26b4-73d8-e1f0-3a1e7c264d09"' END || ',"From":null,"To":"reader' || (i * 17) % 97 || CASE k WHEN 'new' THEN '@mail.example' ELSE '@gone.example' END || '","Subject":"Your order ' || (3000 + i) || '","Body":"<p>Thank you for your order ' || (3000 + i) || '.</p>","IsBodyHtml":true,"AdditionalEmailSendingArgs":null}'
    WHEN 'Acme.BookStore.Stock.StockSyncArgs' THEN '{"WarehouseId":' || (1 + i % 4) || ',"Full":false}'
    WHEN 'Acme.BookStore.Exports.LegacyExportArgs' THEN '{"Path":"/exports/' || i || '.csv"}'
    ELSE '{"BookId":"' || printf('%08x-11aa-4bb2-9cc3-%012x', (i * 2246822519) % 4294967296, i * 7919) || '","ReaderId":' || (100 + i) || '}' END,
  tr,
  rtrim(datetime(c, 'unixepoch') || '.' || printf('%07d', f), '0'),
  CASE WHEN k = 'retry' THEN rtrim(datetime(l + 60 * (1 << (tr - 1)), 'unixepoch') || '.' || printf('%07d', (i * 3571831) % 9999989 + 1), '0')
    WHEN k = 'dead' THEN rtrim(datetime(l - 2 - i % 3, 'unixepoch') || '.' || printf('%07d', (i * 811967) % 9999989 + 1), '0')
    ELSE rtrim(datetime(c + d, 'unixepoch') || '.' || printf('%07d', f + 6), '0') END,
  CASE WHEN tr > 0 THEN rtrim(datetime(l, 'unixepoch') || '.' || printf('%07d', (i * 3571831) % 9999989 + 1), '0') END,
  CASE WHEN k IN ('dead', 'bad') THEN 1 ELSE 0 END,
  CASE WHEN jn LIKE '%StockSync%' THEN 20 WHEN k = 'delay' THEN 5 ELSE 15 END,
  '{}',
  printf('%08x%08x%08x%08x', (i * 2654435761 + 7) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296)
FROM u ORDER BY c, f;
