-- dialect: postgres
CREATE TABLE author (id serial PRIMARY KEY, name text NOT NULL, is_public boolean NOT NULL DEFAULT false);
INSERT INTO author (name, is_public) SELECT 'Author ' || g, g % 3 = 0 FROM generate_series(1, 6) g;
CREATE TABLE article (id serial PRIMARY KEY, title text NOT NULL, author_id integer NOT NULL REFERENCES author (id), published_on timestamptz);
INSERT INTO article (title, author_id, published_on) SELECT 'Article ' || g, 1 + g % 6, CASE WHEN g % 4 > 0 THEN timestamptz '2026-10-03 08:00+00' + g * interval '2 days' END FROM generate_series(1, 14) g;
CREATE SCHEMA hdb_catalog;
CREATE FUNCTION hdb_catalog.gen_hasura_uuid() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()';
CREATE TABLE hdb_catalog.hdb_source_catalog_version (version text NOT NULL, upgraded_on timestamptz NOT NULL);
CREATE UNIQUE INDEX hdb_source_catalog_version_one_row ON hdb_catalog.hdb_source_catalog_version ((version IS NOT NULL));
INSERT INTO hdb_catalog.hdb_source_catalog_version VALUES ('3', '2026-10-01 07:00+00');

CREATE TABLE hdb_catalog.event_log (
  id text NOT NULL DEFAULT hdb_catalog.gen_hasura_uuid()::text PRIMARY KEY,
  schema_name text NOT NULL,
  table_name text NOT NULL,
  trigger_name text NOT NULL,
  payload jsonb NOT NULL,
  delivered boolean NOT NULL DEFAULT false,
  error boolean NOT NULL DEFAULT false,
  tries integer NOT NULL DEFAULT 0,
  created_at timestamp without time zone DEFAULT now(),
  locked timestamp with time zone,
  next_retry_at timestamp without time zone,
  archived boolean NOT NULL DEFAULT false
);
CREATE INDEX event_log_trigger_name_idx ON hdb_catalog.event_log (trigger_name);
CREATE INDEX event_log_fetch_events ON hdb_catalog.event_log (locked NULLS FIRST, next_retry_at NULLS FIRST, created_at) WHERE delivered = false AND error = false AND archived = false;

INSERT INTO hdb_catalog.event_log (id, schema_name, table_name, trigger_name, payload, delivered, error, tries, created_at, locked, next_retry_at, archived)
SELECT md5('ev' || i)::uuid::text, 'public', CASE i % 3 WHEN 2 THEN 'author' ELSE 'article' END,
  CASE WHEN i <= 20 THEN 'old_search_index' WHEN i % 3 = 2 THEN 'author_changed' ELSE 'article_webhook' END,
  jsonb_build_object('op', CASE i % 2 WHEN 0 THEN 'INSERT' ELSE 'UPDATE' END, 'data', jsonb_build_object('old', NULL, 'new', jsonb_build_object('id', 1 + i % 14, 'title', 'Article ' || 1 + i % 14)), 'session_variables', jsonb_build_object('x-hasura-role', 'editor'), 'trace_context', jsonb_build_object('trace_id', md5('tr' || i))),
  k = 'done', k = 'dead',
  CASE k WHEN 'done' THEN CASE WHEN i % 13 = 2 THEN 2 ELSE 1 END WHEN 'dead' THEN 6 WHEN 'retry' THEN 1 + i % 4 ELSE 0 END,
  c, CASE k WHEN 'run' THEN timestamptz '2026-11-24 11:59:55+00' END,
  CASE k WHEN 'retry' THEN timestamp '2026-11-24 11:58' + (i % 10) * interval '70 seconds' END,
  i <= 20
FROM (
  SELECT i,
    CASE WHEN i <= 150 THEN timestamp '2026-10-03 07:12:08.5521' + i * interval '8 hours 10 minutes' ELSE timestamp '2026-11-24 11:37:21.0318' + (i - 150) * interval '41 seconds' END AS c,
    CASE WHEN i <= 20 AND i % 9 = 5 THEN 'new' WHEN i <= 150 THEN CASE WHEN i % 18 = 10 THEN 'dead' ELSE 'done' END WHEN i <= 160 THEN 'retry' WHEN i <= 163 THEN 'run' ELSE 'new' END AS k
  FROM generate_series(1, 180) i
) s ORDER BY i;
CREATE TABLE hdb_catalog.event_invocation_logs (
  id text NOT NULL DEFAULT hdb_catalog.gen_hasura_uuid()::text PRIMARY KEY,
  trigger_name text,
  event_id text,
  status integer,
  request json,
  response json,
  created_at timestamp without time zone DEFAULT now()
);
CREATE INDEX event_invocation_logs_event_id_idx ON hdb_catalog.event_invocation_logs (event_id);
INSERT INTO hdb_catalog.event_invocation_logs (id, trigger_name, event_id, status, request, response, created_at)
SELECT md5('inv' || id)::uuid::text, trigger_name, id, CASE WHEN delivered THEN 200 ELSE 502 END, '{"version":"2"}', CASE WHEN delivered THEN '{"type":"webhook_response"}' ELSE '{"type":"client_error","data":{"message":"Bad Gateway"}}' END::json, created_at + interval '1 second'
FROM hdb_catalog.event_log WHERE tries > 0 AND created_at > '2026-11-10' ORDER BY created_at;
