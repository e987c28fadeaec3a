-- The migration in docs/recipes.md, in the types that Laravel 11 has on PostgreSQL.
create table "webhook_calls" ("id" bigserial not null primary key, "url" varchar(255) not null, "status" varchar(255) not null default 'pending',
  "attempts" integer not null default '0', "available_at" timestamp(0) without time zone null, "error" text null,
  "created_at" timestamp(0) without time zone null, "updated_at" timestamp(0) without time zone null);
