-- dialect: postgres
CREATE TABLE schema_migrations (version varchar NOT NULL PRIMARY KEY);
INSERT INTO schema_migrations SELECT '2026010112000' || g FROM generate_series(1, 6) g;
CREATE TABLE users (
  id bigserial PRIMARY KEY,
  email varchar NOT NULL,
  name varchar,
  created_at timestamp(6) without time zone NOT NULL,
  updated_at timestamp(6) without time zone NOT NULL
);
INSERT INTO users (email, name, created_at, updated_at)
SELECT 'user' || g || '@shop.example', 'User ' || g, timestamp '2026-10-01 08:00' + g * interval '1 hour', timestamp '2026-10-01 08:00' + g * interval '1 hour'
FROM generate_series(1, 8) g;
CREATE TABLE good_job_settings (
  id uuid DEFAULT gen_random_uuid() NOT NULL PRIMARY KEY,
  created_at timestamp(6) without time zone NOT NULL,
  updated_at timestamp(6) without time zone NOT NULL,
  key text,
  value jsonb
);
CREATE UNIQUE INDEX index_good_job_settings_on_key ON good_job_settings (key);
INSERT INTO good_job_settings VALUES (md5('setting1')::uuid, '2026-10-01 08:00', '2026-10-01 08:00', 'cron_keys_disabled', '[]');
CREATE TABLE good_job_processes (
  id uuid DEFAULT gen_random_uuid() NOT NULL PRIMARY KEY,
  created_at timestamp(6) without time zone NOT NULL,
  updated_at timestamp(6) without time zone NOT NULL,
  state jsonb,
  lock_type smallint
);
INSERT INTO good_job_processes VALUES
 (md5('proc1')::uuid, '2026-11-24 06:00', '2026-11-24 11:59:50', '{"hostname":"worker-1","pid":41,"schedulers":["GoodJob::Scheduler(queues=* max_threads=5)"]}', 1);

CREATE TABLE good_jobs (
  id uuid DEFAULT gen_random_uuid() NOT NULL PRIMARY KEY,
  queue_name text,
  priority integer,
  serialized_params jsonb,
  scheduled_at timestamp(6) without time zone,
  performed_at timestamp(6) without time zone,
  finished_at timestamp(6) without time zone,
  error text,
  created_at timestamp(6) without time zone NOT NULL,
  updated_at timestamp(6) without time zone NOT NULL,
  active_job_id uuid,
  concurrency_key text,
  cron_key text,
  retried_good_job_id uuid,
  cron_at timestamp(6) without time zone,
  batch_id uuid,
  batch_callback_id uuid,
  is_discrete boolean,
  executions_count integer,
  job_class text,
  error_event smallint,
  labels text[],
  locked_by_id uuid,
  locked_at timestamp(6) without time zone
);
CREATE INDEX index_good_jobs_on_scheduled_at ON good_jobs (scheduled_at) WHERE finished_at IS NULL;
CREATE INDEX index_good_jobs_on_queue_name_and_scheduled_at ON good_jobs (queue_name, scheduled_at) WHERE finished_at IS NULL;
CREATE INDEX index_good_jobs_on_active_job_id_and_created_at ON good_jobs (active_job_id, created_at);
CREATE INDEX index_good_jobs_on_concurrency_key_when_unfinished ON good_jobs (concurrency_key) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX index_good_jobs_on_cron_key_and_cron_at_cond ON good_jobs (cron_key, cron_at) WHERE cron_key IS NOT NULL;
CREATE INDEX index_good_jobs_jobs_on_finished_at ON good_jobs (finished_at) WHERE retried_good_job_id IS NULL AND finished_at IS NOT NULL;
CREATE INDEX index_good_jobs_on_priority_scheduled_at_unfinished_unlocked ON good_jobs (priority, scheduled_at) WHERE finished_at IS NULL AND locked_by_id IS NULL;

