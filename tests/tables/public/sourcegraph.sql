-- dialect: postgres
CREATE TABLE users (id serial PRIMARY KEY, username text NOT NULL UNIQUE, display_name text, created_at timestamptz NOT NULL DEFAULT now(), deleted_at timestamptz);
INSERT INTO users (username, display_name, created_at) SELECT 'dev' || g, 'Dev ' || g, timestamptz '2026-10-01 09:00+00' + g * interval '5 hours' FROM generate_series(1, 6) g;
CREATE TABLE outbound_webhooks (
  id bigserial NOT NULL PRIMARY KEY,
  created_by integer REFERENCES users (id) ON DELETE SET NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_by integer REFERENCES users (id) ON DELETE SET NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  encryption_key_id text,
  url bytea NOT NULL,
  secret bytea NOT NULL
);
INSERT INTO outbound_webhooks (created_by, created_at, updated_by, updated_at, url, secret) VALUES
 (1, '2026-10-02 08:00+00', 1, '2026-10-02 08:00+00', 'https://ci.example/hooks/batch', 's3cr3t-1'), (2, '2026-10-09 08:00+00', 1, '2026-10-20 10:30+00', 'https://chat.example/in/77', 's3cr3t-2');
CREATE TABLE outbound_webhook_event_types (id bigserial PRIMARY KEY, outbound_webhook_id bigint NOT NULL REFERENCES outbound_webhooks (id) ON DELETE CASCADE ON UPDATE CASCADE, event_type text NOT NULL, scope text);
INSERT INTO outbound_webhook_event_types (outbound_webhook_id, event_type) VALUES (1, 'batch_change:apply'), (1, 'changeset:publish'), (2, 'changeset:close');

CREATE TABLE outbound_webhook_jobs (
  id bigserial NOT NULL PRIMARY KEY,
  event_type text NOT NULL,
  scope text,
  encryption_key_id text,
  payload bytea NOT NULL,
  state text NOT NULL DEFAULT 'queued',
  failure_message text,
  queued_at timestamp with time zone NOT NULL DEFAULT now(),
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  process_after timestamp with time zone,
  num_resets integer NOT NULL DEFAULT 0,
  num_failures integer NOT NULL DEFAULT 0,
  last_heartbeat_at timestamp with time zone,
  execution_logs json[],
  worker_hostname text NOT NULL DEFAULT '',
  cancel boolean NOT NULL DEFAULT false
);
CREATE INDEX outbound_webhook_jobs_state_idx ON outbound_webhook_jobs (state);
CREATE INDEX outbound_webhook_payload_process_after_idx ON outbound_webhook_jobs (process_after);

INSERT INTO outbound_webhook_jobs (event_type, scope, encryption_key_id, payload, state, failure_message, queued_at, started_at, finished_at, process_after, num_resets, num_failures, last_heartbeat_at, execution_logs, worker_hostname, cancel)
SELECT ev, NULL, CASE WHEN i % 30 = 0 THEN '' END,
  convert_to(json_build_object('id', 'Q2hhbmdlc2V0Oj' || 700 + i, 'state', CASE i % 2 WHEN 0 THEN 'PUBLISHED' ELSE 'CLOSED' END, 'title', 'Bump library ' || i % 9)::text, 'UTF8'),
  k,
  CASE WHEN k IN ('failed', 'errored') OR (k = 'completed' AND i % 16 = 3) THEN CASE i % 3 WHEN 0 THEN 'sending webhook: Post "https://ci.example/hooks/batch": dial tcp 10.2.0.14:443: connect: connection refused' WHEN 1 THEN 'unexpected response: 500 Internal Server Error' ELSE 'context deadline exceeded (Client.Timeout exceeded while awaiting headers)' END END,
  c,
  CASE WHEN k <> 'queued' THEN CASE k WHEN 'errored' THEN c + interval '4 minutes' WHEN 'failed' THEN c + interval '52 minutes' WHEN 'processing' THEN timestamptz '2026-11-24 11:59:48.3+00' ELSE c + (1 + i % 6) * interval '1 second' END END,
  CASE k WHEN 'completed' THEN c + (1 + i % 6) * interval '1 second' + (i * 37 % 900) * interval '1 millisecond' WHEN 'failed' THEN c + interval '52 minutes 30 seconds' WHEN 'errored' THEN c + interval '4 minutes 10 seconds' END,
  CASE WHEN k = 'queued' AND i > 150 THEN timestamptz '2026-11-24 12:05+00' + (i - 150) * interval '4 minutes' END,
  CASE WHEN i % 41 = 6 THEN 1 ELSE 0 END,
  CASE k WHEN 'failed' THEN 10 WHEN 'errored' THEN 1 + i % 5 WHEN 'completed' THEN CASE WHEN i % 16 = 3 THEN 1 ELSE 0 END ELSE 0 END,
  CASE WHEN k IN ('completed', 'failed', 'errored') THEN c + interval '1 second' WHEN k = 'processing' THEN timestamptz '2026-11-24 11:59:57+00' END,
  NULL,
  CASE WHEN k = 'queued' THEN '' ELSE 'worker-7d9f' || i % 2 END,
  false
FROM (
  SELECT i,
    CASE WHEN i <= 128 THEN timestamptz '2026-10-03 10:04:19.226+00' + i * interval '9 hours 40 minutes' ELSE timestamptz '2026-11-24 11:21:40.915+00' + (i - 128) * interval '79 seconds' END AS c,
    CASE i % 4 WHEN 0 THEN 'batch_change:apply' WHEN 1 THEN 'changeset:publish' WHEN 2 THEN 'changeset:update' ELSE 'changeset:close' END AS ev,
    CASE WHEN i <= 128 THEN CASE WHEN i % 19 = 11 THEN 'failed' ELSE 'completed' END WHEN i <= 136 THEN 'errored' WHEN i <= 138 THEN 'processing' ELSE 'queued' END AS k
  FROM generate_series(1, 155) i
) s ORDER BY i;
CREATE TABLE outbound_webhook_logs (
  id bigserial NOT NULL PRIMARY KEY,
  job_id bigint NOT NULL REFERENCES outbound_webhook_jobs (id) ON DELETE CASCADE,
  outbound_webhook_id bigint NOT NULL REFERENCES outbound_webhooks (id) ON DELETE CASCADE,
  sent_at timestamptz NOT NULL DEFAULT now(),
  status_code integer NOT NULL,
  encryption_key_id text, request bytea NOT NULL, response bytea NOT NULL, error bytea NOT NULL
);
INSERT INTO outbound_webhook_logs (job_id, outbound_webhook_id, sent_at, status_code, request, response, error)
SELECT id, 1 + id % 2, finished_at, CASE state WHEN 'completed' THEN 200 ELSE 500 END, '{}', '{}', '' FROM outbound_webhook_jobs WHERE id BETWEEN 110 AND 128 ORDER BY id;
