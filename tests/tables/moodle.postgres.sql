-- Moodle 4.5 (lib/db/install.xml), as XMLDB creates it on PostgreSQL, with the usual prefix.
CREATE TABLE mdl_task_adhoc (id BIGSERIAL, component VARCHAR(255) NOT NULL DEFAULT '', classname VARCHAR(255) NOT NULL DEFAULT '',
  nextruntime BIGINT NOT NULL, faildelay BIGINT, customdata TEXT, userid BIGINT, timecreated BIGINT NOT NULL DEFAULT 0,
  timestarted BIGINT, hostname VARCHAR(255), pid BIGINT, attemptsavailable SMALLINT, CONSTRAINT mdl_taskadho_id_pk PRIMARY KEY (id));
CREATE INDEX mdl_taskadho_nex_ix ON mdl_task_adhoc (nextruntime);
CREATE INDEX mdl_taskadho_tim_ix ON mdl_task_adhoc (timestarted);
CREATE INDEX mdl_taskadho_use_ix ON mdl_task_adhoc (userid);
INSERT INTO mdl_task_adhoc (id, component, classname, nextruntime, faildelay, customdata, userid, timecreated, timestarted, hostname, pid, attemptsavailable) VALUES
  (1, 'mod_forum', '\mod_forum\task\send', 1577836800, NULL, '{}', NULL, 1795132800, NULL, NULL, NULL, 12),
  (2, 'mod_forum', '\mod_forum\task\send', 1577836800, NULL, '{}', NULL, 1795132801, NULL, NULL, NULL, 12),
  (3, 'mod_forum', '\mod_forum\task\send', 1577836800, 60, '{}', 2, 1795132802, NULL, NULL, NULL, 11),
  (4, 'mod_forum', '\mod_forum\task\send', 32503680000, NULL, '{}', NULL, 1795132803, NULL, NULL, NULL, 12);
