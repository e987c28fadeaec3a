-- Ory Kratos 1.x (persistence/sql/migrations), as it creates it on PostgreSQL, without its foreign key.
CREATE TABLE "courier_messages" ("id" UUID NOT NULL PRIMARY KEY, "type" int NOT NULL, "status" int NOT NULL, "body" text NOT NULL,
  "subject" VARCHAR(255) NOT NULL, "recipient" VARCHAR(255) NOT NULL, "created_at" timestamp NOT NULL, "updated_at" timestamp NOT NULL,
  "template_type" VARCHAR(255) NOT NULL DEFAULT '', "template_data" bytea, "nid" UUID,
  "send_count" int NOT NULL DEFAULT 0, "channel" VARCHAR(32));
CREATE INDEX "courier_messages_status_idx" ON "courier_messages" ("status");
CREATE INDEX "courier_messages_nid_idx" ON "courier_messages" ("nid");
INSERT INTO "courier_messages" ("id", "type", "status", "body", "subject", "recipient", "created_at", "updated_at",
  "template_type", "template_data", "nid", "send_count", "channel") VALUES
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d101', 1, 1, 'Hi', 'Verify', 'a@example.com', '2026-11-20 10:00:00', '2026-11-20 10:00:00', 'verification_valid', '{}', 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 0, 'email'),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d102', 1, 1, 'Hi', 'Verify', 'a@example.com', '2026-11-20 10:00:01', '2026-11-20 10:00:01', 'verification_valid', '{}', 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 2, 'email'),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d103', 2, 1, 'Hi', '', '+4712345678', '2026-11-20 10:00:02', '2026-11-20 10:00:02', 'verification_code_valid', NULL, 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 0, 'sms'),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d104', 1, 2, 'Hi', 'Verify', 'a@example.com', '2026-11-20 10:00:03', '2026-11-20 10:00:03', 'verification_valid', '{}', 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 1, NULL),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d105', 1, 3, 'Hi', 'Verify', 'a@example.com', '2026-11-20 10:00:04', '2026-11-20 10:00:04', 'verification_valid', '{}', 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 0, NULL),
  ('6f1c3b1e-0b6a-4d59-9d3e-2c56a4b6d106', 1, 4, 'Hi', 'Verify', 'a@example.com', '2026-11-20 10:00:05', '2026-11-20 10:00:05', 'verification_valid', '{}', 'b1f0a9c2-7f4e-4c55-8a10-6f2f3f0d9e01', 5, NULL);
