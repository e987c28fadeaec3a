-- django-mailer 2.3 (mailer/migrations), as Django 4.2 creates it on SQLite.
CREATE TABLE "mailer_message" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "message_data" text NOT NULL, "when_added" datetime NOT NULL,
  "priority" smallint unsigned NOT NULL CHECK ("priority" >= 0), "retry_count" integer NOT NULL);
INSERT INTO "mailer_message" ("id", "message_data", "when_added", "priority", "retry_count") VALUES
  (1, 'gAN9', '2026-11-20 10:00:00', 1, 0),
  (2, 'gAN9', '2026-11-20 10:00:01', 2, 0),
  (3, 'gAN9', '2026-11-20 10:00:02', 4, 2),
  (4, 'gAN9', '2026-11-20 10:00:03', 5, 0),
  (5, 'gAN9', '2026-11-20 10:00:04', 3, 0);
