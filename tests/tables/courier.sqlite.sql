-- Ory Kratos 1.x (persistence/sql/migrations), as it creates it on SQLite.
CREATE TABLE "courier_messages" ("id" TEXT PRIMARY KEY, "type" INTEGER NOT NULL, "status" INTEGER NOT NULL, "body" TEXT NOT NULL,
  "recipient" TEXT NOT NULL, "created_at" DATETIME NOT NULL, "updated_at" DATETIME NOT NULL, "send_count" INTEGER NOT NULL DEFAULT 0);
INSERT INTO "courier_messages" VALUES
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d101', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:00', '2026-11-20 10:00:00', 0),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:01', '2026-11-20 10:00:01', 2),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103', 1, 1, 'Hi', 'a@example.com', '2026-11-20 10:00:02', '2026-11-20 10:00:02', 0),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d104', 1, 2, 'Hi', 'a@example.com', '2026-11-20 10:00:03', '2026-11-20 10:00:03', 1);
