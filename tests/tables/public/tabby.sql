-- dialect: sqlite
CREATE TABLE repositories(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name VARCHAR(255) NOT NULL,
  git_url VARCHAR(255) NOT NULL,
  refs TEXT,
  CONSTRAINT `idx_name` UNIQUE(`name`)
  CONSTRAINT `idx_git_url` UNIQUE(`git_url`)
);
INSERT INTO repositories VALUES (1, 'billing', 'https://git.example/core/billing.git', NULL), (2, 'webshop', 'https://git.example/core/webshop.git', NULL), (3, 'infra', 'https://git.example/ops/infra.git', NULL);
CREATE TABLE web_documents(
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name VARCHAR(255) NOT NULL,
  url TEXT NOT NULL,
  is_preset BOOLEAN NOT NULL DEFAULT FALSE,
  created_at TIMESTAMP NOT NULL DEFAULT(DATETIME('now')),
  updated_at TIMESTAMP NOT NULL DEFAULT(DATETIME('now'))
);
INSERT INTO web_documents VALUES (1, 'handbook', 'https://handbook.example/', 0, '2026-10-12 09:14:40', '2026-10-12 09:14:40'), (2, 'api docs', 'https://docs.example/api/', 0, '2026-11-24 11:57:12', '2026-11-24 11:57:12');

CREATE TABLE job_runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job VARCHAR(255) NOT NULL,
  start_ts TIMESTAMP NOT NULL,
  end_ts TIMESTAMP,
  exit_code INTEGER,
  stdout TEXT NOT NULL,
  stderr TEXT NOT NULL,
  created_at TIMESTAMP DEFAULT(DATETIME('now')),
  updated_at TIMESTAMP DEFAULT(DATETIME('now'))
  ,
  command TEXT,
  started_at TIMESTAMP
);
CREATE INDEX idx_job_created_at ON job_runs(job, created_at);
CREATE INDEX `idx_job_runs_command` ON job_runs(command);

-- A server on a team's workstation, switched on for some hours a day; each hour one "hourly" run triggers the others, one runs after the other.
-- t: 0 hourly, 1 third_party_repository_sync, 2-4 scheduler_git, 5 scheduler_github_gitlab, 6 page_index_sync
WITH RECURSIVE dn(d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM dn WHERE d < 42),
hn(h) AS (VALUES (10), (11)),
tn(t) AS (SELECT 0 UNION ALL SELECT t + 1 FROM tn WHERE t < 6),
g AS (SELECT d, h, t, CAST(strftime('%s', '2026-10-13', '+' || d || ' days') AS INTEGER) + h * 3600 AS hh FROM dn, hn, tn
  WHERE strftime('%w', '2026-10-13', '+' || d || ' days') NOT IN ('0', '6') AND (d * 7 + h) % 5 <> 1 OR d = 42),
j AS (SELECT hh, t,
    CASE t WHEN 0 THEN hh ELSE hh + 5 + t / 4 END AS c,
    CASE t WHEN 0 THEN hh + 2 WHEN 1 THEN hh + 7 ELSE hh + 10 + (t - 2) * 420 + (hh / 3600 * 7 + t) % 200 END AS s,
    CASE t WHEN 0 THEN 4 WHEN 1 THEN 3 WHEN 6 THEN 12 ELSE 240 + (hh / 3600 * 11 + t * 53) % 170 END AS dur,
    CASE WHEN hh = CAST(strftime('%s', '2026-11-24 11:00:00') AS INTEGER) THEN 'now' WHEN t >= 3 AND hh % 86400 = 39600 AND (hh / 86400) % 6 = 2 THEN 'stale'
      WHEN t = 5 AND (hh / 3600) % 13 IN (4, 11) THEN 'fail' WHEN t = 2 AND (hh / 3600) % 29 = 3 THEN 'fail' WHEN t = 1 AND (hh / 86400) % 11 = 5 THEN 'fail' ELSE 'ok' END AS k FROM g
  UNION ALL SELECT CAST(strftime('%s', '2026-10-12 09:14:40') AS INTEGER), 7, CAST(strftime('%s', '2026-10-12 09:14:40') AS INTEGER), CAST(strftime('%s', '2026-10-12 09:14:43') AS INTEGER), 1260, 'ok'
  UNION ALL SELECT CAST(strftime('%s', '2026-10-29 10:41:10') AS INTEGER), 8, CAST(strftime('%s', '2026-10-29 10:41:10') AS INTEGER), NULL, 97, 'cancel'
  UNION ALL SELECT CAST(strftime('%s', '2026-11-18 11:17:32') AS INTEGER), 8, CAST(strftime('%s', '2026-11-18 11:17:32') AS INTEGER), NULL, 214, 'cancel'
  UNION ALL SELECT CAST(strftime('%s', '2026-11-24 11:57:12') AS INTEGER), 9, CAST(strftime('%s', '2026-11-24 11:57:12') AS INTEGER), NULL, 0, 'wait'
  UNION ALL SELECT CAST(strftime('%s', '2026-11-24 11:59:20') AS INTEGER), 10, CAST(strftime('%s', '2026-11-24 11:59:20') AS INTEGER), NULL, 0, 'wait'
  UNION ALL SELECT CAST(strftime('%s', '2026-11-24 11:58:45') AS INTEGER), 11, CAST(strftime('%s', '2026-11-24 11:58:45') AS INTEGER), NULL, 0, 'wait'),
