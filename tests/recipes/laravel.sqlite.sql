-- The migration in docs/recipes.md, in the types that Laravel 11 has on SQLite.
create table "webhook_calls" ("id" integer primary key autoincrement not null, "url" varchar not null, "status" varchar not null default 'pending',
  "attempts" integer not null default '0', "available_at" datetime, "error" text, "created_at" datetime, "updated_at" datetime);
