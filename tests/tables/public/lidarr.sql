-- dialect: sqlite
CREATE TABLE "ScheduledTasks" ("Id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "TypeName" TEXT NOT NULL, "Interval" INTEGER NOT NULL, "LastExecution" DATETIME NOT NULL, "LastStartTime" DATETIME);
CREATE UNIQUE INDEX "IX_ScheduledTasks_TypeName" ON "ScheduledTasks" ("TypeName" ASC);
INSERT INTO "ScheduledTasks" ("TypeName", "Interval", "LastExecution", "LastStartTime") VALUES
  ('NzbDrone.Core.Messaging.Commands.MessagingCleanupCommand', 5, '2026-11-24 11:57:12.4416021Z', '2026-11-24 11:57:12.4301922Z'),
  ('NzbDrone.Core.Update.Commands.ApplicationUpdateCheckCommand', 360, '2026-11-24 08:22:11.1804455Z', '2026-11-24 08:22:10.6630182Z'),
  ('NzbDrone.Core.Music.Commands.RefreshArtistCommand', 1440, '2026-11-23 06:30:50.0911200Z', '2026-11-23 06:02:10.2281100Z'),
  ('NzbDrone.Core.Indexers.RssSyncCommand', 15, '2026-11-24 11:52:14.9923441Z', '2026-11-24 11:52:12.7123022Z'),
  ('NzbDrone.Core.Download.RefreshMonitoredDownloadsCommand', 1, '2026-11-24 11:57:12.5155365Z', '2026-11-24 11:57:12.2349331Z');

CREATE TABLE "Commands" ("Id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "Name" TEXT NOT NULL, "Body" TEXT NOT NULL, "Priority" INTEGER NOT NULL, "Status" INTEGER NOT NULL, "QueuedAt" DATETIME NOT NULL, "StartedAt" DATETIME, "EndedAt" DATETIME, "Duration" TEXT, "Exception" TEXT, "Trigger" INTEGER NOT NULL, "Result" INTEGER NOT NULL DEFAULT 1);

-- the machine was off in the night before; rows that ended more than a day ago are gone
INSERT INTO sqlite_sequence (name, seq) VALUES ('Commands', 118402);
CREATE TEMP TABLE c AS
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 219),
k(t, name, body, prio, trig, dur) AS (
  SELECT 132 + i * 60, 'RefreshMonitoredDownloads', '', 1, 2, 180 + (i * 7919) % 400 FROM n WHERE i <= 216
  UNION ALL SELECT 132 + i * 60 + 30, 'MessagingCleanup', '', 0, 2, 4 + (i * 31) % 23 FROM n WHERE i % 5 = 0 AND i <= 217
  UNION ALL SELECT 133 + i * 60, 'ImportListSync', '', 0, 2, 40 + (i * 71) % 900 FROM n WHERE i % 5 = 0 AND i <= 214
  UNION ALL SELECT 132 + i * 60, 'RssSync', '', 0, 2, 1800 + (i * 613) % 4000 FROM n WHERE i % 15 = 0 AND i <= 215
  UNION ALL SELECT 134, 'ApplicationUpdateCheck', '', 0, 2, 520 UNION ALL SELECT 134, 'CheckHealth', '', 0, 2, 3380
  UNION ALL SELECT 135, 'Housekeeping', '', 0, 2, 8120 UNION ALL SELECT 136, 'RescanFolders', '', 0, 2, 95210
  UNION ALL SELECT 4210 + i * 611, 'ProcessMonitoredDownloads', '', 1, 0, 900 + (i * 37) % 5000 FROM n WHERE i < 12
  UNION ALL SELECT 4990 + i * 37, 'AlbumSearch', ',
  "albumIds": [
    ' || (610 + i * 17) || '
  ]', 0, 1, 5300 + (i * 911) % 9000 FROM n WHERE i < 9
  UNION ALL SELECT 8470, 'RefreshArtist', ',
  "artistIds": [
    44
  ],
  "isNewArtist": true', 0, 1, 38420
)
SELECT k.*, row_number() OVER (ORDER BY t, prio DESC, name) AS r FROM k WHERE t < 13050;
INSERT INTO "Commands" ("Name", "Body", "Priority", "Status", "QueuedAt", "StartedAt", "EndedAt", "Duration", "Exception", "Trigger", "Result") VALUES
  ('RescanFolders', '{
  "addNewArtists": true,
  "requiresDiskAccess": true,
  "sendUpdatesToClient": true,
  "name": "RescanFolders",
  "trigger": "manual",
  "suppressMessages": false
}', 0, 6, '2026-11-23 06:40:02.0138441Z', '2026-11-23 06:40:02.0212091Z', '2026-11-24 08:20:04.7712893Z', NULL, NULL, 1, 0),
  ('RssSync', '{
  "sendUpdatesToClient": true,
  "name": "RssSync",
  "trigger": "scheduled",
  "suppressMessages": false
}', 0, 6, '2026-11-23 06:42:31.3400117Z', '2026-11-23 06:42:31.3500281Z', '2026-11-24 08:20:04.7712893Z', NULL, NULL, 2, 0);
INSERT INTO "Commands" ("Name", "Body", "Priority", "Status", "QueuedAt", "StartedAt", "EndedAt", "Duration", "Exception", "Trigger", "Result")
SELECT name, '{' || substr(body, 2) || CASE WHEN body = '' THEN '' ELSE ',' END || '
  "sendUpdatesToClient": true,
  "updateScheduledTask": true,
  "requiresDiskAccess": false,
  "isExclusive": false,
  "name": "' || name || '",
  "trigger": "' || CASE trig WHEN 0 THEN 'unspecified' WHEN 1 THEN 'manual' ELSE 'scheduled' END || '",
  "suppressMessages": false
}', prio, CASE WHEN f THEN 3 ELSE 2 END,
  datetime('2026-11-24 08:20:00', '+' || t || ' seconds') || printf('.%07dZ', 1000000 + r * 6719 % 600000),
  datetime('2026-11-24 08:20:00', '+' || t || ' seconds') || printf('.%07dZ', 1700000 + r * 4517 % 900000),
  datetime('2026-11-24 08:20:00', '+' || (t + dur / 1000) || ' seconds') || printf('.%07dZ', 2600000 + dur % 1000 * 7001),
  time(0, 'unixepoch', '+' || (dur / 1000) || ' seconds') || printf('.%07d', dur % 1000 * 7001 + 61234),
  CASE WHEN f THEN CASE name WHEN 'ImportListSync' THEN 'System.Net.Http.HttpRequestException: Name or service not known (api.lidarr.audio:443)' WHEN 'AlbumSearch' THEN 'NzbDrone.Core.Messaging.Commands.CommandFailedException: Search failed' ELSE 'System.Net.Sockets.SocketException (111): Connection refused' END || char(10) || '   at NzbDrone.Core.Messaging.Commands.CommandExecutor.ExecuteCommand[TCommand](TCommand command, CommandModel commandModel)' END,
  trig, 0
