-- django-post_office 3.10 (post_office/migrations), as Django creates it on SQLite.
CREATE TABLE "post_office_email" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "from_email" varchar(254) NOT NULL, "to" text NOT NULL, "subject" varchar(989) NOT NULL,
  "status" smallint unsigned NULL CHECK ("status" >= 0), "created" datetime NOT NULL,
  "last_updated" datetime NOT NULL, "scheduled_time" datetime NULL,
  "number_of_retries" integer unsigned NULL, "message_id" varchar(255) NULL);
CREATE INDEX "post_office_email_status" ON "post_office_email" ("status");
INSERT INTO "post_office_email" ("id", "from_email", "to", "subject", "status", "created", "last_updated", "scheduled_time", "number_of_retries") VALUES
  (1, 'a@example.com', 'b@example.com', 'sent', 0, '2026-11-20 10:00:00.000001', '2026-11-20 10:00:00.000001', NULL, NULL),
  (2, 'a@example.com', 'b@example.com', 'queued', 2, '2026-11-20 10:00:01.000001', '2026-11-20 10:00:01.000001', NULL, NULL),
  (3, 'a@example.com', 'b@example.com', 'requeued', 3, '2026-11-20 10:00:02.000001', '2026-11-20 10:00:02.000001', NULL, NULL),
  (4, 'a@example.com', 'b@example.com', 'failed', 1, '2026-11-20 10:00:03.000001', '2026-11-20 10:00:03.000001', NULL, 4),
  (5, 'a@example.com', 'b@example.com', 'later', 2, '2026-11-20 10:00:04.000001', '2026-11-20 10:00:04.000001', '2999-01-01 00:00:00', NULL);
