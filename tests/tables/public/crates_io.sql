-- dialect: postgres
CREATE TABLE crates (
  id serial PRIMARY KEY,
  name varchar NOT NULL UNIQUE,
  updated_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
  created_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
  description varchar,
  repository varchar
);
INSERT INTO crates (id, name, updated_at, created_at, description, repository)
SELECT 190200 + g, 'tiny-' || (ARRAY['parser', 'codec', 'arena', 'router', 'macros', 'ffi', 'trie', 'bloom', 'cron', 'lz', 'wal', 'pool'])[g], timestamptz '2026-11-24 11:20:00+00' + g * interval '3 minutes 7 seconds', timestamptz '2026-08-03 10:11:12+00' + g * interval '6 days 5 hours', 'A tiny crate, number ' || g, 'https://github.com/tiny-rs/tiny-' || g
FROM generate_series(1, 12) g;
CREATE TABLE oauth_github (
  account_id bigint PRIMARY KEY,
  user_id integer NOT NULL,
  login varchar NOT NULL,
  avatar varchar,
  last_sync timestamptz NOT NULL
);
INSERT INTO oauth_github SELECT 5000000 + g * 131071, 300 + g, 'rustacean' || g, 'https://avatars.githubusercontent.com/u/' || 5000000 + g * 131071 || '?v=4', timestamptz '2026-11-20 03:00:00+00' + g * interval '7 hours' FROM generate_series(1, 9) g;

CREATE TABLE background_jobs (
  id bigserial PRIMARY KEY,
  job_type text NOT NULL,
  data jsonb NOT NULL,
  retries integer NOT NULL DEFAULT 0,
  last_retry timestamptz NOT NULL DEFAULT '1970-01-01',
  created_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
  priority smallint NOT NULL DEFAULT 0
);
CREATE INDEX background_jobs_priority_id_index ON background_jobs (priority DESC, id ASC);
CREATE OR REPLACE FUNCTION notify_background_job_inserted() RETURNS trigger AS $$
BEGIN
  NOTIFY background_jobs;
  RETURN NULL;
END
$$ LANGUAGE plpgsql;
CREATE TRIGGER background_jobs_notify_on_insert AFTER INSERT ON background_jobs FOR EACH STATEMENT EXECUTE PROCEDURE notify_background_job_inserted();

-- jobs that fail again and again for days (waits double each time)
INSERT INTO background_jobs (id, job_type, data, retries, last_retry, created_at, priority)
SELECT 48211000 + i * 19417, jt,
  CASE jt WHEN 'update_user_from_github' THEN jsonb_build_object('dry_run', false, 'account_id', 5000000 + (1 + i % 9) * 131071 + i / 9)
    WHEN 'render_and_upload_readme' THEN jsonb_build_object('version_id', 1700000 + i * 311, 'text', '# tiny-' || i || E'\n\nSee the [docs](https://docs.rs/tiny-' || i || ').', 'readme_path', 'README.md', 'base_url', 'https://github.com/tiny-rs/tiny-' || i, 'pkg_path_in_vcs', NULL)
    WHEN 'analyze_crate_file' THEN jsonb_build_object('version_id', 1700000 + i * 311)
    ELSE jsonb_build_object('name', 'tiny-' || i) END,
  n, c + ((1 << n) - 2) * interval '1 minute' + n * interval '1.377 seconds' + i * interval '0.113 seconds', c,
  CASE jt WHEN 'render_and_upload_readme' THEN 50 WHEN 'update_user_from_github' THEN -15 ELSE 0 END
FROM (
  SELECT i, c, (ARRAY['update_user_from_github', 'analyze_crate_file', 'update_user_from_github', 'render_and_upload_readme', 'check_typosquat'])[1 + i % 5] AS jt,
    floor(log(2.0, (extract(epoch FROM timestamptz '2026-11-24 11:59:00+00' - c) / 60 + 2)::numeric))::int AS n
  FROM (SELECT i, timestamptz '2026-10-09 02:14:33.118207+00' + i * interval '1 day 19 hours 11 minutes' + (i * i) * interval '1.013 seconds' AS c FROM generate_series(1, 25) i) b
) s ORDER BY i;

