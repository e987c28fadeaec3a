-- dialect: postgres
CREATE SCHEMA convoy;
CREATE TABLE convoy.projects (id char(26) PRIMARY KEY, name text NOT NULL, type text NOT NULL, retained_events integer DEFAULT 0, created_at timestamptz DEFAULT CURRENT_TIMESTAMP, updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, deleted_at timestamptz);
INSERT INTO convoy.projects VALUES ('01K6GA000000000000000PRJ01', 'payments', 'outgoing', 0, '2026-10-01 07:00+00', '2026-10-01 07:00+00', NULL);
CREATE TABLE convoy.endpoints (id char(26) PRIMARY KEY, title text NOT NULL, status text NOT NULL, target_url text NOT NULL, http_timeout integer NOT NULL, rate_limit integer NOT NULL, project_id char(26) NOT NULL REFERENCES convoy.projects (id), created_at timestamptz DEFAULT CURRENT_TIMESTAMP, updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, deleted_at timestamptz);
INSERT INTO convoy.endpoints SELECT '01K6GA000000000000000EPT0' || g, 'merchant ' || g, CASE g WHEN 3 THEN 'inactive' ELSE 'active' END, 'https://merchant' || g || '.example/hooks', 10, 0, '01K6GA000000000000000PRJ01', '2026-10-01 07:10+00', '2026-10-01 07:10+00', NULL FROM generate_series(1, 3) g;
CREATE TABLE convoy.subscriptions (id char(26) PRIMARY KEY, name text NOT NULL, type text NOT NULL, project_id char(26) NOT NULL REFERENCES convoy.projects (id), endpoint_id char(26) REFERENCES convoy.endpoints (id), created_at timestamptz DEFAULT CURRENT_TIMESTAMP, updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, deleted_at timestamptz);
INSERT INTO convoy.subscriptions SELECT '01K6GA000000000000000SVB0' || g, 'all events ' || g, 'api', '01K6GA000000000000000PRJ01', '01K6GA000000000000000EPT0' || g, '2026-10-01 07:12+00', '2026-10-01 07:12+00', NULL FROM generate_series(1, 3) g;
CREATE TABLE convoy.events (id char(26) PRIMARY KEY, event_type text NOT NULL, endpoints text, project_id char(26) NOT NULL REFERENCES convoy.projects (id), source_id char(26), headers jsonb, raw text NOT NULL, data bytea NOT NULL, created_at timestamptz DEFAULT CURRENT_TIMESTAMP, updated_at timestamptz DEFAULT CURRENT_TIMESTAMP, deleted_at timestamptz);

CREATE TABLE convoy.event_deliveries (
  id char(26) PRIMARY KEY,
  status text NOT NULL,
  description text NOT NULL,
  project_id char(26) NOT NULL REFERENCES convoy.projects (id),
  endpoint_id char(26) REFERENCES convoy.endpoints (id),
  event_id char(26) NOT NULL REFERENCES convoy.events (id),
  device_id char(26),
  subscription_id char(26) NOT NULL REFERENCES convoy.subscriptions (id),
  metadata jsonb NOT NULL,
  headers jsonb,
  attempts jsonb,
  cli_metadata jsonb,
  created_at timestamptz DEFAULT CURRENT_TIMESTAMP,
  updated_at timestamptz DEFAULT CURRENT_TIMESTAMP,
  deleted_at timestamptz,
  url_query_params varchar,
  idempotency_key text
);
CREATE INDEX idx_event_deliveries_event_id_key ON convoy.event_deliveries (event_id);
CREATE INDEX idx_event_deliveries_status_key ON convoy.event_deliveries (status);
CREATE INDEX idx_event_deliveries_created_at_key ON convoy.event_deliveries (created_at);
CREATE INDEX event_deliveries_deleted_at ON convoy.event_deliveries (deleted_at) WHERE deleted_at IS NULL;

