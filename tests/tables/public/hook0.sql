-- dialect: postgres
CREATE SCHEMA event;
CREATE SCHEMA webhook;
CREATE TABLE event.event (event__id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY, application__id uuid NOT NULL, event_type__name text NOT NULL, payload bytea, payload_content_type text NOT NULL, ip inet NOT NULL, metadata jsonb, occurred_at timestamptz NOT NULL, received_at timestamptz NOT NULL DEFAULT statement_timestamp(), dispatched_at timestamptz, labels jsonb NOT NULL);
CREATE TABLE webhook.subscription (subscription__id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY, application__id uuid NOT NULL, is_enabled boolean NOT NULL DEFAULT true, description text, secret uuid NOT NULL, metadata jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT statement_timestamp(), updated_at timestamptz NOT NULL DEFAULT statement_timestamp());
INSERT INTO webhook.subscription SELECT md5('sub' || g)::uuid, md5('app')::uuid, true, 'subscriber ' || g, md5('sec' || g)::uuid, '{}', timestamptz '2026-10-01 08:00+00' + g * interval '1 hour', timestamptz '2026-10-01 08:00+00' + g * interval '1 hour' FROM generate_series(1, 4) g;
CREATE TABLE webhook.response_error (response_error__name text NOT NULL PRIMARY KEY);
INSERT INTO webhook.response_error VALUES ('E_UNKNOWN'), ('E_INVALID_TARGET'), ('E_CONNECTION'), ('E_TIMEOUT'), ('E_HTTP');
CREATE TABLE webhook.response (response__id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY, response_error__name text REFERENCES webhook.response_error (response_error__name), http_code smallint, headers jsonb, body text, elapsed_time_ms integer);

CREATE TABLE webhook.request_attempt (
  request_attempt__id uuid NOT NULL DEFAULT gen_random_uuid(),
  event__id uuid NOT NULL,
  subscription__id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT statement_timestamp(),
  picked_at timestamp with time zone,
  worker_name text,
  worker_version text,
  failed_at timestamp with time zone,
  succeeded_at timestamp with time zone,
  delay_until timestamp with time zone,
  response__id uuid,
  retry_count smallint NOT NULL DEFAULT 0,
  CONSTRAINT request_attempt_pkey PRIMARY KEY (request_attempt__id),
  CONSTRAINT request_attempt_response__id_key UNIQUE (response__id),
  CONSTRAINT request_attempt_subscription__id_fkey FOREIGN KEY (subscription__id) REFERENCES webhook.subscription (subscription__id) ON DELETE RESTRICT ON UPDATE RESTRICT,
  CONSTRAINT request_attempt_event__id_fkey FOREIGN KEY (event__id) REFERENCES event.event (event__id) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT request_attempt_response__id_fkey FOREIGN KEY (response__id) REFERENCES webhook.response (response__id) ON DELETE SET NULL ON UPDATE CASCADE
);
CREATE INDEX request_attempt_created_at_idx ON webhook.request_attempt (created_at);
CREATE INDEX request_attempt_pending_idx ON webhook.request_attempt (created_at) WHERE succeeded_at IS NULL AND failed_at IS NULL;

CREATE TEMP TABLE a AS
SELECT e, n, c + CASE n WHEN 0 THEN interval '0' WHEN 1 THEN interval '9 seconds' WHEN 2 THEN interval '5 minutes 20 seconds' WHEN 3 THEN interval '20 minutes 44 seconds' ELSE interval '1 hour 22 minutes' END AS c,
  CASE WHEN kind = 'ok' THEN CASE WHEN n < lastn THEN 'f' ELSE 's' END WHEN kind = 'dead' THEN 'f' WHEN kind = 'retry' THEN CASE WHEN n < lastn THEN 'f' ELSE 'w' END ELSE 'w' END AS k
FROM (SELECT e,
    CASE WHEN e <= 116 THEN timestamptz '2026-10-12 06:40:05.118+00' + e * interval '8 hours 50 minutes' + (e * 23 % 41) * interval '109 seconds' WHEN e <= 122 THEN timestamptz '2026-11-24 10:40+00' + (e - 116) * interval '9 minutes 7 seconds' ELSE timestamptz '2026-11-24 11:57:31.6+00' + (e - 122) * interval '11 seconds' END AS c,
    CASE WHEN e <= 116 AND e % 23 = 9 THEN 'dead' WHEN e <= 116 THEN 'ok' WHEN e <= 122 THEN 'retry' ELSE 'new' END AS kind,
    CASE WHEN e <= 116 AND e % 23 = 9 THEN 4 WHEN e <= 116 THEN CASE WHEN e % 11 = 3 THEN 1 + e % 2 ELSE 0 END WHEN e <= 122 THEN 1 + e % 3 ELSE 0 END AS lastn
  FROM generate_series(1, 134) e) x, generate_series(0, 4) n WHERE n <= lastn;
INSERT INTO event.event SELECT md5('ev' || e)::uuid, md5('app')::uuid, 'billing.invoice.' || CASE e % 2 WHEN 0 THEN 'created' ELSE 'paid' END, convert_to('{"invoice":' || 500 + e || '}', 'UTF8'), 'application/json', '10.1.0.9', '{}', c - interval '90 milliseconds', c - interval '40 milliseconds', c, '{"env": "prod"}' FROM a WHERE n = 0 ORDER BY e;
INSERT INTO webhook.response SELECT md5('r' || e || '-' || n)::uuid, CASE WHEN k = 'f' THEN CASE e % 2 WHEN 0 THEN 'E_HTTP' ELSE 'E_TIMEOUT' END END, CASE WHEN k = 's' THEN 200 WHEN e % 2 = 0 THEN 502 END, '{}', CASE WHEN k = 's' THEN 'ok' WHEN e % 2 = 0 THEN 'Bad Gateway' END, CASE WHEN k = 'f' AND e % 2 = 1 THEN 15000 ELSE 80 + e * 7 % 400 END FROM a WHERE k <> 'w' ORDER BY c;
INSERT INTO webhook.request_attempt
SELECT md5('ra' || e || '-' || n)::uuid, md5('ev' || e)::uuid, md5('sub' || 1 + e % 4)::uuid, c,
  CASE WHEN k <> 'w' THEN c + (1 + e % 3) * interval '1 second' + p END, CASE WHEN k <> 'w' THEN 'output-worker-' || e % 2 END, CASE WHEN k <> 'w' THEN '1.4.0' END,
  CASE WHEN k = 'f' THEN c + (2 + e % 3) * interval '1 second' + p END, CASE WHEN k = 's' THEN c + (1 + e % 3) * interval '1 second' + p + (80 + e * 7 % 400) * interval '1 millisecond' END,
  CASE n WHEN 0 THEN NULL ELSE CASE WHEN k = 'w' THEN timestamptz '2026-11-24 12:01+00' + (e % 5) * interval '13 minutes' ELSE c + p END END,
  CASE WHEN k <> 'w' THEN md5('r' || e || '-' || n)::uuid END, n
FROM (SELECT *, CASE n WHEN 0 THEN interval '0' WHEN 1 THEN interval '5 minutes' WHEN 2 THEN interval '15 minutes' ELSE interval '1 hour' END AS p FROM a) y ORDER BY c;
DROP TABLE a;
