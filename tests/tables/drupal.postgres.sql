-- Drupal 10 (DatabaseQueue::schemaDefinition), as it creates it on PostgreSQL.
CREATE TABLE "queue" ("item_id" serial CHECK ("item_id" >= 0), "name" varchar(255) NOT NULL DEFAULT '',
  "data" bytea NULL, "expire" int NOT NULL DEFAULT 0, "created" int NOT NULL DEFAULT 0, CONSTRAINT "queue____pkey" PRIMARY KEY ("item_id"));
CREATE INDEX "queue__name_created__idx" ON "queue" ("name", "created");
CREATE INDEX "queue__expire__idx" ON "queue" ("expire");
INSERT INTO "queue" ("item_id", "name", "data", "expire", "created") VALUES
  (1, 'mail', 's:1:"a";', 0, 1795132800),
  (2, 'mail', 's:1:"b";', 0, 1795132801),
  (3, 'mail', NULL, 1795132899, 1795132802),
  (4, 'cron', NULL, 0, 1795132803);
