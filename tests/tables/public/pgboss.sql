-- dialect: postgres
CREATE TABLE public.accounts (id serial PRIMARY KEY, email text NOT NULL UNIQUE, plan text NOT NULL DEFAULT 'free', created_at timestamptz NOT NULL);
INSERT INTO public.accounts (email, plan, created_at) SELECT 'a' || g || '@saas.example', CASE WHEN g % 3 = 0 THEN 'pro' ELSE 'free' END, timestamptz '2026-10-01 11:00+00' FROM generate_series(1, 8) g;
CREATE SCHEMA pgboss;
CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
CREATE TABLE pgboss.version (version integer PRIMARY KEY, cron_on timestamp with time zone);
INSERT INTO pgboss.version VALUES (26, '2026-11-24 11:59:31+00');
CREATE TABLE pgboss.queue (
  name text NOT NULL PRIMARY KEY,
  policy text NOT NULL,
  retry_limit integer NOT NULL,
  retry_delay integer NOT NULL,
  retry_backoff boolean NOT NULL,
  retry_delay_max integer,
  expire_seconds integer NOT NULL,
  retention_seconds integer NOT NULL,
  deletion_seconds integer NOT NULL,
  dead_letter text REFERENCES pgboss.queue (name) CHECK (dead_letter IS DISTINCT FROM name),
  partition boolean NOT NULL,
  table_name text NOT NULL,
  created_on timestamp with time zone NOT NULL DEFAULT now(),
  updated_on timestamp with time zone NOT NULL DEFAULT now()
);
INSERT INTO pgboss.queue VALUES
 ('failed-mail', 'standard', 0, 0, false, NULL, 900, 1209600, 604800, NULL, false, 'job_common', '2026-10-01 10:00+00', '2026-10-01 10:00+00'),
 ('send-mail', 'standard', 3, 30, true, 3600, 900, 1209600, 604800, 'failed-mail', false, 'job_common', '2026-10-01 10:00+00', '2026-10-01 10:00+00'),
 ('sync-crm', 'standard', 2, 60, false, NULL, 900, 1209600, 604800, NULL, false, 'job_common', '2026-10-01 10:00+00', '2026-10-01 10:00+00');
CREATE TABLE pgboss.schedule (
  name text REFERENCES pgboss.queue ON DELETE CASCADE, key text NOT NULL DEFAULT '', cron text NOT NULL, timezone text, data jsonb, options jsonb,
  created_on timestamp with time zone NOT NULL DEFAULT now(), updated_on timestamp with time zone NOT NULL DEFAULT now(), PRIMARY KEY (name, key));
INSERT INTO pgboss.schedule VALUES ('sync-crm', '', '0 */6 * * *', 'UTC', NULL, '{}', '2026-10-01 10:00+00', '2026-10-01 10:00+00');

CREATE TABLE pgboss.job (
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  name text NOT NULL,
  priority integer NOT NULL DEFAULT 0,
  data jsonb,
  state pgboss.job_state NOT NULL DEFAULT 'created',
  retry_limit integer NOT NULL DEFAULT 2,
  retry_count integer NOT NULL DEFAULT 0,
  retry_delay integer NOT NULL DEFAULT 0,
  retry_backoff boolean NOT NULL DEFAULT false,
  retry_delay_max integer,
  expire_seconds integer NOT NULL DEFAULT 900,
  deletion_seconds integer NOT NULL DEFAULT 604800,
  singleton_key text,
  singleton_on timestamp without time zone,
  start_after timestamp with time zone NOT NULL DEFAULT now(),
  created_on timestamp with time zone NOT NULL DEFAULT now(),
  started_on timestamp with time zone,
  completed_on timestamp with time zone,
  keep_until timestamp with time zone NOT NULL DEFAULT now() + interval '1209600',
  output jsonb,
  dead_letter text,
  policy text
) PARTITION BY LIST (name);
ALTER TABLE pgboss.job ADD PRIMARY KEY (name, id);
CREATE TABLE pgboss.job_common (LIKE pgboss.job INCLUDING GENERATED INCLUDING DEFAULTS);
ALTER TABLE pgboss.job_common ADD PRIMARY KEY (name, id);
ALTER TABLE pgboss.job_common ADD CONSTRAINT q_fkey FOREIGN KEY (name) REFERENCES pgboss.queue (name) ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE pgboss.job_common ADD CONSTRAINT dlq_fkey FOREIGN KEY (dead_letter) REFERENCES pgboss.queue (name) ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED;
CREATE UNIQUE INDEX job_common_i4 ON pgboss.job_common (name, singleton_on, COALESCE(singleton_key, '')) WHERE state <> 'cancelled' AND singleton_on IS NOT NULL;
CREATE INDEX job_common_i5 ON pgboss.job_common (name, start_after) INCLUDE (priority, created_on, id) WHERE state < 'active';
ALTER TABLE pgboss.job ATTACH PARTITION pgboss.job_common DEFAULT;

