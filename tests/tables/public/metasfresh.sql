-- dialect: postgres
CREATE TABLE c_queue_packageprocessor (c_queue_packageprocessor_id numeric(10,0) NOT NULL PRIMARY KEY, ad_client_id numeric(10,0) NOT NULL, ad_org_id numeric(10,0) NOT NULL, classname varchar(255) NOT NULL, description varchar(2000), internalname varchar(255), created timestamptz NOT NULL, createdby numeric(10,0) NOT NULL, updated timestamptz NOT NULL, updatedby numeric(10,0) NOT NULL, isactive char(1) NOT NULL CHECK (isactive IN ('Y', 'N')));
INSERT INTO c_queue_packageprocessor SELECT 540000 + g, 1000000, 1000000, 'de.metas.' || (ARRAY['invoicecandidate.async.spi.impl.InvoiceCandWorkpackageProcessor', 'document.archive.async.spi.impl.DocOutboundWorkpackageProcessor', 'inoutcandidate.async.CreateMissingShipmentSchedulesWorkpackageProcessor'])[g], NULL, NULL, '2026-10-01 04:00+00', 100, '2026-10-01 04:00+00', 100, 'Y' FROM generate_series(1, 3) g;
CREATE TABLE c_async_batch (c_async_batch_id numeric(10,0) NOT NULL PRIMARY KEY, ad_client_id numeric(10,0) NOT NULL, ad_org_id numeric(10,0) NOT NULL, name varchar(512), countexpected numeric(10,0), countenqueued numeric(10,0), countprocessed numeric(10,0), firstenqueued timestamptz, lastenqueued timestamptz, processed char(1) NOT NULL DEFAULT 'N' CHECK (processed IN ('Y', 'N')), isactive char(1) NOT NULL, created timestamptz NOT NULL, createdby numeric(10,0) NOT NULL, updated timestamptz NOT NULL, updatedby numeric(10,0) NOT NULL);
INSERT INTO c_async_batch SELECT 540100 + g, 1000000, 1000000, 'InvoiceCandidate', 5, 5, CASE WHEN g < 5 THEN 5 ELSE 2 END, d, d, CASE WHEN g < 5 THEN 'Y' ELSE 'N' END, 'Y', d, 100, d, 100 FROM (SELECT g, timestamptz '2026-11-19 06:00+00' + g * interval '1 day' AS d FROM generate_series(1, 5) g) x;

CREATE TABLE c_queue_workpackage (
  ad_client_id numeric(10,0) NOT NULL,
  ad_issue_id numeric(10,0),
  ad_org_id numeric(10,0) NOT NULL,
  ad_pinstance_id numeric(10,0),
  ad_role_id numeric(10,0),
  ad_user_id numeric(10,0),
  ad_user_incharge_id numeric(10,0),
  batchenqueuedcount numeric(10,0),
  c_async_batch_id numeric(10,0) REFERENCES c_async_batch (c_async_batch_id) DEFERRABLE INITIALLY DEFERRED,
  c_queue_packageprocessor_id numeric(10,0) NOT NULL REFERENCES c_queue_packageprocessor (c_queue_packageprocessor_id) DEFERRABLE INITIALLY DEFERRED,
  c_queue_workpackage_id numeric(10,0) NOT NULL,
  created timestamp with time zone NOT NULL,
  createdby numeric(10,0) NOT NULL,
  errormsg text,
  isactive char(1) NOT NULL CHECK (isactive IN ('Y', 'N')),
  iserror char(1) NOT NULL DEFAULT 'N' CHECK (iserror IN ('Y', 'N')),
  iserroracknowledged char(1) NOT NULL DEFAULT 'N' CHECK (iserroracknowledged IN ('Y', 'N')),
  isreadyforprocessing char(1) NOT NULL DEFAULT 'N' CHECK (isreadyforprocessing IN ('Y', 'N')),
  lastdurationmillis numeric(10,0),
  lastendtime timestamp with time zone,
  laststarttime timestamp with time zone,
  lockedat timestamp with time zone,
  priority char(1) NOT NULL DEFAULT '5',
  processed char(1) NOT NULL DEFAULT 'N' CHECK (processed IN ('Y', 'N')),
  skippedat timestamp with time zone,
  skipped_count numeric(10,0),
  skipped_first_time timestamp with time zone,
  skipped_last_reason text,
  skiptimeoutmillis numeric(10,0),
  updated timestamp with time zone NOT NULL,
  updatedby numeric(10,0) NOT NULL,
  CONSTRAINT c_queue_workpackage_key PRIMARY KEY (c_queue_workpackage_id)
);
CREATE INDEX c_queue_workpackage_open ON c_queue_workpackage (c_queue_packageprocessor_id, priority, c_queue_workpackage_id) WHERE processed = 'N' AND iserror = 'N' AND isreadyforprocessing = 'Y';

