-- dialect: sqlite
CREATE TABLE channel (chanid INTEGER NOT NULL DEFAULT 0 PRIMARY KEY, channum VARCHAR(10) NOT NULL DEFAULT '', sourceid INTEGER DEFAULT NULL, callsign VARCHAR(20) NOT NULL DEFAULT '', name VARCHAR(64) NOT NULL DEFAULT '', visible INTEGER NOT NULL DEFAULT 1);
INSERT INTO channel VALUES (1002, '2', 1, 'KLOC', 'Local Two', 1), (1005, '5', 1, 'KNEWS', 'News Five', 1), (1009, '9', 1, 'KFILM', 'Film Nine', 1), (1013, '13', 1, 'KIDS', 'Kids', 1);
CREATE TABLE settings (value VARCHAR(128) NOT NULL DEFAULT '', data VARCHAR(16000) NOT NULL DEFAULT '', hostname VARCHAR(64) DEFAULT NULL);
INSERT INTO settings VALUES ('JobQueueMaxSimultaneousJobs', '1', 'mythbox'), ('UserJob1', '/usr/local/bin/archive.sh %DIR% %FILE%', NULL), ('UserJobDesc1', 'Archive to NAS', NULL), ('DeferAutoTranscodeDays', '1', NULL);

CREATE TABLE jobqueue (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  chanid INTEGER NOT NULL DEFAULT 0,
  starttime DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  inserttime DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  type INTEGER NOT NULL DEFAULT 0,
  cmds INTEGER NOT NULL DEFAULT 0,
  flags INTEGER NOT NULL DEFAULT 0,
  status INTEGER NOT NULL DEFAULT 0,
  statustime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  hostname VARCHAR(64) NOT NULL DEFAULT '',
  args BLOB NOT NULL,
  comment VARCHAR(128) NOT NULL DEFAULT '',
  schedruntime DATETIME NOT NULL DEFAULT '2007-01-01 00:00:00',
  UNIQUE (chanid, starttime, type, inserttime)
);

-- finished rows stay for two days, errored ones for four; commercial flagging at once, transcoding from midnight of the next day, user job 1 for some
WITH RECURSIVE r(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM r WHERE g < 126),
rec AS (SELECT g, strftime('%s', '2026-11-20 13:10:00') + g * 2700 + (g % 4) * 300 AS e, 1002 + (g * 5) % 4 * 4 - CASE (g * 5) % 4 WHEN 1 THEN 1 WHEN 2 THEN 1 WHEN 3 THEN 1 ELSE 0 END AS ch FROM r),
j(g, e, ch, type) AS (SELECT g, e, ch, 2 FROM rec UNION ALL SELECT g, e, ch, 1 FROM rec WHERE g % 2 = 0 UNION ALL SELECT g, e, ch, 256 FROM rec WHERE g % 5 = 1),
s AS (SELECT *, e + 2 AS ins, CASE type WHEN 1 THEN (e / 86400 + 1) * 86400 ELSE e + 2 END AS sched, CASE WHEN type = 2 AND g IN (31, 109) THEN 'err' WHEN type = 1 AND g IN (8, 22, 44) THEN 'err' WHEN type = 256 AND g IN (26, 86) THEN 'err' WHEN type = 2 AND g = 97 THEN 'abort' WHEN g = 102 AND type = 1 THEN 'cancel' ELSE '' END AS x FROM j),
q AS (SELECT *, CASE WHEN sched > strftime('%s', '2026-11-24 11:30:00') + 0 OR e > strftime('%s', '2026-11-24 11:20:00') + 0 THEN 'queued' WHEN type = 2 AND g = 125 THEN 'running' ELSE 'end' END AS w,
  CASE type WHEN 1 THEN sched + 900 + (g % 24) * 1500 WHEN 2 THEN ins + 1140 + (g * 37) % 700 ELSE ins + 2000 + (g * 53) % 600 END AS fin FROM s),
z AS (SELECT *, row_number() OVER (ORDER BY ins, CASE type WHEN 2 THEN 0 ELSE type END) AS rn FROM q)
INSERT INTO jobqueue (id, chanid, starttime, inserttime, type, cmds, flags, status, statustime, hostname, args, comment, schedruntime)
SELECT 24110 + rn, ch, datetime(e - 3600 + (g % 3) * 1800 - (g % 4) * 300, 'unixepoch'), datetime(ins, 'unixepoch'), type,
  CASE x WHEN 'abort' THEN 4 ELSE 0 END, 0,
  CASE w WHEN 'queued' THEN 1 WHEN 'running' THEN 4 ELSE CASE x WHEN 'err' THEN 304 WHEN 'abort' THEN 288 WHEN 'cancel' THEN 320 ELSE 272 END END,
  datetime(CASE w WHEN 'queued' THEN ins WHEN 'running' THEN strftime('%s', '2026-11-24 11:59:52') + 0 ELSE fin END, 'unixepoch'),
  CASE w WHEN 'queued' THEN '' ELSE CASE g % 6 WHEN 0 THEN 'mythslave' ELSE 'mythbox' END END, CAST('' AS BLOB),
  CASE w WHEN 'queued' THEN '' WHEN 'running' THEN '71% Completed @ 214.5632 fps.' ELSE CASE x
    WHEN 'err' THEN CASE type WHEN 2 THEN CASE g WHEN 31 THEN 'Unable to open file or init decoder' ELSE 'Failed with exit status 139' END WHEN 1 THEN CASE g WHEN 22 THEN 'Retry limit exceeded' ELSE 'exit status 232, job status was "Running"' END ELSE 'ERROR: User Job returned non-zero, check logs.' END
    WHEN 'abort' THEN 'Aborted by user' WHEN 'cancel' THEN 'Program has been deleted'
    ELSE CASE type WHEN 2 THEN CASE g % 9 WHEN 0 THEN '1 commercial break' ELSE (g % 9 + 1) || ' commercial breaks' END WHEN 1 THEN 'Autodetect: ' || (2 + g % 4) || '.' || (g % 10) || ' GB => ' || (600 + (g * 29) % 390) || '.' || (g % 7) || ' MB' ELSE 'Successfully Completed.' END END END,
  datetime(sched, 'unixepoch')
FROM z
WHERE w <> 'end' OR fin > strftime('%s', '2026-11-24 12:00:00') - CASE x WHEN 'err' THEN 4 ELSE 2 END * 86400
ORDER BY rn;
