-- dialect: postgres
CREATE TABLE "user" (
  id serial NOT NULL CONSTRAINT pk_user PRIMARY KEY,
  uuid varchar(36),
  username varchar(255) NOT NULL,
  email varchar(255) NOT NULL,
  verified boolean NOT NULL,
  organization boolean NOT NULL,
  robot boolean NOT NULL,
  invoice_email boolean NOT NULL,
  invalid_login_attempts integer NOT NULL DEFAULT 0,
  last_invalid_login timestamp without time zone NOT NULL,
  enabled boolean NOT NULL DEFAULT true
);
INSERT INTO "user" (uuid, username, email, verified, organization, robot, invoice_email, last_invalid_login) VALUES
 ('4d0f6f2e-0e57-4f0c-9a43-1d0a5f1c0a01', 'admin', 'admin@corp.example', true, false, false, false, '2026-05-04 08:11:09.220413'),
 ('4d0f6f2e-0e57-4f0c-9a43-1d0a5f1c0a02', 'platform', 'platform@corp.example', false, true, false, false, '2026-05-04 08:31:40.109377'),
 ('4d0f6f2e-0e57-4f0c-9a43-1d0a5f1c0a03', 'payments', 'payments@corp.example', false, true, false, false, '2026-05-06 12:02:55.801220'),
 ('4d0f6f2e-0e57-4f0c-9a43-1d0a5f1c0a04', 'platform+ci', 'platform+ci', true, false, true, false, '2026-05-06 12:10:18.334019');

CREATE TABLE queueitem (
  id serial NOT NULL,
  queue_name varchar(1024) NOT NULL,
  body text NOT NULL,
  available_after timestamp without time zone NOT NULL,
  available boolean NOT NULL,
  processing_expires timestamp without time zone,
  retries_remaining integer NOT NULL,
  state_id varchar(255) DEFAULT '' NOT NULL,
  CONSTRAINT pk_queueitem PRIMARY KEY (id)
);
CREATE INDEX queueitem_processing_expires_available ON queueitem (processing_expires, available);
CREATE INDEX queueitem_pe_aafter_qname_rremaining_available ON queueitem (processing_expires, available_after, queue_name, retries_remaining, available);
CREATE INDEX queueitem_pexpires_aafter_rremaining_available ON queueitem (processing_expires, available_after, retries_remaining, available);
CREATE INDEX queueitem_processing_expires_queue_name_available ON queueitem (processing_expires, queue_name, available);
CREATE INDEX queueitem_queue_name ON queueitem (queue_name);
CREATE UNIQUE INDEX queueitem_state_id ON queueitem (state_id);

