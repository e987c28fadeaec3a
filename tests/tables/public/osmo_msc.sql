-- dialect: sqlite
CREATE TABLE Meta (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, value TEXT NOT NULL);
INSERT INTO Meta (key, value) VALUES ('revision', '6');
CREATE TABLE Counters (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TIMESTAMP NOT NULL, value INTEGER NOT NULL, name TEXT NOT NULL);

CREATE TABLE SMS (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created TIMESTAMP NOT NULL,
  sent TIMESTAMP,
  deliver_attempts INTEGER NOT NULL DEFAULT 0,
  valid_until TIMESTAMP,
  reply_path_req INTEGER NOT NULL,
  status_rep_req INTEGER NOT NULL,
  is_report INTEGER NOT NULL,
  msg_ref INTEGER NOT NULL,
  protocol_id INTEGER NOT NULL,
  data_coding_scheme INTEGER NOT NULL,
  ud_hdr_ind INTEGER NOT NULL,
  src_addr TEXT NOT NULL,
  src_ton INTEGER NOT NULL,
  src_npi INTEGER NOT NULL,
  dest_addr TEXT NOT NULL,
  dest_ton INTEGER NOT NULL,
  dest_npi INTEGER NOT NULL,
  user_data BLOB,
  header BLOB,
  text TEXT
);
-- "database delete-delivered 0": delivered messages stay until they expire (valid_until, mostly seven days; some phones ask for 63 weeks)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 286),
a AS (SELECT i, CASE
    WHEN i <= 38 THEN strftime('%s', '2026-10-06 06:11:40') + i * 93400 + (i * 7103) % 41000
    WHEN i <= 278 THEN strftime('%s', '2026-11-17 12:04:31') + (i - 38) * 2490 + (i * 331) % 1900
    ELSE strftime('%s', '2026-11-24 11:55:10') + (i - 278) * 35 + i % 7 END AS c,
  CASE WHEN i <= 38 THEN 635040 WHEN i > 246 AND i % 9 = 4 THEN 1440 WHEN i % 11 = 3 THEN 635040 ELSE 10080 END AS vp,
  CASE WHEN i IN (283, 285, 286) THEN 'wait' WHEN i <= 38 AND i % 9 = 5 THEN 'gone' WHEN i <= 278 AND i % 13 = 6 THEN 'gone' WHEN i > 262 AND i % 5 = 2 THEN 'gone' ELSE 'sent' END AS k FROM n),
b AS (SELECT *, CASE k WHEN 'wait' THEN 0 WHEN 'gone' THEN CASE i % 4 WHEN 0 THEN 0 WHEN 1 THEN 1 + i % 3 WHEN 2 THEN 2 ELSE CASE WHEN i < 60 THEN 10 ELSE 4 END END ELSE CASE WHEN i % 17 = 2 THEN 1 WHEN i % 29 = 3 THEN 2 ELSE 0 END END AS att FROM a)
INSERT INTO SMS (id, created, sent, deliver_attempts, valid_until, reply_path_req, status_rep_req, is_report, msg_ref, protocol_id, data_coding_scheme, ud_hdr_ind, src_addr, src_ton, src_npi, dest_addr, dest_ton, dest_npi, user_data, text)
SELECT CASE WHEN i <= 38 THEN 20117 + i * 88 + i % 5 ELSE 23560 + i END,
  datetime(c, 'unixepoch'),
  CASE k WHEN 'sent' THEN datetime(c + CASE WHEN att > 0 THEN 1900 * att + i * 37 % 9000 WHEN i % 12 = 1 AND i < 270 THEN 5400 + i * 91 % 20000 ELSE 2 + i % 6 END, 'unixepoch') END,
  att, datetime(c + vp * 60, 'unixepoch'),
  0, i % 8 = 1, 0, (i * 7) % 256, 0, CASE WHEN i % 10 = 7 THEN 8 ELSE 0 END, 0,
  CASE WHEN i % 14 = 0 THEN '2222' ELSE '8210' || (1000 + (i * 37) % 60) END, CASE WHEN i % 14 = 0 THEN 0 ELSE 2 END, 1,
  CASE k WHEN 'gone' THEN '8210' || (1070 + i % 9) ELSE '8210' || (1000 + (i * 53 + 7) % 60) END, 2, 1,
  CAST(printf('%c%c%08X', 200 - i % 60, 50 + i % 70, i * 2654435) AS BLOB),
  CASE WHEN i % 10 = 7 THEN '' ELSE CASE i % 5 WHEN 0 THEN 'Are you at the co-op tomorrow?' WHEN 1 THEN 'Ok' WHEN 2 THEN 'Generator fuel arrives at ' || (8 + i % 9) || 'h' WHEN 3 THEN 'call me please' ELSE 'Market is open until ' || (15 + i % 4) || ':30' END END
FROM b ORDER BY i;
