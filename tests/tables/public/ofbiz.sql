-- dialect: postgres
CREATE TABLE status_item (status_id varchar(20) NOT NULL, status_type_id varchar(20), status_code varchar(60), sequence_id varchar(20), description varchar(255), last_updated_stamp timestamptz, last_updated_tx_stamp timestamptz, created_stamp timestamptz, created_tx_stamp timestamptz, CONSTRAINT pk_status_item PRIMARY KEY (status_id));
INSERT INTO status_item SELECT s, 'SERVICE_STATUS', c, q, d, t, t, t, t FROM (VALUES ('SERVICE_PENDING', 'PENDING', '01', 'Pending'), ('SERVICE_QUEUED', 'QUEUED', '02', 'Queued'), ('SERVICE_RUNNING', 'RUNNING', '03', 'Running'), ('SERVICE_FINISHED', 'FINISHED', '10', 'Finished'), ('SERVICE_CANCELLED', 'CANCELLED', '99', 'Cancelled'), ('SERVICE_FAILED', 'FAILED', '13', 'Failed'), ('SERVICE_CRASHED', 'CRASHED', '14', 'Crashed')) v (s, c, q, d), (SELECT timestamptz '2026-10-01 04:00:11+00' AS t) x;
CREATE TABLE runtime_data (runtime_data_id varchar(20) NOT NULL, runtime_info text, last_updated_stamp timestamptz, last_updated_tx_stamp timestamptz, created_stamp timestamptz, created_tx_stamp timestamptz, CONSTRAINT pk_runtime_data PRIMARY KEY (runtime_data_id));
CREATE INDEX rntm_dt_txstmp ON runtime_data (last_updated_tx_stamp);
INSERT INTO runtime_data SELECT (10000 + g)::text, '<?xml version="1.0" encoding="UTF-8"?><ofbiz-ser><map-HashMap><map-Entry><map-Key><std-String value="orderId"/></map-Key><map-Value><std-String value="WSCO' || 10000 + g || '"/></map-Value></map-Entry></map-HashMap></ofbiz-ser>', t, t, t, t FROM (SELECT g, timestamptz '2026-10-05 04:00+00' + g * interval '5 hours' AS t FROM generate_series(1, 120) g) x;
CREATE TABLE temporal_expression (temp_expr_id varchar(20) NOT NULL, temp_expr_type_id varchar(20), date1 timestamptz, date2 timestamptz, integer1 numeric(20,0), integer2 numeric(20,0), string1 varchar(20), string2 varchar(20), description varchar(255), last_updated_stamp timestamptz, last_updated_tx_stamp timestamptz, created_stamp timestamptz, created_tx_stamp timestamptz, CONSTRAINT pk_temporal_expression PRIMARY KEY (temp_expr_id));
INSERT INTO temporal_expression (temp_expr_id, temp_expr_type_id, integer1, integer2) VALUES ('MIDNIGHT_DAILY', 'FREQUENCY', 5, 1), ('HOURLY', 'FREQUENCY', 10, 1);

CREATE TABLE job_sandbox (
  job_id varchar(20) NOT NULL,
  job_name varchar(100),
  run_time timestamp with time zone,
  pool_id varchar(100),
  status_id varchar(20),
  parent_job_id varchar(20),
  previous_job_id varchar(20),
  service_name varchar(100),
  loader_name varchar(100),
  max_retry numeric(20,0),
  current_retry_count numeric(20,0),
  auth_user_login_id varchar(255),
  run_as_user varchar(255),
  runtime_data_id varchar(20),
  recurrence_info_id varchar(20),
  temp_expr_id varchar(20),
  current_recurrence_count numeric(20,0),
  max_recurrence_count numeric(20,0),
  run_by_instance_id varchar(20),
  start_date_time timestamp with time zone,
  finish_date_time timestamp with time zone,
  cancel_date_time timestamp with time zone,
  job_result varchar(255),
  recurrence_time_zone varchar(60),
  last_updated_stamp timestamp with time zone,
  last_updated_tx_stamp timestamp with time zone,
  created_stamp timestamp with time zone,
  created_tx_stamp timestamp with time zone,
  CONSTRAINT pk_job_sandbox PRIMARY KEY (job_id),
  CONSTRAINT job_sndbx_rntmdta FOREIGN KEY (runtime_data_id) REFERENCES runtime_data (runtime_data_id),
  CONSTRAINT job_sndbx_stts FOREIGN KEY (status_id) REFERENCES status_item (status_id)
);
CREATE INDEX job_sndbx_runstat ON job_sandbox (run_by_instance_id, status_id);
CREATE INDEX job_sandbox_txstmp ON job_sandbox (last_updated_tx_stamp);
CREATE INDEX job_sandbox_txcrts ON job_sandbox (created_tx_stamp);

