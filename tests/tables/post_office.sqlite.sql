-- django-post_office 3.10 (post_office/migrations), as Django 4.2 creates it on SQLite, without its foreign key.
CREATE TABLE "post_office_email" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "from_email" varchar(254) NOT NULL, "to" text NOT NULL, "cc" text NOT NULL, "bcc" text NOT NULL,
  "subject" varchar(989) NOT NULL, "message" text NOT NULL, "html_message" text NOT NULL,
  "status" smallint unsigned NULL CHECK ("status" >= 0), "priority" smallint unsigned NULL CHECK ("priority" >= 0),
  "created" datetime NOT NULL, "last_updated" datetime NOT NULL, "scheduled_time" datetime NULL,
  "expires_at" datetime NULL, "number_of_retries" integer unsigned NULL CHECK ("number_of_retries" >= 0),
  "headers" text NULL CHECK (JSON_VALID("headers") OR "headers" IS NULL),
  "context" text NULL CHECK (JSON_VALID("context") OR "context" IS NULL),
  "template_id" integer NULL, "backend_alias" varchar(64) NOT NULL, "message_id" varchar(255) NULL);
CREATE INDEX "post_office_email_status" ON "post_office_email" ("status");
CREATE INDEX "post_office_email_priority" ON "post_office_email" ("priority");
CREATE INDEX "post_office_email_created" ON "post_office_email" ("created");
CREATE INDEX "post_office_email_last_updated" ON "post_office_email" ("last_updated");
CREATE INDEX "post_office_email_scheduled_time" ON "post_office_email" ("scheduled_time");
CREATE INDEX "post_office_email_expires_at" ON "post_office_email" ("expires_at");
INSERT INTO "post_office_email" ("id", "from_email", "to", "cc", "bcc", "subject", "message", "html_message",
  "status", "priority", "created", "last_updated", "scheduled_time", "number_of_retries", "headers", "backend_alias") VALUES
  (1, 'a@example.com', 'b@example.com', '', '', 'sent', 'Hi', '', 0, 1, '2026-11-20 10:00:00.000001', '2026-11-20 10:00:00.000001', NULL, NULL, NULL, ''),
  (2, 'a@example.com', 'b@example.com', '', '', 'queued', 'Hi', '', 2, 1, '2026-11-20 10:00:01.000001', '2026-11-20 10:00:01.000001', NULL, NULL, '{"Reply-To": "c@example.com"}', ''),
  (3, 'a@example.com', 'b@example.com', '', '', 'requeued', 'Hi', '', 3, 1, '2026-11-20 10:00:02.000001', '2026-11-20 10:00:02.000001', NULL, 4, NULL, ''),
  (4, 'a@example.com', 'b@example.com', '', '', 'failed', 'Hi', '', 1, 1, '2026-11-20 10:00:03.000001', '2026-11-20 10:00:03.000001', NULL, 4, NULL, ''),
  (5, 'a@example.com', 'b@example.com', '', '', 'later', 'Hi', '', 2, 1, '2026-11-20 10:00:04.000001', '2026-11-20 10:00:04.000001', '2999-01-01 00:00:00', NULL, NULL, ''),
  (6, 'a@example.com', 'b@example.com', '', '', 'was later', 'Hi', '', 2, 2, '2026-11-20 10:00:05.000001', '2026-11-20 10:00:05.000001', '2020-01-01 00:00:00', NULL, NULL, ''),
  (7, 'a@example.com', 'b@example.com', '', '', 'being sent', 'Hi', '', NULL, 3, '2026-11-20 10:00:06.000001', '2026-11-20 10:00:06.000001', NULL, NULL, NULL, '');
