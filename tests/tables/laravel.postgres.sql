-- Laravel 11 (the migration of make:queue-table), as it creates it on PostgreSQL.
CREATE TABLE "jobs" ("id" bigserial not null primary key, "queue" varchar(255) not null, "payload" text not null, "attempts" smallint not null,
  "reserved_at" integer null, "available_at" integer not null, "created_at" integer not null);
CREATE INDEX "jobs_queue_index" ON "jobs" ("queue");
INSERT INTO "jobs" ("id", "queue", "payload", "attempts", "reserved_at", "available_at", "created_at") VALUES
  (1, 'default', '{"job":"a"}', 0, NULL, 1577836800, 1795132800),
  (2, 'default', '{"job":"b"}', 2, NULL, 1577836800, 1795132801),
  (3, 'default', '{"job":"c"}', 0, 1795132802, 1577836800, 1795132802),
  (4, 'mails', '{"job":"d"}', 0, NULL, 1577836800, 1795132803),
  (5, 'default', '{"job":"e"}', 0, NULL, 1577836800, 1795132804),
  (6, 'default', '{"job":"f"}', 0, NULL, 2145916800, 1795132805);
