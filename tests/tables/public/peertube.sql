-- dialect: postgres
CREATE TABLE runner (
  id SERIAL PRIMARY KEY,
  "runnerToken" VARCHAR(255) NOT NULL,
  name VARCHAR(255) NOT NULL,
  description VARCHAR(1000),
  "lastContact" TIMESTAMP WITH TIME ZONE NOT NULL,
  ip VARCHAR(255) NOT NULL,
  "createdAt" TIMESTAMP WITH TIME ZONE NOT NULL,
  "updatedAt" TIMESTAMP WITH TIME ZONE NOT NULL
);
INSERT INTO runner VALUES (1, 'ptrt-5b0f3c1e-7a42-4d19-9be2-0c6d51f7a811', 'gpu-box', 'basement', '2026-11-24 11:59:49.117+00', '192.0.2.14', '2026-09-02 10:00:12.401+00', '2026-11-24 11:59:49.117+00'), (2, 'ptrt-c27e9d44-1f08-4e6b-8a35-77b1e0d29c03', 'vps-2', NULL, '2026-11-24 11:59:52.640+00', '198.51.100.7', '2026-10-11 17:31:44.090+00', '2026-11-24 11:59:52.640+00');
CREATE UNIQUE INDEX runner_runner_token ON runner ("runnerToken");
CREATE UNIQUE INDEX runner_name ON runner (name);