FROM (SELECT *, (name = 'ImportListSync' AND t BETWEEN 4000 AND 5100) OR (name = 'ApplicationUpdateCheck') OR (name = 'AlbumSearch' AND t = 5101) AS f FROM c) ORDER BY r;
-- a long RefreshArtist (one of its type at a time) and the user's requests behind it
INSERT INTO "Commands" ("Name", "Body", "Priority", "Status", "QueuedAt", "StartedAt", "EndedAt", "Duration", "Exception", "Trigger", "Result")
SELECT column1, '{
  ' || column2 || '
  "sendUpdatesToClient": true,
  "isLongRunning": true,
  "name": "' || column1 || '",
  "trigger": "' || CASE column5 WHEN 1 THEN 'manual' WHEN 2 THEN 'scheduled' ELSE 'unspecified' END || '",
  "suppressMessages": false
}', CASE WHEN column1 LIKE '%Downloads' THEN 1 ELSE 0 END, CASE WHEN column4 IS NULL THEN 0 ELSE 1 END, column3, column4, NULL, NULL, NULL, column5, 0 FROM (VALUES
  ('RefreshArtist', '"artistIds": [],', '2026-11-24 11:57:43.0012291Z', '2026-11-24 11:57:43.0098813Z', 2),
  ('RefreshArtist', '"artistIds": [ 51 ],', '2026-11-24 11:58:01.5520108Z', NULL, 1),
  ('RefreshArtist', '"artistIds": [ 12 ],', '2026-11-24 11:58:07.9090122Z', NULL, 1),
  ('RefreshArtist', '"artistIds": [ 77 ],', '2026-11-24 11:58:15.1190023Z', NULL, 1),
  ('AlbumSearch', '"albumIds": [ 901 ],', '2026-11-24 11:58:31.8812210Z', '2026-11-24 11:58:31.9001834Z', 1),
  ('AlbumSearch', '"albumIds": [ 902 ],', '2026-11-24 11:58:33.0044019Z', NULL, 1),
  ('AlbumSearch', '"albumIds": [ 905 ],', '2026-11-24 11:58:34.4120071Z', NULL, 1),
  ('RescanFolders', '"addNewArtists": true,', '2026-11-24 11:59:02.2019937Z', NULL, 1),
  ('RefreshMonitoredDownloads', '', '2026-11-24 11:59:42.3311910Z', NULL, 2));
DROP TABLE c;
