-- dialect: postgres
CREATE TYPE "BackgroundJobStatus" AS ENUM ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED');
CREATE TYPE "BackgroundJobTaskStatus" AS ENUM ('PENDING', 'COMPLETED', 'FAILED');
CREATE TABLE "Webhook" (
  "id" TEXT NOT NULL,
  "webhookUrl" TEXT NOT NULL,
  "secret" TEXT,
  "enabled" BOOLEAN NOT NULL DEFAULT true,
  "createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "updatedAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT "Webhook_pkey" PRIMARY KEY ("id")
);
INSERT INTO "Webhook" VALUES ('cmv71k2v70003s601hc4zq8rt', 'https://crm.example/hooks/documenso', 's3cr3t', true, '2026-10-14 08:20:11.702', '2026-10-14 08:20:11.702'), ('cmv71m9xb0007s601u1v0d2ka', 'https://archive.example/in', NULL, true, '2026-10-14 08:22:40.119', '2026-11-02 15:01:07.240');

CREATE TABLE "BackgroundJob" (
  "id" TEXT NOT NULL,
  "status" "BackgroundJobStatus" NOT NULL DEFAULT 'PENDING',
  "retried" INTEGER NOT NULL DEFAULT 0,
  "maxRetries" INTEGER NOT NULL DEFAULT 3,
  "jobId" TEXT NOT NULL,
  "name" TEXT NOT NULL,
  "version" TEXT NOT NULL,
  "submittedAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "lastRetriedAt" TIMESTAMP(3),
  "completedAt" TIMESTAMP(3),
  "updatedAt" TIMESTAMP(3) NOT NULL,
  "payload" JSONB,
  CONSTRAINT "BackgroundJob_pkey" PRIMARY KEY ("id")
);

-- a cuid: c, milliseconds in base 36, counter, fingerprint, random
CREATE FUNCTION pg_temp.cuid(at timestamp, n int) RETURNS text AS $$
DECLARE v bigint := floor(extract(epoch FROM at) * 1000); r text := ''; d text := '0123456789abcdefghijklmnopqrstuvwxyz';
BEGIN
  WHILE v > 0 LOOP r := substr(d, (v % 36)::int + 1, 1) || r; v := v / 36; END LOOP;
  RETURN 'c' || r || lpad(to_hex(n % 4096), 4, '0') || 's601' || substr(translate(md5('cuid' || n), 'abcdef', 'kqwzvx'), 1, 8);
END $$ LANGUAGE plpgsql;

-- The container was restarted at 11:46 with a wrong internal URL: it cannot reach its own job endpoint since. On the 9th it was killed.
INSERT INTO "BackgroundJob" ("id", "status", "retried", "jobId", "name", "version", "submittedAt", "lastRetriedAt", "completedAt", "updatedAt", "payload")
SELECT CASE WHEN jid LIKE '%sweep' OR jid LIKE '%rate-limits' THEN 'cron_' || substr(md5('cron' || i), 1, 24) ELSE pg_temp.cuid(c, i) END,
  st::"BackgroundJobStatus", retried, jid,
  CASE jid WHEN 'send.signing.requested.email' THEN 'Send Signing Email' WHEN 'send.recipient.signed.email' THEN 'Send Recipient Signed Email' WHEN 'internal.seal-document' THEN 'Seal Document' WHEN 'internal.execute-webhook' THEN 'Execute Webhook' WHEN 'send.document.completed.emails' THEN 'Send Document Completed Emails' WHEN 'internal.cleanup-rate-limits' THEN 'Cleanup Rate Limits' ELSE 'Seal Document Sweep' END,
  '1.0.0', c,
  CASE WHEN retried > 0 THEN c + dur * 0.7 + retried * interval '0.194 seconds' END,
  CASE WHEN st IN ('COMPLETED', 'FAILED') THEN c + dur + retried * interval '0.261 seconds' END,
  CASE st WHEN 'PENDING' THEN CASE WHEN retried > 0 OR i = 176 THEN c + dur + retried * interval '0.261 seconds' ELSE c END WHEN 'PROCESSING' THEN c + interval '0.031 seconds' ELSE c + dur + retried * interval '0.261 seconds' END,
  CASE jid WHEN 'send.signing.requested.email' THEN jsonb_build_object('userId', 1 + i % 4, 'documentId', 300 + i / 3, 'recipientId', 700 + i, 'requestMetadata', jsonb_build_object('ipAddress', '10.4.0.' || 1 + i % 200))
    WHEN 'send.recipient.signed.email' THEN jsonb_build_object('documentId', 300 + i / 3, 'recipientId', 700 + i)
    WHEN 'internal.seal-document' THEN jsonb_build_object('documentId', 300 + i / 3, 'sendEmail', true)
    WHEN 'send.document.completed.emails' THEN jsonb_build_object('envelopeId', 'envelope_' || substr(md5('e' || i / 3), 1, 16))
    WHEN 'internal.execute-webhook' THEN jsonb_build_object('event', (ARRAY['DOCUMENT_SENT', 'DOCUMENT_SIGNED', 'DOCUMENT_COMPLETED'])[1 + i % 3], 'webhookId', CASE i % 2 WHEN 0 THEN 'cmv71k2v70003s601hc4zq8rt' ELSE 'cmv71m9xb0007s601u1v0d2ka' END, 'data', jsonb_build_object('id', 300 + i / 3, 'status', 'PENDING'))
    ELSE jsonb_build_object('scheduledFor', to_char(date_trunc('minute', c), 'YYYY-MM-DD"T"HH24:MI:00.000"Z"')) END
