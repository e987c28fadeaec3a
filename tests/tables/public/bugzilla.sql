-- dialect: sqlite
CREATE TABLE profiles (userid integer PRIMARY KEY AUTOINCREMENT NOT NULL, login_name varchar(255) NOT NULL COLLATE NOCASE, realname varchar(255) NOT NULL DEFAULT '', disable_mail integer NOT NULL DEFAULT 0, last_seen_date DATETIME);
CREATE UNIQUE INDEX profiles_login_name_idx ON profiles (login_name);
INSERT INTO profiles (login_name, realname, disable_mail, last_seen_date) VALUES ('admin@bugs.example', 'Admin', 0, '2026-11-24 00:00:00'), ('dev@bugs.example', 'Dev', 0, '2026-11-23 00:00:00'), ('gone@bugs.example', 'Gone', 1, NULL);
CREATE TABLE ts_funcmap (funcid integer PRIMARY KEY AUTOINCREMENT NOT NULL, funcname varchar(255) NOT NULL);
CREATE UNIQUE INDEX ts_funcmap_funcname_idx ON ts_funcmap (funcname);
INSERT INTO ts_funcmap (funcname) VALUES ('Bugzilla::Job::Mailer'), ('Bugzilla::Job::BugMail');
CREATE TABLE ts_exitstatus (jobid integer PRIMARY KEY NOT NULL, funcid integer NOT NULL DEFAULT 0, status integer, completion_time integer, delete_after integer);
INSERT INTO ts_exitstatus VALUES (90101, 1, 0, 1795510010, 1796114810), (90102, 1, 0, 1795510031, 1796114831), (90107, 2, 1, 1795512000, 1796116800);
CREATE TABLE ts_error (error_time integer NOT NULL, jobid integer NOT NULL, message varchar(255) NOT NULL, funcid integer NOT NULL DEFAULT 0);
CREATE INDEX ts_error_funcid_idx ON ts_error (funcid, error_time);
CREATE INDEX ts_error_jobid_idx ON ts_error (jobid);

CREATE TABLE ts_job (
  jobid integer PRIMARY KEY AUTOINCREMENT NOT NULL,
  funcid integer NOT NULL,
  arg BLOB,
  uniqkey varchar(255),
  insert_time integer,
  run_after integer NOT NULL,
  grabbed_until integer NOT NULL,
  priority integer,
  coalesce varchar(255)
);
CREATE UNIQUE INDEX ts_job_funcid_idx ON ts_job (funcid, uniqkey);
CREATE INDEX ts_job_run_after_idx ON ts_job (run_after, funcid);
CREATE INDEX ts_job_coalesce_idx ON ts_job (coalesce, funcid);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 58),
k AS (SELECT i, CASE WHEN i <= 17 THEN 'again' WHEN i <= 19 THEN 'run' ELSE 'new' END AS st, CASE WHEN i <= 17 THEN 1795440000 + i * 4211 ELSE 1795515200 + i * 107 END AS t FROM n)
INSERT INTO ts_job (jobid, funcid, arg, uniqkey, insert_time, run_after, grabbed_until, priority, coalesce)
SELECT 90110 + i + i / 9, 1 + i % 2,
  CAST('pst0' || char(4) || 'To: dev@bugs.example' || char(10) || 'Subject: [Bug ' || (1200 + i) || '] something changed' AS blob),
  CASE WHEN i % 7 = 0 THEN 'bug-' || (1200 + i) END, t,
  CASE st WHEN 'again' THEN 1795521300 + (i % 6) * 420 ELSE t END,
  CASE st WHEN 'run' THEN 1795525140 + i ELSE 0 END,
  CASE WHEN i % 5 = 0 THEN 5 END, NULL
FROM k ORDER BY i;
INSERT INTO ts_error SELECT insert_time + 300 * (1 + jobid % 3), jobid, 'Could not connect to SMTP server mail.bugs.example: Connection timed out', funcid FROM ts_job WHERE run_after > insert_time + 1000 ORDER BY jobid;