INSERT INTO c_queue_workpackage
SELECT 1000000, CASE WHEN k = 'err' THEN 1210000 + i END, 1000000, CASE WHEN i % 4 = 0 THEN 3300000 + i END, 540024, 2188223, 2188223,
  CASE WHEN i % 30 = 0 THEN 1 END, CASE WHEN i BETWEEN 141 AND 165 THEN 540101 + i % 5 END, 540001 + i % 3, 5400000 + i, c, 2188223,
  CASE WHEN k = 'err' THEN CASE i % 3 WHEN 0 THEN 'AdempiereException: Missing price for product P00' || i % 90 WHEN 1 THEN 'DBForeignKeyConstraintException: c_invoice_c_bpartner' ELSE 'NullPointerException' END WHEN k = 'done' AND i % 35 = 12 THEN 'AdempiereException: Period closed' END,
  'Y', CASE WHEN k = 'err' THEN 'Y' ELSE 'N' END, CASE WHEN k = 'err' AND i % 2 = 0 THEN 'Y' ELSE 'N' END, CASE WHEN k = 'build' THEN 'N' ELSE 'Y' END,
  CASE WHEN k IN ('done', 'err', 'skip') THEN 90 + i * 173 % 8000 END,
  CASE WHEN k IN ('done', 'err', 'skip') THEN s + (90 + i * 173 % 8000) * interval '1 millisecond' END,
  CASE WHEN k IN ('done', 'err', 'skip', 'run') THEN s END,
  CASE WHEN k = 'run' THEN s END,
  CASE i % 5 WHEN 0 THEN '3' ELSE '5' END, CASE WHEN k = 'done' THEN 'Y' ELSE 'N' END,
  CASE WHEN k = 'skip' THEN s + interval '2 seconds' WHEN k = 'done' AND i % 13 = 4 THEN s - interval '1 minute' END,
  CASE WHEN k = 'skip' THEN 1 + i % 7 WHEN k = 'done' AND i % 13 = 4 THEN 1 + i % 3 ELSE 0 END,
  CASE WHEN k = 'skip' OR (k = 'done' AND i % 13 = 4) THEN c + interval '4 seconds' END,
  CASE WHEN k = 'skip' OR (k = 'done' AND i % 13 = 4) THEN 'LockFailedException: Not all records could be locked' END,
  CASE WHEN k = 'skip' OR (k = 'done' AND i % 13 = 4) THEN 60000 ELSE 0 END,
  CASE WHEN k IN ('done', 'err', 'skip') THEN s + (90 + i * 173 % 8000) * interval '1 millisecond' WHEN k = 'run' THEN s ELSE c END, 2188223
FROM (SELECT *, CASE k WHEN 'run' THEN timestamptz '2026-11-24 11:59:49+00' WHEN 'skip' THEN timestamptz '2026-11-24 11:58:30+00' + (i % 8) * interval '9 seconds' ELSE c + (CASE WHEN i % 13 = 4 THEN 200 ELSE 3 END + i % 9) * interval '1 second' END AS s
  FROM (SELECT i, CASE WHEN i <= 176 THEN timestamptz '2026-10-22 05:30:40.12+00' + i * interval '4 hours 31 minutes' + (i * 47 % 59) * interval '61 seconds' ELSE timestamptz '2026-11-24 11:41:00.7+00' + (i - 176) * interval '38 seconds' END AS c,
    CASE WHEN i IN (169, 174) THEN 'skip' WHEN i IN (58, 120, 171) THEN 'build' WHEN i <= 176 THEN CASE WHEN i % 17 = 3 THEN 'err' ELSE 'done' END WHEN i <= 182 THEN 'skip' WHEN i <= 184 THEN 'run' WHEN i <= 198 THEN 'new' ELSE 'build' END AS k
    FROM generate_series(1, 202) i) a) b ORDER BY i;