FROM (
  SELECT i, c, jid, interval '0.4 seconds' + (i * 37 % 23) * interval '0.173 seconds' AS dur,
    CASE WHEN i IN (88, 188) THEN 'PROCESSING' WHEN i IN (89, 90) OR i >= 176 THEN 'PENDING' WHEN jid = 'internal.execute-webhook' AND i % 11 = 3 THEN 'FAILED' WHEN i IN (61, 132) THEN 'FAILED' ELSE 'COMPLETED' END AS st,
    CASE WHEN i IN (88, 89, 90) OR i >= 179 THEN 0 WHEN i = 175 THEN 1 WHEN i IN (177, 178) THEN i - 176 WHEN i = 176 THEN 0 WHEN jid = 'internal.execute-webhook' AND i % 11 = 3 THEN 3 WHEN i IN (61, 132) THEN 3 WHEN jid LIKE '%sweep' OR jid LIKE '%rate-limits' THEN 0 WHEN i % 23 = 5 THEN 1 WHEN i % 41 = 9 THEN 2 ELSE 0 END AS retried
  FROM (
    SELECT i, CASE WHEN i % 6 = 0 AND i < 176 AND i <> 90 THEN date_trunc(CASE WHEN i % 18 = 0 THEN 'day' ELSE 'hour' END, c0) + (i % 31) * interval '1.037 seconds' ELSE c0 END AS c,
      CASE WHEN i BETWEEN 176 AND 178 THEN 'internal.execute-webhook' WHEN i % 6 = 0 AND i < 176 AND i <> 90 THEN CASE WHEN i % 18 = 0 THEN 'internal.cleanup-rate-limits' ELSE 'internal.seal-document-sweep' END
        ELSE (ARRAY['send.signing.requested.email', 'internal.execute-webhook', 'send.recipient.signed.email', 'internal.execute-webhook', 'internal.seal-document', 'send.document.completed.emails'])[1 + (i * 5 + i / 6) % 6] END AS jid
    FROM (SELECT i, CASE WHEN i = 88 THEN timestamp '2026-11-09 13:20:41.118' WHEN i IN (89, 90) THEN timestamp '2026-11-09 13:20:41.502' + (i - 89) * interval '0.310 seconds'
        WHEN i <= 175 THEN timestamp '2026-10-21 07:11:08.402' + i * interval '4 hours 38 minutes 17.219 seconds' + (i * i % 19) * interval '7 minutes 3.117 seconds'
        WHEN i <= 187 THEN timestamp '2026-11-24 11:46:02.117' + (i - 175) * interval '63.409 seconds' ELSE timestamp '2026-11-24 11:59:57.204' + (i - 188) * interval '0.277 seconds' END AS c0 FROM generate_series(1, 193) i) x
  ) y
) z ORDER BY c;

CREATE TABLE "BackgroundJobTask" (
  "id" TEXT NOT NULL,
  "status" "BackgroundJobTaskStatus" NOT NULL DEFAULT 'PENDING',
  "result" JSONB,
  "retried" INTEGER NOT NULL DEFAULT 0,
  "maxRetries" INTEGER NOT NULL DEFAULT 3,
  "createdAt" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "updatedAt" TIMESTAMP(3) NOT NULL,
  "jobId" TEXT NOT NULL,
  "completedAt" TIMESTAMP(3),
  "name" TEXT NOT NULL,
  CONSTRAINT "BackgroundJobTask_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "BackgroundJobTask_jobId_fkey" FOREIGN KEY ("jobId") REFERENCES "BackgroundJob" ("id") ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO "BackgroundJobTask" ("id", "status", "retried", "createdAt", "updatedAt", "jobId", "completedAt", "name")
SELECT 'task-' || encode(sha256('send-signing-email'), 'hex') || '--' || "id", 'COMPLETED', "retried", "submittedAt" + interval '0.044 seconds', "completedAt" - interval '0.012 seconds', "id", "completedAt" - interval '0.012 seconds', 'send-signing-email'
FROM "BackgroundJob" WHERE "jobId" = 'send.signing.requested.email' AND "status" = 'COMPLETED' ORDER BY "submittedAt" DESC LIMIT 12;
