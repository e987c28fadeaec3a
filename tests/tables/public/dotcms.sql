-- dialect: postgres
CREATE TABLE job_queue
(
    id         VARCHAR(255) PRIMARY KEY,
    queue_name VARCHAR(255) NOT NULL,
    state      VARCHAR(50)  NOT NULL,
    priority   INTEGER DEFAULT 0,
    created_at timestamptz  NOT NULL
);
CREATE TABLE job
(
    id             VARCHAR(255) PRIMARY KEY,
    queue_name     VARCHAR(255) NOT NULL,
    state          VARCHAR(50)  NOT NULL,
    parameters     JSONB        NOT NULL,
    result         JSONB,
    progress       FLOAT   DEFAULT 0,
    created_at     timestamptz  NOT NULL,
    updated_at     timestamptz  NOT NULL,
    started_at     timestamptz,
    completed_at   timestamptz,
    execution_node VARCHAR(255),
    retry_count    INTEGER DEFAULT 0
);
CREATE TABLE job_history
(
    id             VARCHAR(255) PRIMARY KEY,
    job_id         VARCHAR(255) NOT NULL,
    state          VARCHAR(50)  NOT NULL,
    execution_node VARCHAR(255),
    created_at     timestamptz  NOT NULL,
    result         JSONB,
    FOREIGN KEY (job_id) REFERENCES job (id)
);
CREATE INDEX idx_job_queue_status ON job_queue (state);
CREATE INDEX idx_job_queue_priority_created_at ON job_queue (priority DESC, created_at ASC);
CREATE INDEX idx_job_parameters ON job USING GIN (parameters);
CREATE INDEX idx_job_result ON job USING GIN (result);
CREATE INDEX idx_job_status ON job (state);
CREATE INDEX idx_job_created_at ON job (created_at);
CREATE INDEX idx_job_history_job_id ON job_history (job_id);

WITH g AS (
  SELECT i, md5('dotjob' || i) AS m,
    CASE WHEN i % 9 < 5 THEN 'importContentlets' WHEN i % 9 < 8 THEN 'bulkUpload' ELSE 'syncCatalog' END AS q,
    CASE WHEN i <= 178 THEN timestamptz '2026-10-12 07:02:11.207+00' + i * interval '5 hours 46 minutes' + (i * 7919 % 9000) * interval '1.013 seconds'
         ELSE timestamptz '2026-11-24 11:53:40.118+00' + (i - 178) * interval '31.37 seconds' END AS c,
    CASE WHEN i IN (12, 51, 52, 98, 133, 169) THEN 'FAILED_PERMANENTLY' WHEN i = 77 THEN 'ABANDONED_PERMANENTLY' WHEN i IN (30, 110, 151) THEN 'CANCELED'
         WHEN i <= 178 THEN 'SUCCESS' WHEN i IN (179, 180, 182) THEN 'SUCCESS' WHEN i IN (181, 183) THEN 'FAILED' WHEN i IN (184, 185) THEN 'RUNNING' ELSE 'PENDING' END AS st,
    CASE WHEN i IN (12, 51, 52, 98, 133, 169) THEN 3 WHEN i = 77 THEN 3 WHEN i IN (20, 65, 140, 166) THEN 1 + i % 2 WHEN i = 181 THEN 2 WHEN i = 183 THEN 0 WHEN i = 184 THEN 1 ELSE 0 END AS rc,
    (8 + i * 271 % 95) * interval '1.377 seconds' AS d
  FROM generate_series(1, 190) AS i),
k AS (SELECT *, CASE WHEN st = 'PENDING' THEN NULL ELSE c + (1 + i % 5) * interval '0.711 seconds' END AS s FROM g),
e AS (SELECT *, CASE WHEN i = 77 THEN s + interval '31 minutes 8.4 seconds' WHEN i IN (181, 183) THEN timestamptz '2026-11-24 11:59:50.61+00' + (i - 181) * interval '3.01 seconds'
    WHEN i = 184 THEN s + interval '20.4 seconds' WHEN st IN ('RUNNING', 'PENDING') THEN NULL ELSE s + d + rc * interval '3.2 seconds' END AS f FROM k)
