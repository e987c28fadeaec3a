-- dialect: postgres
CREATE TABLE users (
  id uuid NOT NULL PRIMARY KEY,
  first_name varchar(255) NOT NULL,
  last_name varchar(255),
  email varchar(255) NOT NULL UNIQUE,
  role varchar(255) NOT NULL DEFAULT 'user',
  inserted_at timestamp(0) without time zone NOT NULL,
  updated_at timestamp(0) without time zone NOT NULL
);
INSERT INTO users SELECT md5('lu' || g)::uuid, 'User', 'No. ' || g, 'user' || g || '@ngo.example', CASE g WHEN 1 THEN 'superuser' ELSE 'user' END, timestamp '2026-09-01 07:00:00' + g * interval '2 days', timestamp '2026-10-01 07:00:00' + g * interval '1 day' FROM generate_series(1, 4) g;
CREATE TABLE triggers (
  id uuid NOT NULL PRIMARY KEY,
  type varchar(255),
  comment varchar(255),
  cron_expression varchar(255),
  enabled boolean NOT NULL DEFAULT true,
  inserted_at timestamp(0) without time zone NOT NULL,
  updated_at timestamp(0) without time zone NOT NULL
);
INSERT INTO triggers VALUES (md5('tr1')::uuid, 'webhook', NULL, NULL, true, '2026-09-03 09:00:00', '2026-09-03 09:00:00'), (md5('tr2')::uuid, 'cron', NULL, '0 */6 * * *', true, '2026-09-05 09:00:00', '2026-10-11 14:20:00'), (md5('tr3')::uuid, 'webhook', NULL, NULL, true, '2026-10-02 09:00:00', '2026-10-02 09:00:00');

CREATE TABLE runs (
  id uuid NOT NULL,
  inserted_at timestamp without time zone NOT NULL,
  updated_at timestamp without time zone NOT NULL,
  work_order_id uuid,
  starting_job_id uuid,
  starting_trigger_id uuid,
  created_by_id uuid,
  dataclip_id uuid,
  state varchar(10) DEFAULT 'available' NOT NULL,
  claimed_at timestamp without time zone,
  started_at timestamp without time zone,
  finished_at timestamp without time zone,
  error_type varchar(255),
  priority integer DEFAULT 1 NOT NULL,
  options jsonb,
  snapshot_id uuid,
  CONSTRAINT runs_pkey PRIMARY KEY (id),
  CONSTRAINT runs_starting_trigger_id_fkey FOREIGN KEY (starting_trigger_id) REFERENCES triggers (id) ON DELETE SET NULL,
  CONSTRAINT runs_created_by_id_fkey FOREIGN KEY (created_by_id) REFERENCES users (id) ON DELETE SET NULL,
  CONSTRAINT validate_job_or_trigger CHECK (starting_job_id IS NOT NULL OR starting_trigger_id IS NOT NULL)
);
CREATE INDEX runs_state_index ON runs (state);
CREATE INDEX runs_work_order_id_index ON runs (work_order_id);

-- three runs at a time: the rest of a batch of webhook calls of the last minute waits
INSERT INTO runs (id, inserted_at, updated_at, work_order_id, starting_job_id, starting_trigger_id, created_by_id, dataclip_id, state, claimed_at, started_at, finished_at, error_type, priority, options, snapshot_id)
SELECT overlay(overlay(md5('run' || i) placing '4' from 13) placing 'a' from 17)::uuid, c,
  CASE WHEN st = 'available' THEN c WHEN st IN ('claimed', 'started') THEN cl ELSE fin END,
  overlay(overlay(md5('wo' || CASE WHEN man AND i % 10 = 7 THEN i - 1 ELSE i END) placing '4' from 13) placing 'b' from 17)::uuid,
  CASE WHEN man THEN md5('job' || i % 5)::uuid END, CASE WHEN NOT man THEN md5('tr' || tr)::uuid END, CASE WHEN man THEN md5('lu' || 1 + i % 4)::uuid END,
  overlay(overlay(md5('dc' || i) placing '4' from 13) placing '8' from 17)::uuid, st,
  CASE WHEN st <> 'available' AND NOT (st = 'cancelled') THEN cl END,
  CASE WHEN st NOT IN ('available', 'claimed', 'cancelled') AND i <> 133 THEN cl + interval '0.412 seconds' + (i % 7) * interval '0.031209 seconds' END,
  CASE WHEN st NOT IN ('available', 'claimed', 'started') THEN fin END,
  CASE st WHEN 'failed' THEN (ARRAY['AdaptorError', 'JobError', 'TypeError'])[1 + i / 12 % 3] WHEN 'crashed' THEN (ARRAY['CompileError', 'ReferenceError'])[1 + i % 2] WHEN 'killed' THEN (ARRAY['OOMError', 'TimeoutError'])[1 + i % 2] WHEN 'exception' THEN 'AutoinstallError' WHEN 'lost' THEN CASE i WHEN 133 THEN 'LostAfterClaim' ELSE 'LostAfterStart' END END,
  CASE WHEN man THEN 0 ELSE 1 END,
  jsonb_build_object('save_dataclips', true, 'run_timeout_ms', 300000, 'run_memory_limit_mb', 500), md5('sn' || i % 3)::uuid
FROM (
  SELECT i, c, man, tr, st, cl, CASE st WHEN 'lost' THEN cl + interval '7 minutes 12 seconds' WHEN 'killed' THEN cl + interval '5 minutes 0.9 seconds' WHEN 'cancelled' THEN c + interval '3 minutes 41.2 seconds' ELSE cl + interval '2.1 seconds' + (i * 13 % 29) * interval '0.903117 seconds' END AS fin
  FROM (
    SELECT i, c, i % 10 IN (6, 7) AND i <= 216 AS man, CASE WHEN i > 216 THEN 3 ELSE 1 + i % 3 END AS tr, c + interval '0.8 seconds' + (i % 13) * interval '0.217041 seconds' AS cl,
      CASE WHEN i > 220 THEN 'available' WHEN i = 220 THEN 'claimed' WHEN i >= 218 THEN 'started' WHEN i IN (54, 133) THEN 'lost' WHEN i IN (40, 119) THEN 'killed' WHEN i IN (71, 162) THEN 'crashed' WHEN i = 98 THEN 'exception' WHEN i IN (12, 181) THEN 'cancelled' WHEN i % 12 = 5 THEN 'failed' ELSE 'success' END AS st
    FROM (SELECT i, CASE WHEN i <= 216 THEN timestamp '2026-10-19 08:03:12.402917' + i * interval '3 hours 58 minutes 41.3137 seconds' + (i * 7 % 11) * interval '5 minutes 17.0611 seconds' WHEN i <= 220 THEN timestamp '2026-11-24 11:59:02.118204' + (i - 217) * interval '6.91147 seconds' ELSE timestamp '2026-11-24 11:59:30.771930' + (i - 221) * interval '1.304117 seconds' END AS c FROM generate_series(1, 239) i) x
  ) y
) z ORDER BY c;
