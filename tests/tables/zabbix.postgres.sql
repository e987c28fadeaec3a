-- Zabbix 7.0 (create/src/schema.tmpl), as it is generated for PostgreSQL, without foreign keys.
CREATE TABLE alerts (alertid bigint NOT NULL, actionid bigint NOT NULL, eventid bigint NOT NULL, userid bigint NULL, clock integer DEFAULT '0' NOT NULL,
  mediatypeid bigint NULL, sendto varchar(1024) DEFAULT '' NOT NULL, subject varchar(255) DEFAULT '' NOT NULL, message text DEFAULT '' NOT NULL,
  status integer DEFAULT '0' NOT NULL, retries integer DEFAULT '0' NOT NULL, error varchar(2048) DEFAULT '' NOT NULL,
  esc_step integer DEFAULT '0' NOT NULL, alerttype integer DEFAULT '0' NOT NULL, p_eventid bigint NULL, acknowledgeid bigint NULL,
  parameters text DEFAULT '{}' NOT NULL, PRIMARY KEY (alertid));
CREATE INDEX alerts_1 ON alerts (actionid);
CREATE INDEX alerts_2 ON alerts (clock);
CREATE INDEX alerts_3 ON alerts (eventid);
CREATE INDEX alerts_4 ON alerts (status);
CREATE INDEX alerts_5 ON alerts (mediatypeid);
CREATE INDEX alerts_6 ON alerts (userid);
INSERT INTO alerts (alertid, actionid, eventid, userid, clock, mediatypeid, sendto, subject, message, status, retries, error, esc_step) VALUES
  (1, 3, 71, 5, 1795132800, 1, 'a@example.com', 'Problem', 'Disk full', 0, 0, '', 1),
  (2, 3, 72, 5, 1795132801, 1, 'a@example.com', 'Problem', 'Disk full', 3, 0, '', 1),
  (3, 3, 73, 5, 1795132802, 1, 'a@example.com', 'Problem', 'Disk full', 0, 2, 'timed out', 1),
  (4, 3, 74, 5, 1795132803, 1, 'a@example.com', 'Problem', 'Disk full', 1, 0, '', 1),
  (5, 3, 75, 5, 1795132804, 1, 'a@example.com', 'Problem', 'Disk full', 2, 3, 'refused', 1);