INSERT INTO job (id, queue_name, state, parameters, result, progress, created_at, updated_at, started_at, completed_at, execution_node, retry_count)
SELECT substr(m, 1, 8) || '-' || substr(m, 9, 4) || '-4' || substr(m, 14, 3) || '-b' || substr(m, 18, 3) || '-' || substr(m, 21, 12), q, st,
  CASE q WHEN 'importContentlets' THEN jsonb_build_object('cmd', 'publish', 'userId', 'dotcms.org.' || (1 + i % 3) * 2803, 'language', 'en-US', 'contentType', 'Product', 'tempFileId', 'temp_' || substr(m, 1, 10))
    WHEN 'bulkUpload' THEN jsonb_build_object('userId', 'dotcms.org.1', 'folder', '//site/images/' || i % 12, 'files', 3 + i % 40) ELSE jsonb_build_object('catalog', 'erp', 'full', i % 4 = 0) END,
  CASE WHEN st = 'SUCCESS' AND q <> 'syncCatalog' THEN jsonb_build_object('metadata', jsonb_build_object('rows', 20 + i * 31 % 400, 'invalid', 0))
    WHEN st = 'CANCELED' THEN jsonb_build_object('metadata', jsonb_build_object('rows', i % 13))
    WHEN st LIKE 'FAILED%' THEN jsonb_build_object('errorDetail', jsonb_build_object('message', CASE i % 3 WHEN 0 THEN 'Connection refused: erp.intern:8443' WHEN 1 THEN 'The file does not contain a header row' ELSE 'Unable to obtain connection from the pool' END,
      'exceptionClass', CASE i % 3 WHEN 0 THEN 'java.net.ConnectException' WHEN 1 THEN 'com.dotcms.jobs.business.error.JobProcessingException' ELSE 'com.dotmarketing.exception.DotDataException' END, 'timestamp', to_char(f AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), 'stackTrace', 'com.dotcms.jobs.business.api.JobQueueManagerAPIImpl.processJob', 'processingStage', 'Job execution'))
    WHEN st LIKE 'ABANDONED%' THEN '{"errorDetail":{"message":"Job abandoned due to no updates within 30 minutes","exceptionClass":"com.dotcms.jobs.business.error.JobAbandonedException","stackTrace":"Job exceeded inactivity threshold of 30 minutes","processingStage":"Abandoned Job Detection"}}'::jsonb END,
  CASE WHEN st = 'SUCCESS' THEN 1 WHEN st = 'PENDING' THEN 0 WHEN i % 3 = 0 THEN 0 ELSE (i * 17 % 90)::float / 100 END,
  c, CASE WHEN st = 'PENDING' THEN c WHEN st = 'RUNNING' THEN timestamptz '2026-11-24 11:59:57.33+00' + i % 3 * interval '0.9 seconds' ELSE f + interval '0.004 seconds' END,
  s, f, CASE WHEN i % 3 = 1 THEN 'a2d4c8e1f0' ELSE '5be1f2c907' END, rc
FROM e ORDER BY i;
INSERT INTO job_queue (id, queue_name, state, priority, created_at)
SELECT id, queue_name, CASE state WHEN 'RUNNING' THEN 'RUNNING' ELSE 'PENDING' END, 0, CASE state WHEN 'FAILED' THEN updated_at ELSE created_at END FROM job WHERE state IN ('PENDING', 'FAILED', 'RUNNING');
INSERT INTO job_history (id, job_id, state, execution_node, created_at, result)
SELECT md5(id || x.state), id, x.state, execution_node, x.t, x.r FROM job, LATERAL (VALUES ('PENDING', created_at, NULL::jsonb), ('RUNNING', started_at, NULL), (job.state, completed_at, result)) AS x (state, t, r)
WHERE x.t IS NOT NULL AND NOT (job.state = 'RUNNING' AND x.t = completed_at) AND created_at > '2026-11-22';
