-- Zabbix 7.0 (create/src/schema.tmpl), as it is generated for SQLite, without foreign keys.
CREATE TABLE alerts (alertid bigint NOT NULL, actionid bigint NOT NULL, clock integer DEFAULT '0' NOT NULL, sendto nvarchar(1024) DEFAULT '' NOT NULL, subject nvarchar(255) DEFAULT '' NOT NULL, message nvarchar(2048) DEFAULT '' NOT NULL,
  status integer DEFAULT '0' NOT NULL, retries integer DEFAULT '0' NOT NULL, error nvarchar(12) DEFAULT '' NOT NULL, PRIMARY KEY (alertid));
INSERT INTO alerts (alertid, actionid, clock, status, retries) VALUES (1, 3, 1795132800, 0, 0), (2, 3, 1795132801, 3, 0), (3, 3, 1795132802, 0, 2), (4, 3, 1795132803, 1, 0), (5, 3, 1795132804, 2, 3);