-- the rest of a backfill by `crates-admin analyze-crates --backfill`: a batch has one insertion time
INSERT INTO background_jobs (id, job_type, data, created_at, priority)
SELECT 48712000 + b * 1000 + k, 'analyze_crate_file', jsonb_build_object('version_id', 1402000 + b * 3000 + k * 3),
  timestamptz '2026-11-24 06:30:02.904417+00' + b * interval '0.731 seconds', -50
FROM generate_series(1, 2) b, generate_series(0, 999) k WHERE CASE b WHEN 1 THEN k >= 958 ELSE k < 87 END ORDER BY b, k;

-- today: the CDN's API answers 503 since 11:34, and one crate cannot be zipped
INSERT INTO background_jobs (id, job_type, data, retries, last_retry, created_at, priority)
SELECT 48719000 + i * 13, CASE WHEN i = 6 THEN 'build_crate_zip' ELSE 'invalidate_cdns' END,
  CASE WHEN i = 6 THEN '{"version_id": 1733412}'::jsonb ELSE jsonb_build_object('paths', jsonb_build_array('/rss/crates/tiny-' || i || '.xml', '/crates/tiny-' || i || '/*'), 'cache_tags', '[]'::jsonb) END,
  n, c + ((1 << n) - 2) * interval '1 minute' + n * interval '0.877 seconds', c, 0
FROM (SELECT i, c, floor(log(2.0, (extract(epoch FROM timestamptz '2026-11-24 11:59:40+00' - c) / 60 + 2)::numeric))::int AS n
  FROM (SELECT i, timestamptz '2026-11-24 11:34:10.447120+00' + i * interval '1 minute 58 seconds' AS c FROM generate_series(1, 12) i) b) s ORDER BY i;

-- the last seconds: two crates have just been published
INSERT INTO background_jobs (id, job_type, data, created_at, priority)
SELECT 48719300 + (ROW_NUMBER() OVER (ORDER BY p.crate, j.o))::int, j.jt,
  CASE j.k WHEN 'krate' THEN jsonb_build_object('krate', p.name) WHEN 'name' THEN jsonb_build_object('name', p.name) WHEN 'version' THEN jsonb_build_object('version_id', p.version)
    WHEN 'crate' THEN jsonb_build_object('crate_id', p.crate) WHEN 'readme' THEN jsonb_build_object('version_id', p.version, 'text', '# ' || p.name, 'readme_path', 'README.md', 'base_url', 'https://github.com/tiny-rs/' || p.name, 'pkg_path_in_vcs', '') ELSE 'null'::jsonb END,
  p.at, j.prio
FROM (VALUES (190203, 'tiny-arena', 1733498, timestamptz '2026-11-24 11:59:57.203341+00'), (190209, 'tiny-cron', 1733499, timestamptz '2026-11-24 11:59:58.910027+00')) p(crate, name, version, at),
  (VALUES (1, 'update_default_version', 'crate', 80), (2, 'render_and_upload_readme', 'readme', 50), (3, 'sync_to_git_index', 'krate', 100), (4, 'sync_to_sparse_index', 'krate', 100), (5, 'send_publish_notifications', 'version', 0), (6, 'build_crate_zip', 'version', 0), (7, 'sync_crate_feed', 'name', 0), (8, 'sync_updates_feed', '-', 0), (9, 'analyze_crate_file', 'version', 0)) j(o, jt, k, prio)
WHERE NOT (j.o = 8 AND p.crate = 190209)
ORDER BY p.crate, j.o;
SELECT setval('background_jobs_id_seq', (SELECT max(id) FROM background_jobs));
