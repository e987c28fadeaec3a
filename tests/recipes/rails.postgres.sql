-- The migration in docs/recipes.md, in the types that Rails 7 has on PostgreSQL.
CREATE TABLE "deliveries" ("id" bigserial PRIMARY KEY, "state" character varying DEFAULT 'pending' NOT NULL, "attempts" integer DEFAULT 0 NOT NULL,
  "run_at" timestamp(6), "last_error" text, "created_at" timestamp(6) NOT NULL, "updated_at" timestamp(6) NOT NULL);
