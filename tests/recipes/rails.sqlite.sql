-- The migration in docs/recipes.md, in the types that Rails 7 has on SQLite.
CREATE TABLE "deliveries" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "state" varchar DEFAULT 'pending' NOT NULL, "attempts" integer DEFAULT 0 NOT NULL,
  "run_at" datetime(6), "last_error" text, "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