INSERT INTO job_sandbox
SELECT (10000 + i)::text,
  CASE i % 4 WHEN 0 THEN 'Clear EntityAutoEngine Cache' WHEN 1 THEN ((extract(epoch FROM c) * 1000)::bigint)::text WHEN 2 THEN 'Purge Old Jobs' ELSE ((extract(epoch FROM c) * 1000 + 3)::bigint)::text END,
  r, 'pool', st,
  CASE WHEN rc > 0 THEN (10000 + i - 1)::text WHEN i % 4 IN (0, 2) THEN '1000' || i % 4 END,
  CASE WHEN i % 4 IN (0, 2) AND i > 4 THEN (10000 + i - 4)::text END,
  CASE i % 4 WHEN 0 THEN 'cleanSyncRemoveInfo' WHEN 1 THEN 'sendOrderConfirmation' WHEN 2 THEN 'purgeOldJobs' ELSE 'sendInvoiceEmail' END,
  NULL, CASE i % 4 WHEN 0 THEN -1 WHEN 2 THEN -1 ELSE 3 END, rc,
  'system', CASE WHEN i % 4 IN (0, 2) THEN 'system' END,
  CASE WHEN i % 4 IN (1, 3) THEN (10001 + i % 120)::text END,
  NULL, CASE i % 4 WHEN 0 THEN 'HOURLY' WHEN 2 THEN 'MIDNIGHT_DAILY' END,
  CASE WHEN i % 4 IN (0, 2) THEN i / 4 END, CASE WHEN i % 4 IN (0, 2) THEN -1 END,
  CASE WHEN st NOT IN ('SERVICE_PENDING', 'SERVICE_CANCELLED') THEN 'ofbiz' || 1 + i % 2 END,
  CASE WHEN st NOT IN ('SERVICE_PENDING', 'SERVICE_CANCELLED', 'SERVICE_QUEUED') THEN s END,
  CASE WHEN st IN ('SERVICE_FINISHED', 'SERVICE_FAILED') THEN f END,
  CASE WHEN st IN ('SERVICE_CANCELLED', 'SERVICE_CRASHED') THEN f END,
  CASE st WHEN 'SERVICE_FAILED' THEN CASE i % 2 WHEN 0 THEN 'Error calling event: java.sql.SQLException: connection has been closed' ELSE 'Could not send mail: SendFailedException: 451 4.7.1 Greylisting in action' END WHEN 'SERVICE_FINISHED' THEN 'success' END,
  CASE WHEN i % 4 IN (0, 2) THEN 'UTC' END,
  CASE WHEN st = 'SERVICE_PENDING' THEN c WHEN st IN ('SERVICE_QUEUED', 'SERVICE_RUNNING') THEN s ELSE f END,
  CASE WHEN st = 'SERVICE_PENDING' THEN c WHEN st IN ('SERVICE_QUEUED', 'SERVICE_RUNNING') THEN s - interval '3 milliseconds' ELSE f - interval '5 milliseconds' END,
  c, c - interval '4 milliseconds'
FROM (SELECT *, CASE WHEN st IN ('SERVICE_RUNNING', 'SERVICE_QUEUED') THEN timestamptz '2026-11-24 11:59:30+00' + i % 20 * interval '1 second' ELSE r + interval '9 seconds' END AS s, r + (10 + i * 7 % 60) * interval '1 second' AS f
  FROM (SELECT *, CASE WHEN st = 'SERVICE_PENDING' AND (i > 186 OR i < 180) THEN timestamptz '2026-11-24 13:00+00' + (i % 9) * interval '3 hours' WHEN rc > 0 THEN c + interval '15 minutes' ELSE c END AS r
    FROM (SELECT i, CASE WHEN i IN (62, 66, 107, 143, 182, 189) THEN 1 WHEN i IN (67, 183) THEN 2 ELSE 0 END AS rc,
      CASE WHEN i <= 170 THEN timestamptz '2026-10-09 03:15:00.217+00' + i * interval '6 hours 30 minutes' + (i * 19 % 61) * interval '59 seconds' ELSE timestamptz '2026-11-24 11:20:08.6+00' + (i - 170) * interval '85 seconds' END AS c,
      CASE WHEN i IN (165, 168) THEN 'SERVICE_PENDING' WHEN i IN (61, 65, 66, 106, 142) THEN 'SERVICE_FAILED' WHEN i <= 174 THEN CASE WHEN i % 29 = 11 THEN 'SERVICE_FAILED' WHEN i % 53 = 30 THEN 'SERVICE_CRASHED' WHEN i % 47 = 21 THEN 'SERVICE_CANCELLED' ELSE 'SERVICE_FINISHED' END
           WHEN i <= 176 THEN 'SERVICE_RUNNING' WHEN i <= 178 THEN 'SERVICE_QUEUED' ELSE 'SERVICE_PENDING' END AS st
      FROM generate_series(1, 194) i) a) b) d ORDER BY i;