CREATE TEMP TABLE g AS
SELECT i, c, st, 1 + i % 3 AS e, '01K' || lpad(upper(to_hex((extract(epoch FROM c) * 1000)::bigint)), 11, '0') || upper(substr(md5('d' || i), 1, 12)) AS id, '01K' || lpad(upper(to_hex((extract(epoch FROM c) * 1000 - 40)::bigint)), 11, '0') || upper(substr(md5('e' || i), 1, 12)) AS ev,
  CASE st WHEN 'Success' THEN CASE WHEN i % 13 = 4 THEN 2 ELSE 1 END WHEN 'Failure' THEN 5 WHEN 'Retry' THEN 1 + i % 4 WHEN 'Processing' THEN 0 ELSE 0 END AS n
FROM (SELECT i, CASE WHEN i <= 139 THEN timestamptz '2026-10-06 09:17:20.441+00' + i * interval '8 hours 20 minutes' + (i * 29 % 47) * interval '113 seconds' ELSE timestamptz '2026-11-24 11:31:04.906+00' + (i - 139) * interval '58 seconds' END AS c,
  CASE WHEN i <= 139 THEN CASE WHEN i % 20 = 5 THEN 'Failure' WHEN i % 46 = 2 THEN 'Discarded' WHEN i IN (133, 136, 138) THEN 'Retry' ELSE 'Success' END WHEN i <= 146 THEN CASE WHEN i % 2 = 0 THEN 'Retry' ELSE 'Success' END WHEN i <= 149 THEN 'Processing' ELSE 'Scheduled' END AS st
  FROM generate_series(1, 164) i) s;
INSERT INTO convoy.events SELECT ev, CASE i % 3 WHEN 0 THEN 'charge.success' WHEN 1 THEN 'transfer.failed' ELSE 'invoice.created' END, NULL, '01K6GA000000000000000PRJ01', NULL, '{}', '{"amount":' || 100 * i || '}', convert_to('{"amount":' || 100 * i || '}', 'UTF8'), c - interval '40 milliseconds', c - interval '40 milliseconds', NULL FROM g ORDER BY i;
INSERT INTO convoy.event_deliveries
SELECT id, st, CASE st WHEN 'Failure' THEN 'Retry limit exceeded' WHEN 'Discarded' THEN 'endpoint is inactive' WHEN 'Retry' THEN CASE i % 2 WHEN 0 THEN 'Endpoint returned 503 Service Unavailable' ELSE 'context deadline exceeded' END ELSE '' END,
  '01K6GA000000000000000PRJ01', '01K6GA000000000000000EPT0' || e, ev, NULL, '01K6GA000000000000000SVB0' || e,
  jsonb_build_object('data', json_build_object('amount', 100 * i), 'raw', '{"amount":' || 100 * i || '}', 'strategy', 'exponential', 'num_trials', n, 'retry_limit', 5, 'interval_seconds', 30, 'next_send_time', CASE st WHEN 'Retry' THEN timestamptz '2026-11-24 12:01+00' + (i % 9) * interval '11 minutes' ELSE c END),
  '{"X-Convoy-Source": ["api"]}',
  (SELECT jsonb_agg(jsonb_build_object('uid', md5('a' || i || '-' || t), 'created_at', c + t * t * interval '31 seconds', 'http_status', CASE WHEN st = 'Success' AND t = n THEN '200 OK' ELSE '503 Service Unavailable' END, 'error', CASE WHEN st = 'Success' AND t = n THEN '' ELSE 'Endpoint returned 503 Service Unavailable' END, 'status', st = 'Success' AND t = n)) FROM generate_series(1, n) t),
  NULL, c,
  CASE st WHEN 'Scheduled' THEN c WHEN 'Failure' THEN c + interval '19 minutes' WHEN 'Retry' THEN least(c + n * interval '47 seconds', timestamptz '2026-11-24 11:59:30+00') WHEN 'Processing' THEN timestamptz '2026-11-24 11:59:58.1+00' ELSE c + n * interval '710 milliseconds' END,
  NULL, '', CASE WHEN i % 6 = 0 THEN md5('idem' || i) ELSE '' END
FROM g ORDER BY i;
DROP TABLE g;
