-- dialect: postgres
CREATE TABLE "_prisma_migrations" (id varchar(36) PRIMARY KEY, checksum varchar(64) NOT NULL, finished_at timestamptz, migration_name varchar(255) NOT NULL, logs text, rolled_back_at timestamptz, started_at timestamptz NOT NULL DEFAULT now(), applied_steps_count integer NOT NULL DEFAULT 0);
INSERT INTO "_prisma_migrations" SELECT md5('pm' || g)::uuid::text, md5('a' || g) || md5('b' || g), timestamptz '2026-10-01 08:00:02+00', '2024032715321' || g || '_step', NULL, NULL, timestamptz '2026-10-01 08:00:01+00', 1 FROM generate_series(1, 5) g;
CREATE TABLE users (id serial PRIMARY KEY, username text, email text NOT NULL UNIQUE, created timestamp(3) NOT NULL, "timeZone" text NOT NULL DEFAULT 'Europe/London');
INSERT INTO users (username, email, created) SELECT 'host' || g, 'host' || g || '@cal.example', timestamp '2026-10-01 09:00' FROM generate_series(1, 6) g;
CREATE TABLE "Webhook" (id text PRIMARY KEY, "userId" integer REFERENCES users, "subscriberUrl" text NOT NULL, active boolean NOT NULL DEFAULT true, "createdAt" timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO "Webhook" SELECT md5('wh' || g)::uuid::text, g, 'https://hooks.example/' || g, true, timestamp '2026-10-02 10:00' FROM generate_series(1, 4) g;

CREATE TABLE "Task" (
  "id" text NOT NULL,
  "createdAt" timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "updatedAt" timestamp(3) NOT NULL,
  "scheduledAt" timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "succeededAt" timestamp(3),
  "type" text NOT NULL,
  "payload" text NOT NULL,
  "attempts" integer NOT NULL DEFAULT 0,
  "maxAttempts" integer NOT NULL DEFAULT 3,
  "lastError" text,
  "lastFailedAttemptAt" timestamp(3),
  "referenceUid" text,
  CONSTRAINT "Task_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "Task_id_key" ON "Task" ("id");
CREATE UNIQUE INDEX "Task_referenceUid_type_key" ON "Task" ("referenceUid", "type");

INSERT INTO "Task" ("id", "createdAt", "updatedAt", "scheduledAt", "succeededAt", "type", "payload", "attempts", "maxAttempts", "lastError", "lastFailedAttemptAt", "referenceUid")
SELECT md5('task' || i)::uuid::text, c,
  CASE k WHEN 'done' THEN c + (3 + i % 55) * interval '1 second' WHEN 'dead' THEN c + interval '16 minutes' WHEN 'retry' THEN timestamp '2026-11-24 11:56:01' ELSE c END,
  CASE k WHEN 'later' THEN timestamp '2026-11-24 15:00' + (i % 19) * interval '4 hours 30 minutes' WHEN 'retry' THEN timestamp '2026-11-24 11:59' + (i % 4) * interval '5 minutes' ELSE c END,
  CASE k WHEN 'done' THEN c + (3 + i % 55) * interval '1 second' END,
  CASE i % 4 WHEN 0 THEN 'sendEmail' WHEN 1 THEN 'sendWebhook' WHEN 2 THEN 'triggerHostNoShowWebhook' ELSE 'sendSms' END,
  '{"bookingUid":"' || md5('b' || i % 31) || '","userId":' || 1 + i % 6 || '}',
  CASE k WHEN 'done' THEN CASE WHEN i % 15 = 0 THEN 2 ELSE 1 END WHEN 'dead' THEN m WHEN 'retry' THEN 1 + i % 2 ELSE 0 END,
  m,
  CASE WHEN k IN ('dead', 'retry') OR (k = 'done' AND i % 15 = 0) THEN CASE i % 3 WHEN 0 THEN 'fetch failed' WHEN 1 THEN 'Webhook responded with status 500' ELSE 'Booking not found' END END,
  CASE WHEN k = 'dead' THEN c + interval '16 minutes' WHEN k = 'retry' THEN timestamp '2026-11-24 11:56:01' WHEN k = 'done' AND i % 15 = 0 THEN c + interval '2 seconds' END,
  CASE WHEN i % 4 = 2 THEN md5('ref' || i)::uuid::text END
FROM (
  SELECT i, CASE WHEN i % 4 = 1 THEN 10 ELSE 3 END AS m,
    CASE WHEN i <= 131 THEN timestamp '2026-11-08 03:12:09.412' + i * interval '2 hours 55 minutes' ELSE timestamp '2026-11-24 11:15:00.109' + (i - 131) * interval '2 minutes' END AS c,
    CASE WHEN i <= 131 AND i % 18 = 10 THEN 'dead' WHEN i <= 131 THEN 'done' WHEN i <= 136 THEN 'retry' WHEN i <= 140 THEN 'new' ELSE 'later' END AS k
  FROM generate_series(1, 150) i) s ORDER BY i;