INSERT INTO good_jobs
SELECT md5('gj' || i)::uuid,
  CASE i % 4 WHEN 0 THEN 'mailers' WHEN 1 THEN 'default' WHEN 2 THEN 'default' ELSE 'low' END,
  CASE i % 4 WHEN 3 THEN 10 ELSE 0 END,
  jsonb_build_object('job_class', cls, 'job_id', md5('gj' || i)::uuid, 'queue_name', 'default', 'arguments', jsonb_build_array(1000 + i), 'executions', CASE WHEN k = 'retry' THEN 1 + i % 4 ELSE 0 END, 'locale', 'en', 'timezone', 'UTC', 'enqueued_at', c),
  CASE k WHEN 'retry' THEN timestamp '2026-11-24 11:57' + (i % 9) * interval '41 minutes'
         WHEN 'later' THEN timestamp '2026-11-24 13:00' + (i % 11) * interval '3 hours'
         WHEN 'dead' THEN c + interval '11 minutes'
         ELSE c END,
  CASE WHEN k IN ('done', 'dead', 'run') THEN CASE k WHEN 'dead' THEN c + interval '11 minutes' WHEN 'run' THEN timestamp '2026-11-24 11:59:40.018211' ELSE c + (i % 7) * interval '1 second' END END,
  CASE k WHEN 'done' THEN c + (2 + i % 31) * interval '1 second' WHEN 'dead' THEN c + interval '11 minutes 3 seconds' END,
  CASE WHEN k IN ('retry', 'dead') THEN CASE i % 3 WHEN 0 THEN 'Net::ReadTimeout: Net::ReadTimeout with #<TCPSocket:(closed)>' WHEN 1 THEN 'ActiveRecord::RecordNotFound: Couldn''t find Order with ''id''=' || 1000 + i ELSE 'Faraday::ServerError: the server responded with status 503' END END,
  c,
  CASE k WHEN 'done' THEN c + (2 + i % 31) * interval '1 second' WHEN 'dead' THEN c + interval '11 minutes 3 seconds' WHEN 'retry' THEN least(c + interval '9 minutes', timestamp '2026-11-24 11:59') ELSE c END,
  md5('gj' || i)::uuid,
  CASE WHEN cls = 'SyncInventoryJob' THEN 'sync-' || i % 6 END,
  CASE WHEN cls = 'NightlyReportJob' THEN 'nightly_report' END,
  NULL,
  CASE WHEN cls = 'NightlyReportJob' THEN date_trunc('minute', c) END,
  NULL, NULL, true,
  CASE k WHEN 'done' THEN CASE WHEN i % 19 = 0 THEN 2 ELSE 1 END WHEN 'dead' THEN 5 WHEN 'run' THEN 1 WHEN 'retry' THEN 1 + i % 4 ELSE 0 END,
  cls,
  CASE k WHEN 'retry' THEN 3 WHEN 'dead' THEN 4 END,
  CASE WHEN i % 4 = 0 THEN ARRAY['mail'] END,
  CASE k WHEN 'run' THEN md5('proc1')::uuid END,
  CASE k WHEN 'run' THEN timestamp '2026-11-24 11:59:40' END
FROM (
  SELECT i,
    CASE WHEN i <= 172 THEN timestamp '2026-10-31 11:11:07.120441' + i * interval '3 hours 15 minutes' + (i * 37 % 59) * interval '61 seconds' ELSE timestamp '2026-11-24 11:10:03.551204' + (i - 172) * interval '110 seconds' END AS c,
    CASE i % 5 WHEN 0 THEN 'NightlyReportJob' WHEN 1 THEN 'SyncInventoryJob' WHEN 2 THEN 'ActionMailer::MailDeliveryJob' WHEN 3 THEN 'InvoiceExportJob' ELSE 'WebhookDeliveryJob' END AS cls,
    CASE WHEN i <= 172 AND i % 22 = 7 THEN 'dead' WHEN i <= 172 THEN 'done' WHEN i <= 175 THEN 'run' WHEN i <= 181 THEN 'retry' WHEN i <= 190 THEN 'new' ELSE 'later' END AS k
  FROM generate_series(1, 198) i
) s ORDER BY i;
