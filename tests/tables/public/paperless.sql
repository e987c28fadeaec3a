-- dialect: sqlite
CREATE TABLE "auth_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(150) NOT NULL UNIQUE, "email" varchar(254) NOT NULL, "is_active" bool NOT NULL, "date_joined" datetime NOT NULL);
INSERT INTO "auth_user" VALUES (1, 'admin', 'admin@home.example', 1, '2026-10-01 06:00:00.120000'), (2, 'ann', 'ann@home.example', 1, '2026-10-01 06:30:00.120000');
CREATE TABLE "documents_correspondent" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(128) NOT NULL, "match" varchar(256) NOT NULL, "matching_algorithm" integer unsigned NOT NULL CHECK ("matching_algorithm" >= 0), "is_insensitive" bool NOT NULL);
INSERT INTO "documents_correspondent" VALUES (1, 'Electricity Ltd', 'kWh', 1, 1), (2, 'Insurance', '', 6, 1);
CREATE TABLE "documents_document" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "title" varchar(128) NOT NULL, "content" text NOT NULL, "mime_type" varchar(256) NOT NULL, "checksum" varchar(32) NOT NULL UNIQUE, "created" date NOT NULL, "added" datetime NOT NULL, "filename" varchar(1024) NULL UNIQUE, "correspondent_id" bigint NULL REFERENCES "documents_correspondent" ("id") DEFERRABLE INITIALLY DEFERRED);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
INSERT INTO "documents_document" SELECT i, 'scan_' || printf('%04d', i), 'Invoice ' || i, 'application/pdf', printf('%08x%08x%08x%08x', (i * 2654435761) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296), '2026-10-' || printf('%02d', i + 4), '2026-10-' || printf('%02d', i + 4) || ' 09:11:00.500000', printf('%07d.pdf', i), 1 + i % 2 FROM n;

CREATE TABLE "documents_paperlesstask" (
  "id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "task_id" varchar(255) NOT NULL UNIQUE,
  "acknowledged" bool NOT NULL,
  "task_file_name" varchar(255) NULL,
  "task_name" varchar(255) NULL,
  "status" varchar(30) NOT NULL,
  "date_created" datetime NULL,
  "date_started" datetime NULL,
  "date_done" datetime NULL,
  "result" text NULL,
  "owner_id" integer NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED,
  "type" varchar(30) NOT NULL
);
CREATE INDEX "documents_paperlesstask_owner_id_4b3f5a58" ON "documents_paperlesstask" ("owner_id");

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150),
k AS (SELECT i, datetime(CASE WHEN i <= 132 THEN '2026-10-14 06:05:21' ELSE '2026-11-24 11:52:40' END, '+' || (CASE WHEN i <= 132 THEN i * 26700 + (i * 59) % 1201 ELSE (i - 132) * 17 END) || ' seconds') AS c,
  CASE WHEN i <= 132 THEN CASE WHEN i % 15 = 6 THEN 'FAILURE' WHEN i IN (52, 101) THEN 'REVOKED' WHEN i IN (88, 127) THEN 'PENDING' ELSE 'SUCCESS' END WHEN i <= 134 THEN 'STARTED' ELSE 'PENDING' END AS st,
  CASE WHEN i <= 132 AND i % 12 = 0 THEN 'train_classifier' WHEN i <= 132 AND i % 22 = 1 THEN 'check_sanity' ELSE 'consume_file' END AS tn FROM n)
INSERT INTO "documents_paperlesstask" (task_id, acknowledged, task_file_name, task_name, status, date_created, date_started, date_done, result, owner_id, type)
SELECT printf('%08x-7c1e-4b2a-9d3f-%012x', (i * 2654435761) % 4294967296, (i * 104729 * 8191) % 281474976710656), CASE WHEN i < 100 AND st IN ('SUCCESS', 'FAILURE') THEN 1 ELSE 0 END,
  CASE tn WHEN 'consume_file' THEN 'scan_2026' || strftime('%m%d', c) || '_' || printf('%03d', i) || CASE i % 9 WHEN 4 THEN '.jpg' ELSE '.pdf' END END, tn, st,
  c || printf('.%06d', (i * 7919) % 1000000),
  CASE WHEN st NOT IN ('PENDING', 'REVOKED') THEN CASE st WHEN 'STARTED' THEN '2026-11-24 11:59:1' || (i % 10) || '.221905' ELSE datetime(c, '+' || (1 + i % 4) || ' seconds') || printf('.%06d', (i * 3571) % 1000000) END END,
  CASE WHEN st NOT IN ('PENDING', 'STARTED') THEN datetime(c, '+' || (6 + (i * 13) % 90) || ' seconds') || printf('.%06d', (i * 5501) % 1000000) END,
  CASE st WHEN 'SUCCESS' THEN CASE tn WHEN 'consume_file' THEN 'Success. New document id ' || (200 + i) || ' created' WHEN 'check_sanity' THEN 'No issues detected.' ELSE 'Training data updated' END
    WHEN 'FAILURE' THEN CASE i % 2 WHEN 0 THEN 'scan_' || i || '.pdf: Not consuming scan_' || i || '.pdf: It is a duplicate of scan_0004 (#4).' ELSE 'scan_' || i || '.pdf: Error occurred while consuming document: SubprocessOutputError: Ghostscript PDF/A rendering failed' END END,
  CASE WHEN i % 4 = 0 THEN 2 WHEN i % 4 = 1 THEN 1 END, CASE tn WHEN 'consume_file' THEN 'auto_task' ELSE 'scheduled_task' END
FROM k ORDER BY i;
