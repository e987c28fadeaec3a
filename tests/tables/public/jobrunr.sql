-- dialect: postgres
CREATE TABLE jobrunr_migrations (id nchar(36) PRIMARY KEY, script varchar(64) NOT NULL, installedOn varchar(29) NOT NULL);
INSERT INTO jobrunr_migrations SELECT md5('mig' || g)::uuid::text, 'v' || lpad(g::text, 3, '0') || '__step.sql', '2026-10-01T08:00:0' || g || '.000000Z' FROM generate_series(0, 9) g;
CREATE TABLE jobrunr_recurring_jobs (id nchar(128) PRIMARY KEY, version integer NOT NULL, jobAsJson text NOT NULL, createdAt bigint NOT NULL DEFAULT 0);
INSERT INTO jobrunr_recurring_jobs VALUES ('daily-report', 1, '{"id":"daily-report","scheduleExpression":"0 2 * * *"}', 1790841600000);
CREATE TABLE jobrunr_metadata (id varchar(156) PRIMARY KEY, name varchar(92) NOT NULL, owner varchar(64) NOT NULL, value text NOT NULL, createdAt timestamp NOT NULL, updatedAt timestamp NOT NULL);
INSERT INTO jobrunr_metadata VALUES ('succeeded-jobs-counter-cluster', 'succeeded-jobs-counter', 'cluster', '8124', '2026-10-01 08:00', '2026-11-24 11:30');
CREATE TABLE t_customer (id bigserial PRIMARY KEY, email varchar(255) NOT NULL, created timestamp NOT NULL);
INSERT INTO t_customer (email, created) SELECT 'k' || g || '@firm.example', timestamp '2026-10-02 12:00' FROM generate_series(1, 6) g;

CREATE TABLE jobrunr_jobs (
  id           nchar(36) PRIMARY KEY,
  version      int          NOT NULL,
  jobAsJson    text         NOT NULL,
  jobSignature varchar(512) NOT NULL,
  state        varchar(36)  NOT NULL,
  createdAt    timestamp    NOT NULL,
  updatedAt    timestamp    NOT NULL,
  scheduledAt  timestamp,
  recurringJobId varchar(128),
  deadline     timestamp
);
CREATE INDEX jobrunr_state_idx ON jobrunr_jobs (state);
CREATE INDEX jobrunr_job_signature_idx ON jobrunr_jobs (jobSignature);
CREATE INDEX jobrunr_job_created_at_idx ON jobrunr_jobs (createdAt);
CREATE INDEX jobrunr_job_scheduled_at_idx ON jobrunr_jobs (scheduledAt);
CREATE INDEX jobrunr_jobs_state_updated_idx ON jobrunr_jobs (state, updatedAt);
CREATE INDEX jobrunr_job_rci_idx ON jobrunr_jobs (recurringJobId);
CREATE INDEX jobrunr_job_carbon_aware_deadline_idx ON jobrunr_jobs (state, deadline);

INSERT INTO jobrunr_jobs
SELECT substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7' || substr(h, 14, 3) || '-8' || substr(h, 18, 3) || '-' || substr(h, 21, 12),
  CASE k WHEN 'SUCCEEDED' THEN 3 + 3 * (i % 12 / 11) WHEN 'FAILED' THEN 32 WHEN 'SCHEDULED' THEN CASE WHEN i % 2 = 0 THEN 4 ELSE 1 END WHEN 'PROCESSING' THEN 5 WHEN 'DELETED' THEN 4 ELSE 1 END,
  json_build_object('version', 1, 'jobSignature', sig, 'jobName', 'Job ' || i, 'amountOfRetries', NULL,
    'jobDetails', json_build_object('className', 'com.firm.' || split_part(sig, '.', 3), 'methodName', 'run', 'jobParameters', json_build_array(json_build_object('className', 'java.lang.Long', 'object', 1 + i % 6))),
    'jobHistory', CASE WHEN k = 'FAILED' OR (k = 'SCHEDULED' AND i % 2 = 0)
      THEN json_build_array(json_build_object('state', 'ENQUEUED'), json_build_object('state', 'PROCESSING'), json_build_object('state', 'FAILED', 'message', 'An exception occurred during the performance of the job', 'exceptionType', 'java.net.SocketTimeoutException', 'exceptionMessage', 'Read timed out'), json_build_object('state', k))
      ELSE json_build_array(json_build_object('state', 'ENQUEUED', 'createdAt', c), json_build_object('state', k)) END)::text,
  sig, k, c,
  CASE WHEN k IN ('SUCCEEDED', 'DELETED') THEN c + (2 + i % 50) * interval '1 second' WHEN k = 'FAILED' THEN c + interval '13 hours' WHEN k = 'PROCESSING' THEN timestamp '2026-11-24 11:59:48' ELSE least(c + interval '4 seconds', timestamp '2026-11-24 11:59:59') END,
  CASE WHEN k = 'SCHEDULED' THEN timestamp '2026-11-24 12:02' + (i % 6) * interval '5 hours' END,
  CASE WHEN i % 4 = 3 THEN 'daily-report' END,
  NULL
FROM (
  SELECT i, lpad(to_hex((extract(epoch FROM c) * 1000)::bigint), 12, '0') || substr(md5('jr' || i), 1, 20) AS h, c,
    CASE i % 4 WHEN 0 THEN 'com.firm.InvoiceService.run(java.lang.Long)' WHEN 1 THEN 'com.firm.MailService.run(java.lang.Long)' WHEN 2 THEN 'com.firm.ExportService.run(java.lang.Long)' ELSE 'com.firm.ReportService.run(java.lang.Long)' END AS sig,
    CASE WHEN i <= 94 AND i % 16 = 9 THEN 'FAILED' WHEN i <= 94 AND i % 31 = 20 THEN 'DELETED' WHEN i <= 94 THEN 'SUCCEEDED' WHEN i <= 96 THEN 'PROCESSING' WHEN i <= 104 THEN 'ENQUEUED' ELSE 'SCHEDULED' END AS k
  FROM (SELECT i, CASE WHEN i <= 94 THEN timestamp '2026-11-21 15:00:03.104' + i * interval '35 minutes' ELSE timestamp '2026-11-24 11:25:00.71' + (i - 94) * interval '100 seconds' END AS c FROM generate_series(1, 114) i) b) s ORDER BY i;
