-- dialect: sqlite
CREATE TABLE "rpush_apps" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "name" varchar NOT NULL, "environment" varchar, "certificate" text, "password" varchar, "connections" integer DEFAULT 1 NOT NULL, "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL, "type" varchar NOT NULL, "auth_key" varchar, "client_id" varchar, "client_secret" varchar, "access_token" varchar, "access_token_expiration" datetime, "apn_key" text, "apn_key_id" varchar, "team_id" varchar, "bundle_id" varchar, "feedback_enabled" boolean DEFAULT 1, "firebase_project_id" varchar, "json_key" text);
INSERT INTO "rpush_apps" (id, name, environment, connections, created_at, updated_at, type, apn_key, apn_key_id, team_id, bundle_id, firebase_project_id, json_key) VALUES
 (1, 'ios_app', 'production', 1, '2026-08-30 13:02:11.401877', '2026-08-30 13:02:11.401877', 'Rpush::Client::ActiveRecord::Apnsp8::App', '-----BEGIN PRIVATE KEY-----', 'AB12CD34EF', 'T9876X5432', 'example.shop.ios', NULL, NULL),
 (2, 'android_app', NULL, 1, '2026-08-30 13:05:40.220134', '2026-08-30 13:05:40.220134', 'Rpush::Client::ActiveRecord::Fcm::App', NULL, NULL, NULL, NULL, 'shop-example', '{}');
CREATE TABLE "rpush_feedback" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "device_token" varchar, "failed_at" datetime NOT NULL, "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL, "app_id" integer);

CREATE TABLE "rpush_notifications" (
  "id" integer PRIMARY KEY AUTOINCREMENT NOT NULL,
  "badge" integer,
  "device_token" varchar,
  "sound" varchar,
  "alert" text,
  "data" text,
  "expiry" integer DEFAULT 86400,
  "delivered" boolean DEFAULT 0 NOT NULL,
  "delivered_at" datetime,
  "failed" boolean DEFAULT 0 NOT NULL,
  "failed_at" datetime,
  "error_code" integer,
  "error_description" text,
  "deliver_after" datetime,
  "created_at" datetime(6) NOT NULL,
  "updated_at" datetime(6) NOT NULL,
  "alert_is_json" boolean DEFAULT 0 NOT NULL,
  "type" varchar NOT NULL,
  "collapse_key" varchar,
  "delay_while_idle" boolean DEFAULT 0 NOT NULL,
  "registration_ids" text,
  "app_id" integer NOT NULL,
  "retries" integer DEFAULT 0,
  "uri" varchar,
  "fail_after" datetime,
  "processing" boolean DEFAULT 0 NOT NULL,
  "priority" integer,
  "url_args" text,
  "category" varchar,
  "content_available" boolean DEFAULT 0 NOT NULL,
  "notification" text,
  "mutable_content" boolean DEFAULT 0 NOT NULL,
  "external_device_id" varchar,
  "thread_id" varchar,
  "dry_run" boolean DEFAULT 0 NOT NULL,
  "sound_is_json" boolean DEFAULT 0
);
CREATE INDEX "index_rpush_notifications_multi" ON "rpush_notifications" ("delivered", "failed", "processing", "deliver_after", "created_at") WHERE NOT delivered AND NOT failed;

-- FCM answers 503 since 11:43 (waits of 2, 4, 8 ... seconds). Some notifications are written in advance, with deliver_after.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 268),
tries(k, start, wait) AS (SELECT 1, 2, 2 UNION ALL SELECT k + 1, start + wait + 2, wait * 2 FROM tries WHERE k < 12),
a AS (SELECT i, (i * 7 % 5 < 3) AS fcm, (i <= 236 AND i % 12 = 7) AS ahead,
  CASE WHEN i <= 210 THEN strftime('%s', '2026-10-12 07:12:20') + i * 17480 + (i * 389) % 9000 WHEN i <= 236 THEN strftime('%s', '2026-11-24 06:10:00') + (i - 210) * 760 + (i * 53) % 300 WHEN i <= 258 THEN strftime('%s', '2026-11-24 11:43:10') + (i - 237) * 46 + (i * 13) % 31 ELSE strftime('%s', '2026-11-24 11:59:52') + (i - 258) * 7 / 10 END AS c FROM n),
b AS (SELECT i, fcm, ahead, c,
  CASE WHEN ahead AND i % 24 = 7 THEN (c / 86400 + 1) * 86400 + 61200 WHEN ahead THEN c + 14400 END AS after0,
  CASE WHEN i = 158 THEN 'stuck' WHEN i IN (259, 260) THEN 'busy' WHEN i >= 261 THEN 'new'
    WHEN i > 236 AND fcm THEN 'retry' WHEN i = 257 THEN 'retry10' WHEN i % 29 = 11 THEN 'gone' WHEN i % 61 = 20 THEN 'bad' ELSE 'done' END AS k0 FROM a),
