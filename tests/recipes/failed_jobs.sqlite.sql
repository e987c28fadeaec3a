-- Laravel 11 (its own migration of jobs), in the types that it has on SQLite.
create table "failed_jobs" ("id" integer primary key autoincrement not null, "uuid" varchar not null, "connection" text not null, "queue" text not null,
  "payload" text not null, "exception" text not null, "failed_at" datetime not null default CURRENT_TIMESTAMP);
create unique index "failed_jobs_uuid_unique" on "failed_jobs" ("uuid");
