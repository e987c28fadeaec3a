-- Laravel 11 (its own migration of jobs), in the types that it has on PostgreSQL.
create table "failed_jobs" ("id" bigserial not null primary key, "uuid" varchar(255) not null, "connection" text not null, "queue" text not null,
  "payload" text not null, "exception" text not null, "failed_at" timestamp(0) without time zone not null default CURRENT_TIMESTAMP);
alter table "failed_jobs" add constraint "failed_jobs_uuid_unique" unique ("uuid");
