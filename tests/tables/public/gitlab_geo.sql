-- dialect: postgres
CREATE TABLE event_log_states (event_id bigint NOT NULL PRIMARY KEY, created_at timestamp without time zone NOT NULL);
INSERT INTO event_log_states VALUES (918223, '2026-11-24 11:59:58.117203'), (918224, '2026-11-24 11:59:59.202117');
CREATE TABLE lfs_object_registry (
  id bigserial NOT NULL,
  created_at timestamp with time zone,
  retry_at timestamp with time zone,
  bytes bigint,
  lfs_object_id integer,
  retry_count integer DEFAULT 0,
  missing_on_primary boolean DEFAULT false NOT NULL,
  success boolean DEFAULT false NOT NULL,
  sha256 bytea,
  state smallint DEFAULT 0 NOT NULL,
  last_synced_at timestamp with time zone,
  last_sync_failure text,
  verification_started_at timestamp with time zone,
  verified_at timestamp with time zone,
  verification_retry_at timestamp with time zone,
  verification_retry_count integer DEFAULT 0,
  verification_state smallint DEFAULT 0 NOT NULL,
  checksum_mismatch boolean DEFAULT false NOT NULL,
  verification_checksum bytea,
  verification_checksum_mismatched bytea,
  verification_failure text,
  CONSTRAINT lfs_object_registry_pkey PRIMARY KEY (id),
  CONSTRAINT check_8bcaa12138 CHECK ((char_length(verification_failure) <= 255))
);
CREATE INDEX index_lfs_object_registry_on_last_synced_at ON lfs_object_registry USING btree (last_synced_at);
CREATE UNIQUE INDEX index_lfs_object_registry_on_lfs_object_id ON lfs_object_registry USING btree (lfs_object_id);
CREATE INDEX index_lfs_object_registry_on_retry_at ON lfs_object_registry USING btree (retry_at);
CREATE INDEX index_lfs_object_registry_on_success ON lfs_object_registry USING btree (success);
CREATE INDEX index_lfs_object_registry_on_verified_at ON lfs_object_registry USING btree (verified_at);
CREATE INDEX index_state_in_lfs_objects ON lfs_object_registry USING btree (state);
CREATE INDEX lfs_object_registry_failed_verification ON lfs_object_registry USING btree (verification_retry_at NULLS FIRST) WHERE ((state = 2) AND (verification_state = 3));
CREATE INDEX lfs_object_registry_needs_verification ON lfs_object_registry USING btree (verification_state) WHERE ((state = 2) AND (verification_state = ANY (ARRAY[0, 3])));
CREATE INDEX lfs_object_registry_pending_verification ON lfs_object_registry USING btree (verified_at NULLS FIRST) WHERE ((state = 2) AND (verification_state = 0));

-- 1..150 came with the backfill when the site was set up, then as objects were pushed. Kinds: s synced, m missing on the primary, h HTTP 503
-- since 11:29, c checksum differs, r resync ordered by an administrator, w started, n new
INSERT INTO lfs_object_registry (id, created_at, retry_at, lfs_object_id, retry_count, state, last_synced_at, last_sync_failure, verification_started_at, verified_at, verification_retry_at, verification_retry_count, verification_state, checksum_mismatch, verification_checksum, verification_checksum_mismatched, verification_failure)
SELECT i, c,
  CASE k WHEN 'm' THEN l + interval '4 hours 3.1 seconds' + (i % 31) * interval '1 second' WHEN 'h' THEN l + d[n] * interval '1 second' + interval '0.71 seconds' WHEN 'c' THEN l + interval '1 hour 41.220117 seconds' END,
  i * 3 + CASE WHEN i > 150 THEN 200 + i % 2 ELSE i % 3 END, CASE WHEN k IN ('m', 'h', 'c') THEN n ELSE 0 END,
  CASE k WHEN 's' THEN 2 WHEN 'w' THEN 1 WHEN 'n' THEN 0 WHEN 'r' THEN 0 ELSE 3 END, l,
  CASE k WHEN 'm' THEN 'The file is missing on the Geo primary site' WHEN 'h' THEN 'Non-success HTTP response status code 503' WHEN 'c' THEN 'Verification failed with: ' || vf END,
  CASE WHEN vs > 0 THEN va - interval '0.214 seconds' END, CASE WHEN vs IN (2, 3) THEN va END, CASE vs WHEN 3 THEN l + interval '1 hour 29.118 seconds' END, CASE vs WHEN 3 THEN n ELSE 0 END, vs, vs = 3,
  CASE WHEN vs IN (2, 3) THEN decode(left(md5('x' || i) || md5('y' || i), 40), 'hex') END, CASE vs WHEN 3 THEN decode(left(md5('x' || i) || md5('y' || i), 40), 'hex') END, CASE vs WHEN 3 THEN vf END
