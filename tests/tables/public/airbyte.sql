-- dialect: postgres
CREATE TABLE airbyte_metadata (key varchar(255) NOT NULL PRIMARY KEY, value varchar(255));
INSERT INTO airbyte_metadata VALUES ('server_uuid', '6a3a2b0e-3a51-4f2e-9a8c-0f3b1c2d4e5f'), ('airbyte_version', '0.63.8'), ('deployment_id', '9f0c9c1e-5a1d-4c84-8a3f-7e2f3f6a1b2c');
CREATE TYPE job_config_type AS ENUM ('check_connection_source', 'check_connection_destination', 'discover_schema', 'get_spec', 'sync', 'reset_connection', 'refresh', 'clear');
CREATE TYPE job_status AS ENUM ('pending', 'running', 'incomplete', 'failed', 'succeeded', 'cancelled');
CREATE TYPE attempt_status AS ENUM ('running', 'failed', 'succeeded');
CREATE TABLE jobs (
  id bigserial NOT NULL PRIMARY KEY,
  config_type job_config_type,
  scope varchar(255),
  config jsonb,
  status job_status,
  started_at timestamptz(6),
  created_at timestamptz(6),
  updated_at timestamptz(6),
  metadata jsonb,
  is_scheduled boolean NOT NULL DEFAULT true
);
CREATE INDEX jobs_config_type_idx ON jobs (config_type);
CREATE INDEX jobs_status_scope_idx ON jobs (scope, status);
CREATE INDEX scope_created_at_idx ON jobs (scope, created_at DESC);
CREATE INDEX scope_non_terminal_status_idx ON jobs (scope, status) WHERE status <> ALL (ARRAY['failed'::job_status, 'succeeded'::job_status, 'cancelled'::job_status]);

INSERT INTO jobs (config_type, scope, config, status, started_at, created_at, updated_at, metadata, is_scheduled)
SELECT ct::job_config_type, md5('connection' || i % 7)::uuid::text,
  jsonb_build_object('configType', ct, 'sync', jsonb_build_object('sourceDockerImage', 'airbyte/source-' || CASE i % 3 WHEN 0 THEN 'postgres:3.6.5' WHEN 1 THEN 'stripe:5.3.9' ELSE 'hubspot:4.2.2' END, 'destinationDockerImage', 'airbyte/destination-snowflake:3.11.4', 'workspaceId', md5('workspace')::uuid)),
  st::job_status,
  CASE WHEN st <> 'pending' THEN c + interval '3 seconds' END,
  c,
  CASE st WHEN 'pending' THEN c WHEN 'running' THEN timestamptz '2026-11-24 11:52:30+00' WHEN 'incomplete' THEN c + interval '9 minutes' WHEN 'failed' THEN c + interval '3 hours 31 minutes' WHEN 'cancelled' THEN c + interval '5 minutes' ELSE c + (4 + i % 17) * interval '1 minute' END,
  CASE WHEN i % 26 = 0 THEN '{"breakingChange": false}'::jsonb END,
  i % 11 <> 4
FROM (
  SELECT i, CASE WHEN i % 29 = 8 THEN 'reset_connection' WHEN i % 33 = 9 THEN 'refresh' ELSE 'sync' END AS ct,
    CASE WHEN i <= 134 THEN timestamptz '2026-10-02 03:00:11.402+00' + i * interval '9 hours 20 minutes' ELSE timestamptz '2026-11-24 10:50:05.117+00' + (i - 134) * interval '4 minutes 10 seconds' END AS c,
    CASE WHEN i <= 134 THEN CASE WHEN i % 17 = 6 THEN 'failed' WHEN i % 31 = 13 THEN 'cancelled' ELSE 'succeeded' END WHEN i <= 138 THEN 'incomplete' WHEN i <= 141 THEN 'running' ELSE 'pending' END AS st
  FROM generate_series(1, 150) i
) s ORDER BY i;
CREATE TABLE attempts (
  id bigserial NOT NULL PRIMARY KEY,
  job_id bigint,
  attempt_number integer,
  log_path varchar(255),
  output jsonb,
  status attempt_status,
  created_at timestamptz(6),
  updated_at timestamptz(6),
  ended_at timestamptz(6),
  failure_summary jsonb,
  processing_task_queue varchar(255),
  CONSTRAINT job_attempt_idx UNIQUE (job_id, attempt_number)
);
INSERT INTO attempts (job_id, attempt_number, log_path, output, status, created_at, updated_at, ended_at, failure_summary, processing_task_queue)
SELECT j.id, 0, 'job-logging/workspace/' || j.id || '/0/logs.log', CASE WHEN j.status = 'succeeded' THEN '{"sync": {"standardSyncSummary": {"status": "completed"}}}'::jsonb END,
  (CASE j.status WHEN 'succeeded' THEN 'succeeded' WHEN 'running' THEN 'running' ELSE 'failed' END)::attempt_status, j.started_at, j.updated_at,
  CASE WHEN j.status <> 'running' THEN j.updated_at END,
  CASE WHEN j.status IN ('failed', 'incomplete') THEN '{"failures": [{"failureOrigin": "source", "externalMessage": "Something went wrong in the connector."}], "partialSuccess": false}'::jsonb END, ''
FROM jobs j WHERE j.status <> 'pending' AND j.id > 90 ORDER BY j.id;
CREATE TABLE stream_statuses (id uuid NOT NULL PRIMARY KEY, workspace_id uuid NOT NULL, connection_id uuid NOT NULL, job_id bigint NOT NULL, attempt_number integer NOT NULL, stream_name text NOT NULL, transitioned_at timestamp NOT NULL, run_state text NOT NULL);
INSERT INTO stream_statuses SELECT md5('stream' || g)::uuid, md5('workspace')::uuid, md5('connection' || g % 7)::uuid, 100 + g, 0, 'orders', timestamp '2026-11-20 04:00' + g * interval '9 hours', 'complete' FROM generate_series(1, 10) g;
