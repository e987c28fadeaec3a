-- Django 5.2 (sqlmigrate of the model in docs/recipes.md), on SQLite.
CREATE TABLE "shop_outboxmessage" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "topic" varchar(100) NOT NULL,
  "payload" text NOT NULL CHECK ((JSON_VALID("payload") OR "payload" IS NULL)), "state" varchar(10) NOT NULL, "created_at" datetime NOT NULL,
  "attempts" integer unsigned NOT NULL CHECK ("attempts" >= 0), "last_attempt" datetime NULL, "last_error" text NOT NULL);
