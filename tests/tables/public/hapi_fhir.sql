-- dialect: postgres
CREATE TABLE bt2_job_instance (
  id varchar(100) NOT NULL,
  job_cancelled boolean NOT NULL,
  cmb_recs_processed integer,
  cmb_recs_per_sec float(53),
  create_time timestamp(6) NOT NULL,
  cur_gated_step_id varchar(100),
  definition_id varchar(100) NOT NULL,
  definition_ver integer NOT NULL,
  end_time timestamp(6),
  error_count integer,
  error_msg varchar(500),
  est_remaining varchar(100),
  fast_tracking boolean,
  params_json varchar(2000),
  params_json_lob oid,
  params_json_vc text,
  progress_pct float(53),
  report oid,
  report_vc text,
  start_time timestamp(6),
  stat varchar(20) NOT NULL,
  tot_elapsed_millis integer,
  client_id varchar(200),
  user_name varchar(200),
  update_time timestamp(6),
  warning_msg varchar(4000),
  work_chunks_purged boolean NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX idx_bt2ji_ct ON bt2_job_instance (create_time);
INSERT INTO bt2_job_instance (id, job_cancelled, cmb_recs_processed, cmb_recs_per_sec, create_time, cur_gated_step_id, definition_id, definition_ver, end_time, error_count, error_msg, est_remaining, fast_tracking, params_json_vc, progress_pct, report_vc, start_time, stat, tot_elapsed_millis, user_name, update_time, work_chunks_purged)
SELECT md5('job' || j)::uuid::text, false, recs, CASE WHEN e IS NULL THEN 41.7 ELSE round(recs / extract(epoch FROM e - c), 2) END, c, step, def, ver, e, errs, err, rest, false, '{}', pct, rep, c, st, CASE WHEN e IS NOT NULL THEN extract(epoch FROM e - c) * 1000 END, 'ops', coalesce(e, timestamp '2026-11-24 11:59:31.208'), purged
FROM (VALUES
  (1, 61200, timestamp '2026-11-17 22:00:04.118', 'create-report-step', 'BULK_EXPORT', 1, timestamp '2026-11-17 22:19:31.552', 0, NULL, NULL, 1.0, '{"msg":"Bulk export complete."}', 'COMPLETED', true),
  (2, 8430, timestamp '2026-11-19 08:12:47.004', NULL, 'BULK_IMPORT_PULL', 1, timestamp '2026-11-19 08:21:15.870', 2, NULL, NULL, 1.0, NULL, 'COMPLETED', true),
  (3, 61544, timestamp '2026-11-20 22:00:03.902', 'create-report-step', 'BULK_EXPORT', 1, timestamp '2026-11-20 22:20:08.117', 0, NULL, NULL, 1.0, '{"msg":"Bulk export complete."}', 'COMPLETED', true),
  (4, 120, timestamp '2026-11-22 15:40:20.665', NULL, 'BULK_IMPORT_PULL', 1, timestamp '2026-11-22 15:46:21.930', 4, 'Too many errors: 4. Last error msg was HAPI-2054: Unknown HTTP status 503', NULL, 0.33, NULL, 'FAILED', true),
  (5, 63000, timestamp '2026-11-24 07:41:08.230', 'reindex', 'REINDEX', 1, NULL, 15, 'HAPI-0550: HAPI-0824: The operation has failed with a version constraint failure.', '1h 8m', 0.77, NULL, 'ERRORED', false),
  (6, 4100, timestamp '2026-11-24 11:31:12.480', NULL, 'BULK_IMPORT_PULL', 1, timestamp '2026-11-24 11:59:31.190', 5, 'Too many errors: 4. Last error msg was HAPI-2052: Got HTTP status code 502', NULL, 0.91, NULL, 'FAILED', false),
  (7, 500, timestamp '2026-11-24 11:52:40.771', 'expand-resources', 'BULK_EXPORT', 1, NULL, 0, NULL, '6.1 min', 0.41, NULL, 'IN_PROGRESS', false)
) v (j, recs, c, step, def, ver, e, errs, err, rest, pct, rep, st, purged);

CREATE TABLE bt2_work_chunk (
  id varchar(100) NOT NULL,
  create_time timestamp(6) NOT NULL,
  end_time timestamp(6),
  error_count integer NOT NULL,
  error_msg varchar(500),
  instance_id varchar(100) NOT NULL,
  definition_id varchar(100) NOT NULL,
  definition_ver integer NOT NULL,
  records_processed integer,
  seq integer NOT NULL,
  chunk_data oid,
  chunk_data_vc text,
  start_time timestamp(6),
  stat varchar(20) NOT NULL,
  tgt_step_id varchar(100) NOT NULL,
  update_time timestamp(6),
  warning_msg varchar(4000),
  PRIMARY KEY (id),
  CONSTRAINT fk_bt2wc_instance FOREIGN KEY (instance_id) REFERENCES bt2_job_instance (id)
);
CREATE INDEX idx_bt2wc_ii_seq ON bt2_work_chunk (instance_id, seq);

-- j: the job; c: stored; s: last taken by a worker; secs: how long that took
INSERT INTO bt2_work_chunk (id, create_time, end_time, error_count, error_msg, instance_id, definition_id, definition_ver, records_processed, seq, chunk_data_vc, start_time, stat, tgt_step_id, update_time)
SELECT md5('chunk' || j || step || n)::uuid::text, c,
  CASE WHEN st IN ('COMPLETED', 'ERRORED', 'FAILED') THEN s + secs * interval '1 second' END,
  errs,
  CASE WHEN st = 'FAILED' THEN 'Too many errors: 4. Last error msg was HAPI-2052: Got HTTP status code 502 when fetching https://files.lake.example/out/observation-' || n || '.ndjson'
    WHEN errs > 0 THEN CASE n % 3 WHEN 0 THEN 'HAPI-0550: HAPI-0824: The operation has failed with a version constraint failure. This generally means that two clients/threads were trying to update the same resource at the same time.' WHEN 1 THEN 'could not execute statement [ERROR: deadlock detected]' ELSE 'Unable to acquire JDBC Connection [HikariPool-1 - Connection is not available, request timed out after 30000ms]' END END,
  md5('job' || j)::uuid::text, CASE j WHEN 5 THEN 'REINDEX' WHEN 6 THEN 'BULK_IMPORT_PULL' ELSE 'BULK_EXPORT' END, 1,
  CASE WHEN st = 'COMPLETED' THEN recs END,
  seq,
  CASE WHEN st <> 'COMPLETED' THEN CASE WHEN j = 6 THEN '{"sourceName":"https://files.lake.example/out/observation-' || n || '.ndjson","ndJsonText":"{\"resourceType\":\"Observation\",\"id\":\"o' || n || '\",\"status\":\"final\"}\n"}'
    WHEN step = 'write-to-binary' THEN '{"resources":["{\"resourceType\":\"Patient\",\"id\":\"' || 5000 + n || '\"}"],"resourceType":"Patient"}'
    ELSE '{"requestPartitionId":{"allPartitions":true},"ids":[{"resourceType":"Observation","id":"' || 40000 + n * 500 || '"},{"resourceType":"Observation","id":"' || 40001 + n * 500 || '"},{"resourceType":"Observation","id":"' || 40002 + n * 500 || '"}]}' END END,
  CASE WHEN st = 'QUEUED' THEN c ELSE s END,
  st, step, c + (1 + n % 3) * interval '1 millisecond'
FROM (
  SELECT 5 AS j, 'generate-ranges' AS step, 1 AS n, 0 AS seq, timestamp '2026-11-24 07:41:08.244' AS c, timestamp '2026-11-24 07:41:30.517' AS s, 2.118 AS secs, 'COMPLETED' AS st, 0 AS errs, 0 AS recs
  UNION ALL
  SELECT 5, 'load-ids', n, n - 1, timestamp '2026-11-24 07:41:30.9' + n * interval '97 milliseconds', timestamp '2026-11-24 07:42:30.4' + n * interval '20.113 seconds', 17.2 + n % 3, 'COMPLETED', 0, 0 FROM generate_series(1, 14) n
  UNION ALL
  SELECT 5, 'reindex', n, (n - 1) % 12, timestamp '2026-11-24 07:42:31.7' + (n + 11) / 12 * interval '20.113 seconds' + (n - 1) % 12 * interval '1.207 seconds',
    timestamp '2026-11-24 07:48:30.6' + n * interval '114.031 seconds', (n * 37 % 71) + 41.25 + n % 8 * 0.111,
    CASE WHEN n IN (122, 126, 128, 129) THEN 'ERRORED' WHEN n < 131 THEN 'COMPLETED' WHEN n < 133 THEN 'IN_PROGRESS' ELSE 'QUEUED' END,
    CASE WHEN n IN (122, 128) THEN 2 WHEN n IN (126, 129) THEN 1 WHEN n < 131 AND n % 13 = 5 THEN 1 ELSE 0 END, 500 FROM generate_series(1, 168) n
  UNION ALL
  SELECT 6, 'fetch-files', 1, 0, timestamp '2026-11-24 11:31:12.493', timestamp '2026-11-24 11:31:12.530', 84.217, 'COMPLETED', 0, 10
  UNION ALL
  SELECT 6, 'process-files', n, n - 1, timestamp '2026-11-24 11:31:14.2' + n * interval '8.041 seconds', timestamp '2026-11-24 11:31:14.3' + CASE WHEN n = 7 THEN interval '26 minutes 41 seconds' ELSE n * interval '44.5 seconds' END, 39.9 + n % 4, CASE WHEN n = 7 THEN 'FAILED' ELSE 'COMPLETED' END, CASE WHEN n = 7 THEN 4 WHEN n = 3 THEN 1 ELSE 0 END, 410 FROM generate_series(1, 10) n
  UNION ALL
  SELECT 7, 'fetch-resources', 1, 0, timestamp '2026-11-24 11:52:40.790', timestamp '2026-11-24 11:53:30.633', 11.481, 'COMPLETED', 0, 0
  UNION ALL
  SELECT 7, 'expand-resources', n, n - 1, timestamp '2026-11-24 11:53:32.1' + n * interval '1.109 seconds', timestamp '2026-11-24 11:54:30.9' + n * interval '59.7 seconds', 31.7 + n, CASE WHEN n <= 4 THEN 'COMPLETED' ELSE 'QUEUED' END, 0, 100 FROM generate_series(1, 8) n
  UNION ALL
  SELECT 7, 'write-to-binary', n, 0, timestamp '2026-11-24 11:54:30.9' + n * interval '59.7 seconds' + interval '30.914 seconds', NULL, NULL, 'QUEUED', 0, NULL FROM generate_series(1, 4) n
) k
ORDER BY c;