FROM (
  SELECT i, k, c, n, d, l, CASE k WHEN 'c' THEN 3 WHEN 's' THEN CASE WHEN i = 243 THEN 1 WHEN i IN (241, 242) THEN 0 ELSE 2 END WHEN 'r' THEN 2 ELSE 0 END AS vs, l + interval '31.6 seconds' + (i % 17) * interval '2.118 seconds' AS va,
    'Checksum does not match the primary checksum {:checksum=>"' || left(md5('x' || i) || md5('y' || i), 40) || '", :primary_checksum=>"' || left(md5('p' || i) || md5('y' || i), 40) || '"}' AS vf
  FROM (
    SELECT i, k, c, d, n, CASE k WHEN 'n' THEN NULL WHEN 's' THEN c + interval '24.31 seconds' + (i * 37 % 61) * interval '1.133 seconds' WHEN 'r' THEN c + interval '50.118 seconds'
        WHEN 'm' THEN timestamptz '2026-11-24 08:11:20.771203+00' + (i * 29 % 211) * interval '1 minute 2.118 seconds' WHEN 'c' THEN timestamptz '2026-11-24 11:20:31.448120+00' WHEN 'w' THEN timestamptz '2026-11-24 11:59:41.118203+00' + i % 5 * interval '1.71 seconds'
        ELSE c + (21 + (SELECT coalesce(sum(x), 0) FROM unnest(d[1:n - 1]) x)) * interval '1 second' + n * interval '6.113 seconds' END AS l
    FROM (
      SELECT i, k, c, d, CASE k WHEN 'm' THEN (extract(epoch FROM timestamptz '2026-11-24 11:50:00+00' - c) / 14460)::int WHEN 'c' THEN 11
          WHEN 'h' THEN greatest(1, (SELECT count(*)::int FROM generate_series(1, 6) j WHERE c + (21 + (SELECT coalesce(sum(x), 0) FROM unnest(d[1:j - 1]) x)) * interval '1 second' + j * interval '6.2 seconds' < timestamptz '2026-11-24 11:59:40+00')) ELSE 0 END AS n
      FROM (
        SELECT i, CASE WHEN i IN (31, 77, 118, 163) THEN 'm' WHEN i = 190 THEN 'c' WHEN i IN (52, 53) THEN 'r' WHEN i <= 243 THEN 's' WHEN i <= 252 THEN 'h' WHEN i <= 254 THEN 'w' ELSE 'n' END AS k,
          CASE WHEN i <= 150 THEN timestamptz '2026-10-14 13:21:07.512208+00' + i / 50 * interval '1 minute' WHEN i <= 240 THEN timestamptz '2026-10-14 15:02:11.331408+00' + (i - 150) * interval '10 hours 51 minutes 13.117 seconds' + (i * i % 23) * interval '11 minutes'
            WHEN i <= 243 THEN timestamptz '2026-11-24 11:26:17.220441+00' + (i - 240) * interval '51.117 seconds' WHEN i <= 252 THEN timestamptz '2026-11-24 11:29:33.118409+00' + (i - 243) * interval '2 minutes 58.331 seconds'
            ELSE timestamptz '2026-11-24 11:57:40.771208+00' + (i - 252) * interval '10.733 seconds' END AS c,
          ARRAY[16 + 11 * (i % 5), 31 + 13 * (i % 6), 96 + 17 * (i % 7), 271 + 19 * (i % 7), 640 + 29 * (i % 6), 1311 + 31 * (i % 6)] AS d
        FROM generate_series(1, 264) i
      ) a
    ) b
  ) e
) f ORDER BY i;
SELECT setval('lfs_object_registry_id_seq', (SELECT max(id) FROM lfs_object_registry));