INSERT INTO pgboss.job (id, name, priority, data, state, retry_limit, retry_count, retry_delay, retry_backoff, retry_delay_max, singleton_key, start_after, created_on, started_on, completed_on, keep_until, output, dead_letter, policy)
SELECT md5('boss' || i)::uuid, q, i % 3,
  CASE q WHEN 'send-mail' THEN jsonb_build_object('to', 'a' || 1 + i % 8 || '@saas.example', 'template', 'welcome') ELSE jsonb_build_object('accountId', 1 + i % 8) END,
  k::pgboss.job_state, l,
  CASE k WHEN 'failed' THEN l WHEN 'retry' THEN i % l WHEN 'completed' THEN CASE WHEN i % 14 = 0 THEN 1 ELSE 0 END ELSE 0 END,
  CASE q WHEN 'send-mail' THEN 30 ELSE 60 END, q = 'send-mail', CASE q WHEN 'send-mail' THEN 3600 END,
  NULL,
  CASE WHEN k = 'retry' THEN timestamptz '2026-11-24 11:59:10+00' + (i % 5) * interval '9 minutes' WHEN k = 'created' AND i > 131 THEN timestamptz '2026-11-24 18:00+00' + (i % 7) * interval '6 hours' ELSE c END,
  c,
  CASE WHEN k NOT IN ('created', 'cancelled') THEN least(c + (1 + i % 3) * interval '1 second 130 milliseconds', timestamptz '2026-11-24 11:59:50+00') END,
  CASE WHEN k IN ('completed', 'failed', 'cancelled') THEN c + (3 + i % 21) * interval '1 second' END,
  c + interval '14 days',
  CASE k WHEN 'completed' THEN CASE WHEN i % 2 = 0 THEN '{"messageId": "<ok@saas.example>"}'::jsonb END
    WHEN 'failed' THEN jsonb_build_object('name', 'Error', 'message', 'getaddrinfo ENOTFOUND smtp.saas.example', 'stack', 'Error: getaddrinfo ENOTFOUND smtp.saas.example')
    WHEN 'retry' THEN jsonb_build_object('name', 'TimeoutError', 'message', 'handler execution exceeded 900000ms') END,
  CASE q WHEN 'send-mail' THEN 'failed-mail' END, 'standard'
FROM (
  SELECT i, CASE WHEN i % 4 = 0 THEN 'sync-crm' ELSE 'send-mail' END AS q, CASE WHEN i % 4 = 0 THEN 2 ELSE 3 END AS l,
    CASE WHEN i <= 117 THEN timestamptz '2026-11-18 12:04:09.771+00' + i * interval '71 minutes' ELSE timestamptz '2026-11-24 11:20:01.204+00' + (i - 117) * interval '100 seconds' END AS c,
    CASE WHEN i <= 117 AND i % 19 = 5 THEN 'failed' WHEN i <= 117 AND i % 37 = 11 THEN 'cancelled' WHEN i <= 117 THEN 'completed' WHEN i <= 119 THEN 'active' WHEN i <= 124 THEN 'retry' ELSE 'created' END AS k
  FROM generate_series(1, 140) i) s ORDER BY i;
