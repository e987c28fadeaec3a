-- Drupal 10 (DatabaseQueue::schemaDefinition), as it creates it on SQLite.
CREATE TABLE "queue" (item_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL CHECK(item_id >= 0), name VARCHAR(255) NOT NULL DEFAULT '',
  data BLOB NULL DEFAULT NULL, expire INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL DEFAULT 0);
CREATE INDEX queue_name_created ON "queue" (name, created);
CREATE INDEX queue_expire ON "queue" (expire);
INSERT INTO "queue" (item_id, name, data, expire, created) VALUES
  (1, 'mail', CAST('s:1:"a";' AS BLOB), 0, 1795132800),
  (2, 'mail', CAST('s:1:"b";' AS BLOB), 0, 1795132801),
  (3, 'mail', NULL, 1795132899, 1795132802),
  (4, 'cron', NULL, 0, 1795132803);