d AS (SELECT i, fcm, ahead, c, after0, CASE WHEN after0 >= strftime('%s', '2026-11-24 12:00:00') + 0 THEN 'later' ELSE k0 END AS k FROM b),
e AS (SELECT i, fcm, ahead, c, after0, d.k, CASE WHEN after0 IS NOT NULL THEN after0 + 1 + i % 2 ELSE c + 1 + i % 2 END AS t,
  CASE d.k WHEN 'retry' THEN (SELECT max(tries.k) FROM tries WHERE start <= strftime('%s', '2026-11-24 11:59:58') - c) WHEN 'retry10' THEN 4 WHEN 'done' THEN CASE WHEN i % 37 = 9 THEN 1 + i % 2 ELSE 0 END ELSE 0 END AS r FROM d),
f AS (SELECT i, fcm, c, k, r, CASE k WHEN 'retry' THEN c + (SELECT start FROM tries WHERE tries.k = r) WHEN 'retry10' THEN strftime('%s', '2026-11-24 11:59:53') + 0 ELSE t + r * 10 END AS t,
  CASE k WHEN 'retry' THEN c + (SELECT start + wait FROM tries WHERE tries.k = r) WHEN 'retry10' THEN strftime('%s', '2026-11-24 12:00:03') + 0 ELSE CASE WHEN r > 0 THEN t + r * 10 - 2 ELSE after0 END END AS da FROM e)
INSERT INTO "rpush_notifications" (id, badge, device_token, sound, alert, data, delivered, delivered_at, failed, failed_at, error_code, error_description, deliver_after, created_at, updated_at, type, app_id, retries, processing, priority, notification)
SELECT 1840 + i, CASE WHEN NOT fcm THEN 1 + i % 3 END,
  CASE WHEN fcm THEN printf('e%05x:APA91b%08x%08x', i * 40503 % 1048576, i * 2654435761 % 4294967296, i * 97 % 61 * 70368744 % 4294967296) ELSE printf('%08x%08x%08x%08x%08x%08x%08x%08x', i * 2654435761 % 4294967296, i * 40503977 % 4294967296, i * 613613 % 4294967296, i * 271828183 % 4294967296, i * 314159265 % 4294967296, i * 161803398 % 4294967296, i * 141421356 % 4294967296, i * 173205080 % 4294967296) END,
  CASE WHEN NOT fcm THEN 'default' END, CASE WHEN NOT fcm THEN 'Your order ' || (70210 + i) || ' is on its way' END,
  '{"order_id":"' || (70210 + i) || '","kind":"' || CASE i % 3 WHEN 0 THEN 'shipped' WHEN 1 THEN 'reminder' ELSE 'message' END || '"}',
  k = 'done', CASE WHEN k = 'done' THEN datetime(t, 'unixepoch') || printf('.%06d', (i * 7919113) % 900000 + 90000) END,
  k IN ('gone', 'bad'), CASE WHEN k IN ('gone', 'bad') THEN datetime(t, 'unixepoch') || printf('.%06d', (i * 7919113) % 900000 + 90000) END,
  CASE WHEN k = 'gone' THEN CASE WHEN fcm THEN 404 ELSE 410 END WHEN k = 'bad' THEN 400 END,
  CASE WHEN k = 'gone' AND fcm THEN 'Unable to deliver notification ' || (1840 + i) || ', received error 404 (Client was not registered for your app. (NOT_FOUND: Requested entity was not found.))' WHEN k = 'gone' THEN 'Unregistered'
    WHEN k = 'bad' AND fcm THEN 'Unable to deliver notification ' || (1840 + i) || ', received error 400 (FCM failed to handle the JSON request. (INVALID_ARGUMENT: The registration token is not a valid FCM registration token))' WHEN k = 'bad' THEN 'BadDeviceToken' END,
  CASE WHEN da IS NOT NULL THEN datetime(da, 'unixepoch') || CASE WHEN r > 0 THEN printf('.%06d', (i * 104729) % 1000000) ELSE '' END END,
  datetime(c, 'unixepoch') || printf('.%06d', CASE WHEN i > 258 THEN (i - 258) * 7 % 10 * 100000 + i * 37 ELSE (i * 617283) % 1000000 END),
  CASE WHEN k IN ('new', 'later') THEN datetime(c, 'unixepoch') || printf('.%06d', CASE WHEN i > 258 THEN (i - 258) * 7 % 10 * 100000 + i * 37 ELSE (i * 617283) % 1000000 END) WHEN k = 'busy' THEN '2026-11-24 11:59:54.310772' ELSE datetime(t, 'unixepoch') || printf('.%06d', (i * 13) % 80000) END,
  CASE WHEN fcm THEN 'Rpush::Client::ActiveRecord::Fcm::Notification' ELSE 'Rpush::Client::ActiveRecord::Apnsp8::Notification' END,
  CASE WHEN fcm THEN 2 ELSE 1 END, r, k IN ('busy', 'stuck'), CASE WHEN fcm THEN 10 END,
  CASE WHEN fcm THEN '{"title":"Order","body":"Your order ' || (70210 + i) || ' is on its way"}' END
FROM f ORDER BY i;
INSERT INTO "rpush_feedback" (device_token, failed_at, created_at, updated_at, app_id) SELECT device_token, failed_at, failed_at, failed_at, app_id FROM "rpush_notifications" WHERE error_code = 410;