x AS (SELECT hh, t, c, CASE WHEN k <> 'now' THEN k WHEN t IN (4, 5, 6) THEN 'wait' WHEN t = 3 THEN 'run' ELSE 'ok' END AS k,
    CASE WHEN k = 'now' AND t = 3 THEN CAST(strftime('%s', '2026-11-24 11:41:02') AS INTEGER) WHEN k = 'now' AND t = 2 THEN hh + 10 ELSE s END AS s,
    CASE WHEN k = 'now' AND t = 2 THEN 2451 ELSE dur END AS dur FROM j),
y AS (SELECT row_number() OVER (ORDER BY c, t) AS i, *,
    CASE k WHEN 'stale' THEN (hh / 86400 + CASE strftime('%w', hh, 'unixepoch') WHEN '5' THEN 3 ELSE 1 END) * 86400 + 31500 + hh / 86400 * 137 % 997 END AS boot FROM x)
INSERT INTO job_runs (id, job, start_ts, end_ts, exit_code, stdout, stderr, created_at, updated_at, command, started_at)
SELECT 2 + i,
  CASE WHEN t = 0 THEN 'hourly' WHEN t IN (1, 11) THEN 'third_party_repository_sync' WHEN t IN (2, 3, 4, 8) THEN 'scheduler_git' WHEN t = 5 THEN 'scheduler_github_gitlab' WHEN t = 6 THEN 'page_index_sync' WHEN t = 10 THEN 'ingestion_index_sync' ELSE 'web_crawler' END,
  datetime(c, 'unixepoch'),
  CASE k WHEN 'stale' THEN datetime(boot, 'unixepoch') WHEN 'cancel' THEN datetime(c + dur, 'unixepoch') WHEN 'ok' THEN datetime(s + dur, 'unixepoch') WHEN 'fail' THEN datetime(s + 3 + i % 6, 'unixepoch') END,
  CASE k WHEN 'stale' THEN -1 WHEN 'cancel' THEN -1 WHEN 'ok' THEN 0 WHEN 'fail' THEN 1 END,
  '', '',
  datetime(c, 'unixepoch'),
  CASE k WHEN 'stale' THEN datetime(boot, 'unixepoch') WHEN 'cancel' THEN datetime(c + dur, 'unixepoch') WHEN 'ok' THEN datetime(s + dur, 'unixepoch') WHEN 'fail' THEN datetime(s + 3 + i % 6, 'unixepoch') WHEN 'run' THEN datetime(s, 'unixepoch') ELSE datetime(c, 'unixepoch') END,
  CASE t WHEN 0 THEN '"Hourly"' WHEN 1 THEN '{"SyncThirdPartyRepositories":"kZgQ7n"}' WHEN 11 THEN '{"SyncThirdPartyRepositories":"yR2vXe"}'
    WHEN 2 THEN '{"SchedulerGitRepository":{"git_url":"https://git.example/core/billing.git","source_id":"git:kZgQ7n","git_refs":["main"]}}'
    WHEN 3 THEN '{"SchedulerGitRepository":{"git_url":"https://git.example/core/webshop.git","source_id":"git:yR2vXe","git_refs":["main"]}}'
    WHEN 4 THEN '{"SchedulerGitRepository":{"git_url":"https://git.example/ops/infra.git","source_id":"git:dQ9wLk","git_refs":["master"]}}'
    WHEN 8 THEN '{"SchedulerGitRepository":{"git_url":"https://git.example/core/old-shop.git","source_id":"git:aM4sTb","git_refs":["main"]}}'
    WHEN 5 THEN '{"SchedulerGithubGitlabRepository":"kZgQ7n"}' WHEN 6 THEN '"SyncPagesIndex"' WHEN 10 THEN '"SyncIngestionIndex"'
    WHEN 7 THEN '{"WebCrawler":{"source_id":"custom_web_document:kZgQ7n","url":"https://handbook.example/","url_prefix":null}}'
    ELSE '{"WebCrawler":{"source_id":"custom_web_document:yR2vXe","url":"https://docs.example/api/","url_prefix":null}}' END,
  CASE k WHEN 'stale' THEN datetime(boot, 'unixepoch') WHEN 'cancel' THEN NULL WHEN 'wait' THEN NULL ELSE datetime(s, 'unixepoch') END
FROM y ORDER BY i;
