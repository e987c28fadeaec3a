-- Moodle 4.5 (lib/db/install.xml) is not for SQLite: its names, in SQLite's types.
CREATE TABLE mdl_task_adhoc (id INTEGER PRIMARY KEY, component VARCHAR(255) NOT NULL DEFAULT '', classname VARCHAR(255) NOT NULL DEFAULT '',
  nextruntime INTEGER NOT NULL, faildelay INTEGER, customdata TEXT, userid INTEGER, timecreated INTEGER NOT NULL DEFAULT 0,
  timestarted INTEGER, hostname VARCHAR(255), pid INTEGER, attemptsavailable SMALLINT);
CREATE INDEX mdl_taskadho_nex_ix ON mdl_task_adhoc (nextruntime);
CREATE INDEX mdl_taskadho_tim_ix ON mdl_task_adhoc (timestarted);
CREATE INDEX mdl_taskadho_use_ix ON mdl_task_adhoc (userid);
INSERT INTO mdl_task_adhoc (id, component, classname, nextruntime, faildelay, customdata, userid, timecreated, timestarted, hostname, pid, attemptsavailable) VALUES
  (1, 'mod_forum', '\mod_forum\task\send', 1577836800, NULL, '{}', NULL, 1795132800, NULL, NULL, NULL, 12),
  (2, 'mod_forum', '\mod_forum\task\send', 1577836800, NULL, '{}', NULL, 1795132801, NULL, NULL, NULL, 12),
  (3, 'mod_forum', '\mod_forum\task\send', 1577836800, 60, '{}', 2, 1795132802, NULL, NULL, NULL, 11),
  (4, 'mod_forum', '\mod_forum\task\send', 32503680000, NULL, '{}', NULL, 1795132803, NULL, NULL, NULL, 12);
