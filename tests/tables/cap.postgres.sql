-- DotNetCore.CAP 8 (IStorageInitializer.PostgreSql.cs), as it creates it on PostgreSQL, in a schema of its own. Retries is never NULL there.
CREATE SCHEMA "cap";
CREATE TABLE "cap"."published" ("Id" BIGINT PRIMARY KEY NOT NULL, "Version" VARCHAR(20) NOT NULL, "Name" VARCHAR(200) NOT NULL, "Content" TEXT NULL,
  "Retries" INT NOT NULL, "Added" TIMESTAMP NOT NULL, "ExpiresAt" TIMESTAMP NULL, "StatusName" VARCHAR(50) NOT NULL);
CREATE INDEX "idx_published_ExpiresAt_StatusName" ON "cap"."published" ("ExpiresAt", "StatusName");
INSERT INTO "cap"."published" VALUES
  (1865043271389614081, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:00', NULL, 'Scheduled'),
  (1865043271389614082, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:01', NULL, 'Scheduled'),
  (1865043271389614083, 'v1', 'order.paid', '{}', 3, '2026-11-20T10:00:02', NULL, 'Failed'),
  (1865043271389614084, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:03', '2026-11-21T10:00:03', 'Succeeded'),
  (1865043271389614085, 'v1', 'order.paid', '{}', 0, '2026-11-20T10:00:04', '2999-01-01T00:00:00', 'Delayed');
