-- DotNetCore.CAP 8. Storage for SQLite comes from third parties, who put the schema before a dot in the name, as CAP does on MySQL.
CREATE TABLE "cap.published" ("Id" INTEGER NOT NULL PRIMARY KEY, "Version" TEXT NOT NULL, "Name" TEXT NOT NULL, "Content" TEXT,
  "Retries" INTEGER, "Added" TEXT NOT NULL, "ExpiresAt" TEXT, "StatusName" TEXT NOT NULL);
INSERT INTO "cap.published" VALUES
  (1865043271389614081, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:00', NULL, 'Scheduled'),
  (1865043271389614082, 'v1', 'order.paid', '{}', NULL, '2026-11-20T10:00:01', NULL, 'Scheduled'),
  (1865043271389614083, 'v1', 'order.paid', '{}', 3, '2026-11-20T10:00:02', NULL, 'Failed'),
  (1865043271389614084, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:03', '2026-11-21T10:00:03', 'Succeeded'),
  (1865043271389614085, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:04', '2999-01-01T00:00:00', 'Delayed');
