-- dialect: sqlite
CREATE TABLE teams (id INTEGER PRIMARY KEY AUTOINCREMENT, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, name VARCHAR(255) NOT NULL UNIQUE, description VARCHAR(1023) NOT NULL DEFAULT '', config TEXT);
INSERT INTO teams (id, created_at, name) VALUES (1, '2026-09-14 08:11:20', 'Workstations'), (2, '2026-09-14 08:12:02', 'Servers'), (3, '2026-10-02 13:40:55', 'Mobile');
CREATE TABLE policies (id INTEGER PRIMARY KEY AUTOINCREMENT, name VARCHAR(255) NOT NULL, query TEXT NOT NULL, resolution TEXT, team_id INTEGER, critical TINYINT NOT NULL DEFAULT 0, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO policies VALUES (11, 'Full disk encryption enabled', 'SELECT 1 FROM disk_encryption WHERE encrypted = 1', 'Turn on FileVault.', 1, 1, '2026-09-14 09:00:00', '2026-09-14 09:00:00'), (12, 'Firewall enabled', 'SELECT 1 FROM alf WHERE global_state >= 1', NULL, 1, 0, '2026-09-14 09:05:00', '2026-10-01 10:00:00'), (13, 'Gatekeeper enabled', 'SELECT 1 FROM gatekeeper WHERE assessments_enabled = 1', NULL, NULL, 0, '2026-09-15 09:00:00', '2026-09-15 09:00:00');

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  name VARCHAR(255) NOT NULL,
  args JSON DEFAULT NULL,
  state VARCHAR(255) NOT NULL,
  retries INT NOT NULL DEFAULT 0,
  error TEXT,
  not_before DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX idx_jobs_state_not_before_updated_at ON jobs (state, not_before, updated_at);

-- worker runs every minute; Jira answers 503 since 09:58 of today (retries at once, then after 5 min, 10 min, 1 h, 2 h)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 238),
a AS (SELECT i,
  CASE WHEN i <= 212 THEN strftime('%s', '2026-10-27 06:14:31') + i * 11420 + (i * i * 37) % 5200 WHEN i <= 229 THEN strftime('%s', '2026-11-24 09:58:12') + (i - 212) * 427 ELSE strftime('%s', '2026-11-24 11:59:08') + (i - 229) * 5 END AS c,
  CASE WHEN i > 229 THEN CASE i % 3 WHEN 0 THEN 'apple_mdm' WHEN 1 THEN 'software_worker' ELSE 'jira' END WHEN i > 212 THEN 'jira' ELSE CASE i % 7 WHEN 0 THEN 'macos_setup_assistant' WHEN 1 THEN 'jira' WHEN 2 THEN 'jira' WHEN 4 THEN 'software_worker' ELSE 'apple_mdm' END END AS name FROM n),
b AS (SELECT i, c, name, (c / 60 + 1) * 60 + 1 AS t0, strftime('%s', '2026-11-24 11:59:00') - (c / 60 + 1) * 60 AS age FROM a),
k AS (SELECT *, CASE WHEN i > 229 OR age < 0 THEN 'new' WHEN i > 212 THEN 'wait' WHEN i IN (57, 58, 113, 171, 203) THEN 'dead' WHEN i = 212 THEN 'later' WHEN i % 19 = 6 THEN 'second' ELSE 'done' END AS k,
  CASE WHEN age >= 78 * 60 THEN 5 WHEN age >= 17 * 60 THEN 4 WHEN age >= 7 * 60 THEN 3 WHEN age >= 120 THEN 2 ELSE 1 END AS r FROM b),
u AS (SELECT *, CASE k WHEN 'wait' THEN t0 + CASE r WHEN 5 THEN 4680 WHEN 4 THEN 1020 WHEN 3 THEN 420 WHEN 2 THEN 60 ELSE 0 END WHEN 'dead' THEN t0 + 11880 WHEN 'second' THEN t0 + CASE WHEN i % 2 THEN 60 ELSE 420 END WHEN 'done' THEN t0 + i % 4 + CASE WHEN name = 'apple_mdm' AND i % 5 = 3 THEN 600 ELSE 0 END ELSE c END AS f FROM k)
INSERT INTO jobs (id, created_at, updated_at, name, args, state, retries, error, not_before)
SELECT 1840 + i, datetime(c, 'unixepoch'), datetime(f, 'unixepoch'), name,
  CASE name WHEN 'jira' THEN CASE i % 2 WHEN 0 THEN '{"failing_policy":{"policy_id":' || (11 + i % 3) || ',"policy_name":"' || CASE i % 3 WHEN 0 THEN 'Full disk encryption enabled' WHEN 1 THEN 'Firewall enabled' ELSE 'Gatekeeper enabled' END || '","policy_critical":' || CASE i % 3 WHEN 0 THEN 'true' ELSE 'false' END || ',"hosts":[{"id":' || (200 + i) || ',"hostname":"mac-' || (200 + i) || '","display_name":"mac-' || (200 + i) || '"}]}}' ELSE '{"vulnerability":{"cve":"CVE-2026-' || (20000 + i * 7) || '","affected_software":[' || (900 + i) || ']}}' END
    WHEN 'macos_setup_assistant' THEN '{"task":"' || CASE i % 3 WHEN 0 THEN 'profile_changed' ELSE 'hosts_transferred' END || '","team_id":' || (1 + i % 3) || ',"host_serial_numbers":["C02' || printf('%07d', i * 7919) || '"]}'
    WHEN 'software_worker' THEN '{"task":"make_android_app_available","application_id":"com.example.app' || (i % 9) || '","app_team_id":' || (1 + i % 3) || '}'
    ELSE '{"task":"post_dep_enrollment","host_uuid":"' || printf('%08X-0000-1000-8000-%012X', i * 2654435, i * 7919777) || '","enroll_reference":"","team_id":' || (1 + i % 3) || '}' END,
  CASE k WHEN 'done' THEN 'success' WHEN 'second' THEN 'success' WHEN 'dead' THEN 'failure' ELSE 'queued' END,
  CASE k WHEN 'wait' THEN r WHEN 'dead' THEN 5 WHEN 'second' THEN CASE WHEN i % 2 THEN 1 ELSE 2 END ELSE 0 END,
  CASE k WHEN 'wait' THEN 'creating issue: create jira issue: 503 Service Unavailable: request failed. Please analyze the request body for more details. Status code: 503'
    WHEN 'dead' THEN CASE name WHEN 'jira' THEN 'creating issue: create jira issue: 400 Bad Request: priority: Field ''priority'' cannot be set.' WHEN 'apple_mdm' THEN 'apple mdm: post_dep_enrollment: get host by uuid: Host was not found in the datastore' ELSE 'running job: unexpected status 403 from the API' END ELSE '' END,
  datetime(CASE k WHEN 'wait' THEN f + CASE r WHEN 5 THEN 7200 WHEN 4 THEN 3600 WHEN 3 THEN 600 WHEN 2 THEN 300 ELSE 0 END WHEN 'dead' THEN f - 1 WHEN 'second' THEN CASE WHEN i % 2 THEN t0 ELSE t0 + 360 END WHEN 'done' THEN CASE WHEN name = 'apple_mdm' AND i % 5 = 3 THEN c + 600 ELSE c END WHEN 'later' THEN strftime('%s', '2026-11-24 12:04:40') ELSE c END, 'unixepoch')
FROM u ORDER BY i;