-- a: notifications of two dead webhooks, given up after five tries (those not touched for a day are cleaned up by night, when there are fifty of them)
-- b: replication of blobs: one region has been down since 11:22; c: GC of deleted repositories and namespaces, due later; d: the last seconds; e: two in progress; one of a worker that was killed
INSERT INTO queueitem (id, queue_name, body, available_after, available, processing_expires, retries_remaining, state_id)
SELECT id, queue_name, body, available_after, available, processing_expires, retries_remaining, overlay(overlay(md5('qi' || id) placing '4' from 13) placing 'b' from 17)::uuid::text
FROM (SELECT 872000 + n * 79 + n * n % 41 AS id, p.* FROM (SELECT row_number() OVER (ORDER BY c) AS n, o.* FROM (
  SELECT c, 'notification/' || ns || '/' || repo || '/' AS queue_name,
    json_build_object('notification_uuid', md5('nu' || g % 2)::uuid, 'event_data', json_build_object('repository', ns || '/' || repo, 'namespace', ns, 'name', repo, 'docker_url', 'quay.corp.example/' || ns || '/' || repo, 'updated_tags', json_build_array('build-' || 2200 + g)), 'performer_data', json_build_object('performer', 'platform+ci'))::text AS body,
    c + least(t, 5) * interval '41.207113 seconds' AS available_after, true AS available, c + least(t, 5) * interval '41.207113 seconds' - interval '0.8117 seconds' * (1 + g % 3) AS processing_expires, 5 - least(t, 5) AS retries_remaining
  FROM (SELECT g, c, CASE WHEN g % 2 = 0 THEN 'platform' ELSE 'payments' END AS ns, CASE WHEN g % 2 = 0 THEN 'gateway' ELSE 'ledger' END AS repo, 1 + floor(extract(epoch FROM timestamp '2026-11-24 11:59:59' - c) / 41.3)::int AS t
    FROM (SELECT g, CASE WHEN g > 83 THEN timestamp '2026-11-24 11:57:20.308811' + (g - 84) * interval '51.117 seconds' ELSE timestamp '2026-11-23 01:40:41.551203' + g * interval '24 minutes 9.4177 seconds' END AS c FROM generate_series(1, 86) g) v) w
  UNION ALL
  SELECT c, 'imagestoragereplication/' || md5('st' || g)::uuid || '/', json_build_object('namespace_user_id', 2 + g % 2, 'storage_id', md5('st' || g)::uuid)::text,
    CASE WHEN t = 0 THEN c ELSE c + t * interval '309.4133 seconds' END, true, CASE WHEN t > 0 THEN c + t * interval '309.4133 seconds' - interval '6.02 seconds' - (g % 7) * interval '0.4171 seconds' END, 5 - t
  FROM (SELECT g, c, least(5, CASE WHEN g > 66 THEN 0 ELSE 1 + floor(extract(epoch FROM timestamp '2026-11-24 11:59:50' - c) / 309.5)::int END) AS t FROM (SELECT g, timestamp '2026-11-24 11:22:31.110482' + g * interval '26.3071 seconds' + (g / 12) * interval '80 seconds' AS c FROM generate_series(1, 70) g) v) w
  UNION ALL
  SELECT timestamp '2026-11-20 08:00:00' + g * interval '17 hours', CASE g % 4 WHEN 0 THEN 'namespacegc/' || 90 + g || '/' ELSE 'repositorygc/' || 3100 + g || '/' || 'old-' || g || '/' END, CASE g % 4 WHEN 0 THEN json_build_object('marker_id', 20 + g, 'original_username', 'team' || g) ELSE json_build_object('marker_id', 400 + g, 'original_name', 'old-' || g) END::text,
    timestamp '2026-11-24 14:40:12.337109' + g * interval '9 hours 12 minutes 3.0717 seconds', true, NULL, 5
  FROM generate_series(1, 5) g
  UNION ALL
  SELECT timestamp '2026-11-24 11:59:49.610227' + g * interval '0.803317 seconds', CASE WHEN g % 4 = 3 THEN 'exportactionlogs/platform/' ELSE 'notification/platform/' || (ARRAY['base', 'worker', 'web'])[1 + g % 3] || '/' END,
    CASE WHEN g % 4 = 3 THEN json_build_object('export_id', md5('ex' || g)::uuid, 'repository_id', 41, 'namespace_id', 2, 'start_time', '10/24/2026', 'end_time', '11/24/2026') ELSE json_build_object('notification_uuid', md5('nv' || g % 3)::uuid, 'event_data', json_build_object('repository', 'platform/' || (ARRAY['base', 'worker', 'web'])[1 + g % 3]), 'performer_data', json_build_object('performer', 'platform+ci')) END::text,
    timestamp '2026-11-24 11:59:49.610227' + g * interval '0.803317 seconds', true, NULL, 5
  FROM generate_series(1, 12) g
  UNION ALL
  VALUES (timestamp '2026-11-24 11:59:40.218004', 'notification/platform/web/', '{"notification_uuid": "7e0b6a52-4f0b-4c93-a0c7-0a51d6a3c1d2", "event_data": {"repository": "platform/web"}, "performer_data": {}}', timestamp '2026-11-24 11:59:40.218004', false, timestamp '2026-11-24 12:00:25.902118', 4),
    (timestamp '2026-11-24 11:58:12.700611', 'exportactionlogs/payments/', '{"export_id": "0f2d1b64-9a51-4c8e-8f0e-2b7c5d9e1a20", "repository_id": null, "namespace_id": 3, "start_time": "11/01/2026", "end_time": "11/24/2026"}', timestamp '2026-11-24 11:58:12.700611', false, timestamp '2026-11-24 12:03:31.004410', 4),
    (timestamp '2026-11-24 11:38:59.417718', 'exportactionlogs/platform/', '{"export_id": "c41b8e02-77d0-4a3f-b5a1-90de11f0c7aa", "repository_id": 12, "namespace_id": 2, "start_time": "11/01/2026", "end_time": "11/20/2026"}', timestamp '2026-11-24 11:49:20.031207', false, timestamp '2026-11-24 11:59:46.417718', 3)
) o(c, queue_name, body, available_after, available, processing_expires, retries_remaining)) p) q
ORDER BY id;
SELECT setval('queueitem_id_seq', (SELECT max(id) FROM queueitem));