CREATE TABLE "runnerJob" (
  "id" SERIAL,
  "uuid" UUID NOT NULL,
  "type" VARCHAR(255) NOT NULL,
  "payload" JSONB NOT NULL,
  "privatePayload" JSONB NOT NULL,
  "state" INTEGER NOT NULL,
  "failures" INTEGER NOT NULL DEFAULT 0,
  "error" VARCHAR(5000),
  "priority" INTEGER NOT NULL,
  "processingJobToken" VARCHAR(255),
  "progress" INTEGER,
  "startedAt" TIMESTAMP WITH TIME ZONE,
  "finishedAt" TIMESTAMP WITH TIME ZONE,
  "createdAt" TIMESTAMP WITH TIME ZONE NOT NULL,
  "updatedAt" TIMESTAMP WITH TIME ZONE NOT NULL,
  "dependsOnRunnerJobId" INTEGER REFERENCES "runnerJob" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
  "runnerId" INTEGER REFERENCES "runner" ("id") ON DELETE SET NULL ON UPDATE CASCADE,
  PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX runner_job_uuid ON "runnerJob" ("uuid");
CREATE UNIQUE INDEX runner_job_processing_job_token ON "runnerJob" ("processingJobToken");
CREATE INDEX runner_job_runner_id ON "runnerJob" ("runnerId");
CREATE INDEX runner_job_depends_on_runner_job_id ON "runnerJob" ("dependsOnRunnerJobId");

-- v: an uploaded video with its five jobs: 1 vod-web-video-transcoding, 2-4 vod-hls-transcoding (wait for 1), 5 video-transcription or generate-video-storyboard; every 12th is a live stream instead (one job)
WITH a AS (
  SELECT v, k, CASE WHEN v <= 46 THEN timestamptz '2026-10-09 06:40:11.204+00' + v * interval '23 hours 17 minutes 5.311 seconds' + (v * v % 89) * interval '3.071 minutes'
      ELSE timestamptz '2026-11-24 11:00:00+00' + (ARRAY[interval '18 minutes 22.907 seconds', '41 minutes 9.330 seconds', '54 minutes 51.118 seconds', '58 minutes 36.742 seconds'])[v - 46] END + (k - 1) * interval '31 milliseconds' AS c,
    v % 12 = 7 AND v <= 46 AS live
  FROM generate_series(1, 50) v, generate_series(1, 5) k
), b AS (
  SELECT *, CASE WHEN live THEN CASE WHEN v = 31 THEN 4 ELSE 3 END
      WHEN v <= 46 THEN CASE WHEN v IN (11, 28) THEN CASE k WHEN 1 THEN 4 WHEN 5 THEN 3 ELSE 7 END
        WHEN v IN (22) THEN CASE k WHEN 1 THEN 6 WHEN 5 THEN 6 ELSE 8 END
        WHEN k = 5 AND v % 14 = 3 THEN 4 WHEN v = 40 AND k = 4 THEN 6 ELSE 3 END
      WHEN v = 47 THEN (ARRAY[3, 9, 2, 1, 1])[k]
      WHEN v = 48 THEN (ARRAY[2, 5, 5, 5, 1])[k]
      ELSE (ARRAY[1, 5, 5, 5, 1])[k] END AS st
  FROM a WHERE NOT live OR k = 1
), d AS (
  SELECT *, 1207 + ROW_NUMBER() OVER (ORDER BY v, k) AS id,
    CASE st WHEN 4 THEN CASE WHEN live THEN 1 ELSE 5 END WHEN 1 THEN CASE WHEN v = 47 AND k = 4 THEN 2 WHEN v = 47 THEN 3 WHEN v = 48 THEN 1 ELSE 0 END WHEN 3 THEN CASE WHEN (v * 5 + k) % 23 = 4 AND NOT live THEN 1 + v % 3 ELSE 0 END ELSE 0 END AS f
  FROM b
), e AS (
  SELECT *, first_value(id) OVER (PARTITION BY v ORDER BY k) AS root,
    CASE WHEN st IN (1, 5, 7, 8) OR st = 6 AND k > 1 THEN NULL WHEN v = 47 THEN c + (ARRAY[interval '4.4 seconds', '17 minutes 12.1 seconds', '31 minutes 50.8 seconds'])[k] WHEN v = 48 THEN timestamptz '2026-11-24 11:52:31.405+00'
      ELSE c + (CASE k WHEN 1 THEN 4 WHEN 5 THEN 70 ELSE 700 + 400 * (k - 2) END + f * 95 + (v * 13 % 17)) * interval '1.003 seconds' END AS s,
    md5('job' || v || '.' || k) AS m, md5('video' || v) AS vm, md5('token' || v || '.' || k) AS tm
  FROM d
), g AS (
  SELECT *, CASE WHEN st IN (1, 2, 5, 9) THEN NULL WHEN st IN (7, 8) THEN NULL WHEN st = 6 AND k > 1 THEN c + interval '9 minutes 3.118 seconds'
    ELSE s + CASE WHEN st = 4 THEN 41 WHEN st = 6 THEN 130 WHEN live THEN 5400 + v * 17 ELSE 215 + (v * 37 + k * 71) % 170 END * interval '1.007 seconds' END AS fin0 FROM e
), h AS (
  SELECT *, CASE WHEN st IN (7, 8) THEN first_value(fin0) OVER (PARTITION BY v ORDER BY k) + k * interval '12 milliseconds' ELSE fin0 END AS fin, first_value(fin0) OVER (PARTITION BY v ORDER BY k) AS rootfin FROM g
)
INSERT INTO "runnerJob"
SELECT id, (substr(m, 1, 8) || '-' || substr(m, 9, 4) || '-4' || substr(m, 14, 3) || '-a' || substr(m, 18, 3) || '-' || substr(m, 21, 12))::uuid,
  CASE WHEN live THEN 'live-rtmp-hls-transcoding' WHEN k = 1 THEN 'vod-web-video-transcoding' WHEN k < 5 THEN 'vod-hls-transcoding' WHEN v % 2 = 0 THEN 'generate-video-storyboard' ELSE 'video-transcription' END,
  jsonb_build_object('input', jsonb_build_object('videoFileUrl', 'https://tube.example/api/v1/runners/jobs/' || substr(m, 1, 8) || '/files/videos/max-quality')) || CASE WHEN k < 5 AND NOT live THEN jsonb_build_object('output', jsonb_build_object('resolution', (ARRAY[1080, 1080, 720, 480])[k], 'fps', 30)) ELSE '{}' END,
  jsonb_build_object('videoUUID', substr(vm, 1, 8) || '-' || substr(vm, 9, 4) || '-4' || substr(vm, 14, 3) || '-b' || substr(vm, 18, 3) || '-' || substr(vm, 21, 12)) || CASE WHEN k < 5 AND NOT live THEN '{"isNewVideo": true, "deleteWebVideoFiles": false}'::jsonb ELSE '{}' END,
  st, f,
  CASE WHEN st = 7 THEN 'Parent error' WHEN st = 4 AND live THEN 'Live ended abnormally: ffmpeg exited with code 1' WHEN st = 4 AND k = 1 THEN 'ffmpeg exited with code 234: Error opening output file: Invalid argument' WHEN st = 4 THEN 'Cannot download file: Response code 502 (Bad Gateway)' END,
  CASE WHEN live THEN 0 WHEN k = 5 THEN 110 ELSE 100 + v % 4 + k / 2 END,
  CASE WHEN st IN (2, 3, 9) THEN 'ptrjt-' || substr(tm, 1, 8) || '-' || substr(tm, 9, 4) || '-4' || substr(tm, 14, 3) || '-9' || substr(tm, 18, 3) || '-' || substr(tm, 21, 12) END,
  CASE WHEN st = 2 THEN CASE v WHEN 47 THEN 61 ELSE 34 END WHEN st = 9 THEN 99 WHEN st = 4 AND k = 1 AND NOT live THEN 12 WHEN st = 6 AND k = 1 THEN 48 END,
  s, fin, c,
  CASE WHEN fin IS NOT NULL THEN fin + interval '1 millisecond' WHEN st = 9 THEN timestamptz '2026-11-24 11:59:51.302+00' WHEN st = 2 THEN timestamptz '2026-11-24 11:59:48.771+00' + k * interval '0.9 seconds'
    WHEN f > 0 THEN timestamptz '2026-11-24 11:56:13.509+00' + k * interval '31.2 seconds' WHEN k BETWEEN 2 AND 4 AND rootfin IS NOT NULL THEN rootfin ELSE c END,
  CASE WHEN k BETWEEN 2 AND 4 THEN root END,
  CASE WHEN s IS NOT NULL THEN CASE WHEN k = 5 OR v % 3 = 0 THEN 2 ELSE 1 END END
FROM h ORDER BY id;
SELECT setval('"runnerJob_id_seq"', (SELECT max(id) FROM "runnerJob"));
