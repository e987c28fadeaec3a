-- django-mailer 2.3 (mailer/migrations), as Django creates it on SQLite.
CREATE TABLE "mailer_message" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  "message_data" text NOT NULL, "when_added" datetime NOT NULL, "priority" varchar(1) NOT NULL, "retry_count" smallint unsigned NOT NULL);
INSERT INTO "mailer_message" VALUES (1, 'gAN9', '2026-11-20 10:00:00', '1', 0), (2, 'gAN9', '2026-11-20 10:00:01', '2', 0),
  (3, 'gAN9', '2026-11-20 10:00:02', '4', 0), (4, 'gAN9', '2026-11-20 10:00:03', '5', 0);
