-- dialect: postgres
CREATE TABLE schema_migrations (version character varying NOT NULL PRIMARY KEY);
INSERT INTO schema_migrations VALUES ('20261001070000'), ('20261001070100'), ('20261014090000');
CREATE TABLE projects (id bigserial PRIMARY KEY, name text NOT NULL, created_at timestamp(6) without time zone NOT NULL, updated_at timestamp(6) without time zone NOT NULL);
INSERT INTO projects (name, created_at, updated_at) SELECT 'Project ' || g, timestamp '2026-10-01 08:00' + g * interval '3 hours', timestamp '2026-10-05 08:00' + g * interval '1 day' FROM generate_series(1, 7) g;

CREATE FUNCTION que_validate_tags(tags_array jsonb) RETURNS boolean LANGUAGE sql AS $$
  SELECT bool_and(jsonb_typeof(value) = 'string' AND char_length(value::text) <= 100) FROM jsonb_array_elements(tags_array)
$$;
CREATE TABLE que_jobs (
  priority smallint DEFAULT 100 NOT NULL,
  run_at timestamp with time zone DEFAULT now() NOT NULL,
  id bigserial NOT NULL PRIMARY KEY,
  job_class text NOT NULL,
  error_count integer DEFAULT 0 NOT NULL,
  last_error_message text,
  queue text DEFAULT 'default'::text NOT NULL,
  last_error_backtrace text,
  finished_at timestamp with time zone,
  expired_at timestamp with time zone,
  args jsonb DEFAULT '[]'::jsonb NOT NULL,
  data jsonb DEFAULT '{}'::jsonb NOT NULL,
  job_schema_version integer NOT NULL,
  kwargs jsonb DEFAULT '{}'::jsonb NOT NULL,
  CONSTRAINT error_length CHECK (char_length(last_error_message) <= 500 AND char_length(last_error_backtrace) <= 10000),
  CONSTRAINT job_class_length CHECK (char_length(job_class) <= 200),
  CONSTRAINT queue_length CHECK (char_length(queue) <= 100),
  CONSTRAINT valid_args CHECK (jsonb_typeof(args) = 'array'),
  CONSTRAINT valid_data CHECK (jsonb_typeof(data) = 'object' AND (NOT data ? 'tags' OR (jsonb_typeof(data -> 'tags') = 'array' AND jsonb_array_length(data -> 'tags') <= 5 AND que_validate_tags(data -> 'tags'))))
);
CREATE INDEX que_jobs_args_gin_idx ON que_jobs USING gin (args jsonb_path_ops);
CREATE INDEX que_jobs_data_gin_idx ON que_jobs USING gin (data jsonb_path_ops);
CREATE INDEX que_poll_idx ON que_jobs (queue, priority, run_at, id) WHERE finished_at IS NULL AND expired_at IS NULL;
CREATE INDEX que_poll_idx_with_job_schema_version ON que_jobs (job_schema_version, queue, priority, run_at, id) WHERE finished_at IS NULL AND expired_at IS NULL;
CREATE TABLE que_lockers (
  pid integer NOT NULL PRIMARY KEY,
  worker_count integer NOT NULL,
  worker_priorities integer[] NOT NULL,
  ruby_pid integer NOT NULL,
  ruby_hostname text NOT NULL,
  queues text[] NOT NULL,
  listening boolean NOT NULL,
  job_schema_version integer DEFAULT 1
);
INSERT INTO que_lockers VALUES (3127, 6, '{10,30,50,NULL,NULL,NULL}', 19, 'web-worker-1', '{default,mailers}', true, 2);
CREATE TABLE que_values (key text NOT NULL PRIMARY KEY, value jsonb DEFAULT '{}'::jsonb NOT NULL, CONSTRAINT valid_value CHECK (jsonb_typeof(value) = 'object'));

INSERT INTO que_jobs (priority, run_at, job_class, error_count, last_error_message, queue, last_error_backtrace, finished_at, expired_at, args, data, job_schema_version, kwargs)
SELECT CASE i % 4 WHEN 3 THEN 50 WHEN 1 THEN 10 ELSE 100 END,
  CASE k WHEN 'retry' THEN timestamptz '2026-11-24 11:51:12.5+00' + (i % 9) * interval '14 minutes'
         WHEN 'later' THEN timestamptz '2026-11-24 12:40+00' + (i % 15) * interval '5 hours'
         WHEN 'dead' THEN c + interval '13 days'
         ELSE c END,
  cls,
  CASE k WHEN 'retry' THEN 1 + i % 6 WHEN 'dead' THEN 16 WHEN 'done' THEN CASE WHEN i % 23 = 5 THEN 1 ELSE 0 END ELSE 0 END,
  CASE WHEN k IN ('retry', 'dead') OR (k = 'done' AND i % 23 = 5) THEN CASE i % 3 WHEN 0 THEN 'Net::OpenTimeout: execution expired' WHEN 1 THEN 'PG::ConnectionBad: could not connect to server: Connection refused' ELSE 'RuntimeError: exporter returned 502' END END,
  CASE i % 4 WHEN 1 THEN 'mailers' ELSE 'default' END,
  CASE WHEN k IN ('retry', 'dead') OR (k = 'done' AND i % 23 = 5) THEN E'app/jobs/application_job.rb:14:in `run''\n/usr/local/bundle/gems/que-2.4.1/lib/que/job.rb:67:in `block in _run''' END,
  CASE k WHEN 'done' THEN c + CASE WHEN i % 23 = 5 THEN interval '5 seconds' ELSE interval '0' END + (300 + i * 71 % 4100) * interval '1 millisecond' END,
  CASE k WHEN 'dead' THEN c + interval '13 days 3 seconds' END,
  jsonb_build_array(1 + i % 7, 'r' || 5000 + i),
  CASE WHEN i % 4 = 1 THEN '{"tags": ["mail"]}'::jsonb ELSE '{}'::jsonb END,
  2,
  CASE WHEN i % 5 = 0 THEN jsonb_build_object('notify', true) ELSE '{}'::jsonb END
FROM (
  SELECT i,
    CASE WHEN i <= 150 THEN timestamptz '2026-10-02 05:21:13.440912+00' + i * interval '8 hours 20 minutes' ELSE timestamptz '2026-11-24 09:40:51.100207+00' + (i - 150) * interval '3 minutes' END AS c,
    CASE i % 4 WHEN 0 THEN 'ImportRowsJob' WHEN 1 THEN 'DigestMailJob' WHEN 2 THEN 'ExportJob' ELSE 'ReindexJob' END AS cls,
    CASE WHEN i <= 90 AND i % 18 = 7 THEN 'dead' WHEN i <= 150 THEN 'done' WHEN i <= 159 THEN 'retry' WHEN i <= 173 THEN 'new' ELSE 'later' END AS k
  FROM generate_series(1, 183) i
) s ORDER BY i;
