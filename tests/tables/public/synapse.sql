-- dialect: sqlite
CREATE TABLE schema_version (Lock CHAR(1) NOT NULL DEFAULT 'X' UNIQUE, version INTEGER NOT NULL, upgraded BOOL NOT NULL, CHECK (Lock = 'X'));
INSERT INTO schema_version VALUES ('X', 88, 1);
CREATE TABLE users (name TEXT, password_hash TEXT, creation_ts BIGINT, admin SMALLINT DEFAULT 0 NOT NULL, deactivated SMALLINT DEFAULT 0 NOT NULL, UNIQUE (name));
INSERT INTO users VALUES ('@admin:hs.example', '$2b$12$x', 1790841600, 1, 0), ('@ann:hs.example', '$2b$12$y', 1790845200, 0, 0), ('@bot:hs.example', NULL, 1790848800, 0, 1);
CREATE TABLE background_updates (update_name text NOT NULL, progress_json text NOT NULL, depends_on text, ordering INT NOT NULL DEFAULT 0, CONSTRAINT background_updates_uniqueness UNIQUE (update_name));
INSERT INTO background_updates VALUES ('event_stats_populate_counts_and_triggers', '{}', NULL, 9201);
CREATE TABLE rooms (room_id TEXT PRIMARY KEY NOT NULL, is_public BOOL, creator TEXT, room_version TEXT);
INSERT INTO rooms VALUES ('!aaa:hs.example', 0, '@admin:hs.example', '10'), ('!bbb:hs.example', 1, '@ann:hs.example', '11');

CREATE TABLE scheduled_tasks (
    id TEXT PRIMARY KEY,
    action TEXT NOT NULL,
    status TEXT NOT NULL,
    timestamp BIGINT NOT NULL,
    resource_id TEXT,
    params TEXT,
    result TEXT,
    error TEXT
);
CREATE INDEX scheduled_tasks_status ON scheduled_tasks (status);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 82),
k AS (SELECT i, (i * 2654435761) % 308915776 AS h, (i * 40503 * 7919) % 308915776 AS g,
    CASE WHEN i <= 66 AND i % 13 = 7 THEN 'failed' WHEN i <= 66 THEN 'complete' WHEN i <= 68 THEN 'active' ELSE 'scheduled' END AS st FROM n)
INSERT INTO scheduled_tasks (id, action, status, timestamp, resource_id, params, result, error)
SELECT char(97 + h % 26, 97 + h / 26 % 26, 65 + h / 676 % 26, 97 + h / 17576 % 26, 65 + h / 456976 % 26, 97 + h / 11881376 % 26, 97 + g % 26, 65 + g / 26 % 26, 97 + g / 676 % 26, 97 + g / 17576 % 26, 65 + g / 456976 % 26, 97 + g / 11881376 % 26, 97 + i % 26, 65 + i / 26, 97 + i * 7 % 26, 90 - i % 26),
  a, st,
  CASE st WHEN 'scheduled' THEN 1795521480000 + (i - 70) * 5400000 WHEN 'active' THEN 1795521300000 + i * 913 ELSE 1794930000000 + i * 8800000 + (i * 7919) % 1000 END,
  CASE a WHEN 'delete_device_messages' THEN 'DEVICE' || printf('%04d', i) ELSE '!room' || printf('%03d', i) || ':hs.example' END,
  CASE a WHEN 'delete_device_messages' THEN '{"user_id":"@ann:hs.example","device_id":"DEVICE' || printf('%04d', i) || '","up_to_stream_id":' || (88000 + i * 3) || '}' WHEN 'purge_history' THEN '{"room_id":"!room' || printf('%03d', i) || ':hs.example","token":"t' || (40 + i) || '-88000","delete_local_events":false}' ELSE '{"purge":true,"force_purge":false,"block":false,"requester_user_id":"@admin:hs.example"}' END,
  CASE WHEN st = 'complete' AND a = 'shutdown_and_purge_room' THEN '{"kicked_users":["@ann:hs.example"],"failed_to_kick_users":[],"local_aliases":[],"new_room_id":null}' END,
  CASE st WHEN 'failed' THEN CASE i % 2 WHEN 0 THEN 'Traceback (most recent call last): synapse.api.errors.SynapseError: 404: Unknown room' ELSE 'Traceback (most recent call last): psycopg2.errors.QueryCanceled: canceling statement' END END
FROM (SELECT k.*, CASE i % 3 WHEN 0 THEN 'delete_device_messages' WHEN 1 THEN 'purge_history' ELSE 'shutdown_and_purge_room' END AS a FROM k) ORDER BY i;
