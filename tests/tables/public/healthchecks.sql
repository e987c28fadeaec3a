-- dialect: sqlite
CREATE TABLE "api_check" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(100) NOT NULL, "slug" varchar(100) NOT NULL, "code" char(32) NOT NULL UNIQUE, "kind" varchar(10) NOT NULL, "timeout" bigint NOT NULL, "grace" bigint NOT NULL, "n_pings" integer NOT NULL, "last_ping" datetime NULL, "alert_after" datetime NULL, "status" varchar(6) NOT NULL, "created" datetime NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
INSERT INTO "api_check" SELECT i, 'Backup db' || i, 'backup-db' || i, printf('%08x%024x', (i * 2654435761) % 4294967296, i * 987654321), 'simple', 86400000000, 3600000000, 40 + i * 7, '2026-11-24 0' || (i % 9) || ':05:1' || (i % 10) || '.338120', '2026-11-25 0' || (i % 9) || ':05:11.338120', 'up', '2026-09-20 08:1' || (i % 10) || ':04.118230' FROM n;

CREATE TABLE "api_flip" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "created" datetime NOT NULL, "processed" datetime NULL, "old_status" varchar(8) NOT NULL, "new_status" varchar(8) NOT NULL, "owner_id" integer NOT NULL REFERENCES "api_check" ("id") DEFERRABLE INITIALLY DEFERRED, "reason" varchar(8) NOT NULL);
-- every check: new -> up, then down and up by turns; check 5 was paused now and then, check 9 once
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 261),
a AS (SELECT i, CASE WHEN i <= 12 THEN i WHEN i <= 252 THEN 1 + (i - 1) % 12 ELSE 1 + (i * 5) % 12 END AS o, (i - 1) / 12 AS k,
  CASE WHEN i <= 12 THEN strftime('%s', '2026-09-20 08:21:00') + i * 190 WHEN i <= 250 THEN strftime('%s', '2026-09-20 09:40:00') + i * 22380 + (i * 7919) % 15000 WHEN i <= 252 THEN strftime('%s', '2026-11-24 11:38:12') + (i - 250) * 417 ELSE strftime('%s', '2026-11-24 11:54:44') + (i - 253) * 36 + (i * 37) % 11 END AS c FROM n),
b AS (SELECT i, o, c, k, CASE WHEN (o = 5 AND k IN (3, 4, 11, 12, 17, 18)) OR (o = 9 AND k IN (7, 8)) THEN 'paused' ELSE 'down' END AS low FROM a),
d AS (SELECT i, o, c, CASE WHEN i > 252 THEN CASE WHEN i IN (255, 259, 260) THEN 'down' ELSE 'up' END WHEN k = 0 THEN 'new' WHEN k % 2 = 1 THEN 'up' ELSE low END AS old,
  CASE WHEN i > 252 THEN CASE WHEN i IN (255, 259, 260) THEN 'up' ELSE 'down' END WHEN k % 2 = 0 THEN 'up' ELSE low END AS new, (i * 104729) % 1000000 AS us, (i * 48271) % 1000000 AS ps FROM b)
INSERT INTO "api_flip" (id, created, processed, old_status, new_status, owner_id, reason)
SELECT 1180 + i, datetime(c, 'unixepoch') || printf('.%06d', us),
  CASE WHEN i > 252 THEN NULL WHEN new = 'paused' THEN datetime(c, 'unixepoch') || printf('.%06d', us) ELSE datetime(c + 1 + (i % 3 = 0) * (1 + i % 2), 'unixepoch') || printf('.%06d', ps) END,
  old, new, o, CASE WHEN new <> 'down' THEN '' WHEN i > 252 OR i % 3 = 1 THEN 'fail' ELSE 'timeout' END
FROM d ORDER BY i;
CREATE INDEX "api_flip_owner_id_d3cb6a4e" ON "api_flip" ("owner_id");
CREATE INDEX "api_flip_not_processed" ON "api_flip" ("processed") WHERE "processed" IS NULL;
CREATE INDEX "api_flip_owner_created" ON "api_flip" ("owner_id", "created");
