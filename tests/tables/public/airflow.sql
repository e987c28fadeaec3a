-- dialect: postgres
CREATE TABLE dag (dag_id varchar(250) NOT NULL PRIMARY KEY, is_paused boolean, is_active boolean, fileloc varchar(2000), owners varchar(2000), max_active_tasks integer NOT NULL);
INSERT INTO dag VALUES ('etl_sales', false, true, '/opt/airflow/dags/etl_sales.py', 'data', 16), ('ml_features', false, true, '/opt/airflow/dags/ml_features.py', 'ml', 16);
CREATE TABLE slot_pool (id serial PRIMARY KEY, pool varchar(256) UNIQUE, slots integer, description text, include_deferred boolean NOT NULL);
INSERT INTO slot_pool (pool, slots, description, include_deferred) VALUES ('default_pool', 128, 'Default pool', false);
CREATE TABLE dag_run (
  id serial PRIMARY KEY, dag_id varchar(250) NOT NULL, queued_at timestamptz, execution_date timestamptz NOT NULL, start_date timestamptz, end_date timestamptz,
  state varchar(50), run_id varchar(250) NOT NULL, external_trigger boolean, run_type varchar(50) NOT NULL, UNIQUE (dag_id, run_id), UNIQUE (dag_id, execution_date));
INSERT INTO dag_run (dag_id, queued_at, execution_date, start_date, end_date, state, run_id, external_trigger, run_type)
SELECT CASE WHEN g % 2 = 0 THEN 'etl_sales' ELSE 'ml_features' END, d, d, d + interval '4 seconds', CASE WHEN g < 22 THEN d + interval '40 minutes' END,
  CASE WHEN g >= 22 THEN 'running' WHEN g % 8 = 3 THEN 'failed' ELSE 'success' END, 'scheduled__' || to_char(d AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || '+00:00', false, 'scheduled'
FROM (SELECT g, CASE g WHEN 22 THEN timestamptz '2026-11-24 10:50+00' WHEN 23 THEN timestamptz '2026-11-24 11:15+00' WHEN 24 THEN timestamptz '2026-11-24 11:30+00' ELSE timestamptz '2026-11-12 12:00+00' + g * interval '12 hours' END AS d FROM generate_series(0, 24) g) x ORDER BY g;

CREATE TABLE task_instance (
  task_id varchar(250) NOT NULL,
  dag_id varchar(250) NOT NULL,
  run_id varchar(250) NOT NULL,
  map_index integer NOT NULL DEFAULT -1,
  start_date timestamp with time zone,
  end_date timestamp with time zone,
  duration double precision,
  state varchar(20),
  try_number integer,
  max_tries integer DEFAULT -1,
  hostname varchar(1000),
  unixname varchar(1000),
  job_id integer,
  pool varchar(256) NOT NULL,
  pool_slots integer NOT NULL,
  queue varchar(256),
  priority_weight integer,
  operator varchar(1000),
  custom_operator_name varchar(1000),
  queued_dttm timestamp with time zone,
  queued_by_job_id integer,
  pid integer,
  executor_config bytea,
  updated_at timestamp with time zone,
  external_executor_id varchar(250),
  trigger_id integer,
  trigger_timeout timestamp without time zone,
  next_method varchar(1000),
  next_kwargs json,
  CONSTRAINT task_instance_pkey PRIMARY KEY (dag_id, task_id, run_id, map_index),
  CONSTRAINT task_instance_dag_run_fkey FOREIGN KEY (dag_id, run_id) REFERENCES dag_run (dag_id, run_id) ON DELETE CASCADE
);
CREATE INDEX ti_dag_run ON task_instance (dag_id, run_id);
CREATE INDEX ti_dag_state ON task_instance (dag_id, state);
CREATE INDEX ti_job_id ON task_instance (job_id);
CREATE INDEX ti_pool ON task_instance (pool, state, priority_weight);
CREATE INDEX ti_state ON task_instance (state);
CREATE INDEX ti_state_lkp ON task_instance (dag_id, task_id, run_id, state);
CREATE INDEX ti_trigger_id ON task_instance (trigger_id);

INSERT INTO task_instance
SELECT task, dag_id, run_id, -1,
  CASE WHEN ran THEN s END,
  CASE WHEN ran AND k <> 'running' THEN e WHEN k IN ('skipped', 'upstream_failed') THEN e END,
  CASE WHEN ran AND k <> 'running' THEN extract(epoch FROM e - s) END,
  k,
  CASE WHEN k = 'failed' THEN 3 WHEN k = 'up_for_retry' THEN 1 + n % 2 WHEN ran THEN 1 + (r * 7 + n) % 17 / 16 ELSE 0 END,
  2,
  CASE WHEN ran THEN 'worker-' || 1 + n % 2 ELSE '' END,
  'airflow', CASE WHEN ran THEN 3000 + r * 8 + n END, 'default_pool', 1, 'default', 9 - n,
  CASE n % 3 WHEN 0 THEN 'PythonOperator' WHEN 1 THEN 'BashOperator' ELSE 'PostgresOperator' END, NULL,
  CASE WHEN ran OR k = 'queued' THEN s - interval '2 seconds' END,
  CASE WHEN ran OR k = 'queued' THEN 11 END,
  CASE WHEN ran THEN 20000 + r * 31 + n END,
  '\x80057d942e'::bytea,
  CASE WHEN k IS NULL THEN NULL WHEN ran AND k <> 'running' THEN e ELSE s END,
  CASE WHEN ran THEN md5('x' || r || '-' || n)::uuid::text END,
  NULL, NULL, NULL, NULL
FROM (
  SELECT *, COALESCE(k IN ('success', 'failed', 'running', 'up_for_retry'), false) AS ran,
    d + n * interval '5 minutes' + interval '9 seconds' AS s, d + n * interval '5 minutes' + (60 + r * 13 % 170) * interval '1 second' AS e
  FROM (
    SELECT q.id AS r, q.dag_id, q.run_id, q.execution_date AS d, n, (ARRAY['extract', 'check_source', 'transform', 'load', 'aggregate', 'publish', 'notify'])[n] AS task,
      CASE WHEN q.state = 'success' THEN CASE WHEN n = 7 AND q.id % 3 = 0 THEN 'skipped' ELSE 'success' END
           WHEN q.state = 'failed' THEN CASE WHEN n < 3 THEN 'success' WHEN n = 3 THEN 'failed' ELSE 'upstream_failed' END
           WHEN q.id = 23 THEN CASE WHEN n < 3 THEN 'success' WHEN n = 3 THEN 'up_for_retry' ELSE NULL END
           WHEN q.id = 24 THEN CASE WHEN n < 2 THEN 'success' WHEN n = 2 THEN 'running' WHEN n = 3 THEN 'up_for_retry' WHEN n = 4 THEN 'queued' WHEN n = 5 THEN 'scheduled' ELSE NULL END
           ELSE CASE WHEN n = 1 THEN 'queued' WHEN n IN (2, 3) THEN 'scheduled' ELSE NULL END END AS k
    FROM dag_run q, generate_series(1, 7) n) x) z
ORDER BY r, n;
