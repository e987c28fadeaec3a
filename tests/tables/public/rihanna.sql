-- dialect: postgres
CREATE TABLE members (
  id bigserial PRIMARY KEY,
  email varchar(255) NOT NULL,
  full_name varchar(255),
  inserted_at timestamp(0) without time zone NOT NULL,
  updated_at timestamp(0) without time zone NOT NULL
);
INSERT INTO members (email, full_name, inserted_at, updated_at)
SELECT 'member' || g || '@club.example', 'Member ' || g, timestamp '2026-10-02 08:00:00' + g * interval '3 days 5 hours', timestamp '2026-10-02 08:00:00' + g * interval '3 days 7 hours' FROM generate_series(1, 14) g;

CREATE TABLE rihanna_jobs (
  id int NOT NULL,
  term bytea NOT NULL,
  priority integer NOT NULL DEFAULT 50,
  enqueued_at timestamp with time zone NOT NULL,
  due_at timestamp with time zone,
  failed_at timestamp with time zone,
  fail_reason text,
  rihanna_internal_meta jsonb NOT NULL DEFAULT '{}',
  CONSTRAINT failed_at_required_fail_reason CHECK((failed_at IS NOT NULL AND fail_reason IS NOT NULL) OR (failed_at IS NULL and fail_reason IS NULL))
);
COMMENT ON CONSTRAINT failed_at_required_fail_reason ON rihanna_jobs IS 'When setting failed_at you must also set a fail_reason';
CREATE SEQUENCE rihanna_jobs_id_seq START WITH 1 INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 CACHE 1 CYCLE;
ALTER SEQUENCE rihanna_jobs_id_seq OWNED BY rihanna_jobs.id;
ALTER TABLE ONLY rihanna_jobs ALTER COLUMN id SET DEFAULT nextval('rihanna_jobs_id_seq'::regclass);
ALTER TABLE ONLY rihanna_jobs ADD CONSTRAINT rihanna_jobs_pkey PRIMARY KEY (id);
CREATE INDEX IF NOT EXISTS rihanna_jobs_locking_index ON rihanna_jobs (priority ASC, due_at ASC NULLS FIRST, enqueued_at ASC, id ASC);

-- finished jobs are deleted. k: failed for good (kept), later (enqueued with due_at), retry (an invoice service that answers 503 since 11:31), new
WITH a AS (
  SELECT i, CASE WHEN i <= 96 THEN 'failed' WHEN i <= 151 THEN 'later' WHEN i <= 160 THEN 'retry' ELSE 'new' END AS k,
    CASE WHEN i <= 96 THEN timestamptz '2026-10-05 07:12:44.310288+00' + i * interval '12 hours 31 minutes 7.0131 seconds' + (i * i % 83) * interval '4.117 minutes'
      WHEN i <= 151 THEN timestamptz '2026-11-10 09:01:13.550193+00' + (i - 96) * interval '6 hours 4 minutes 11.377 seconds' + (i * 29 % 47) * interval '1.893 minutes'
      WHEN i <= 160 THEN timestamptz '2026-11-24 11:31:20.118804+00' + (i - 151) * interval '2 minutes 49.301 seconds'
      ELSE timestamptz '2026-11-24 11:59:57.004311+00' + (i - 160) * interval '0.287 seconds' END AS c
  FROM generate_series(1, 168) i
), b AS (
  SELECT *, CASE k WHEN 'failed' THEN (ARRAY['MailReceipt', 'SyncCalendar', 'ResizeAvatar', 'MailReceipt', 'PushInvoice'])[1 + i % 5]
    WHEN 'later' THEN (ARRAY['EventReminder', 'TrialEnding', 'EventReminder'])[1 + i % 3] WHEN 'retry' THEN 'PushInvoice'
    ELSE (ARRAY['MailReceipt', 'PushInvoice', 'SyncCalendar'])[1 + i % 3] END AS job,
    CASE k WHEN 'retry' THEN CASE WHEN i <= 152 THEN 4 WHEN i <= 156 THEN 3 WHEN i <= 159 THEN 2 ELSE 1 END ELSE 0 END AS n FROM a
), d AS (
  SELECT *, ROW_NUMBER() OVER (ORDER BY c, i) AS o, 'Elixir.Club.Jobs.' || job AS m,
    CASE WHEN k = 'failed' AND job = 'PushInvoice' THEN c + interval '52 minutes 11.402 seconds' + i * interval '0.613 seconds' WHEN k = 'failed' AND i % 12 = 3 THEN c + interval '2 days' END AS fdue
  FROM b
)
INSERT INTO rihanna_jobs (id, term, priority, enqueued_at, due_at, failed_at, fail_reason, rihanna_internal_meta)
SELECT 4100 + o * 61 + CASE k WHEN 'new' THEN 0 ELSE i % 17 END,
  decode('836802' || '77' || lpad(to_hex(length(m)), 2, '0') || encode(convert_to(m, 'UTF8'), 'hex') || '6c00000001' || '62' || lpad(to_hex(310 + i * 17 % 900), 8, '0') || '6a', 'hex'),
  CASE job WHEN 'PushInvoice' THEN 20 WHEN 'MailReceipt' THEN 10 ELSE 50 END,
  c,
  CASE k WHEN 'later' THEN date_trunc('minute', CASE WHEN i % 3 = 1 THEN c + interval '14 days 3 hours' ELSE timestamptz '2026-11-25 07:00:00+00' + (i * 31 % 29) * interval '9 hours 30 minutes' END)
    WHEN 'retry' THEN timestamptz '2026-11-24 12:00:00+00' + (ARRAY[13, 184, 402, 1170])[n] * interval '1 second' + i * interval '1.713 seconds' WHEN 'failed' THEN fdue END,
  CASE k WHEN 'failed' THEN coalesce(fdue, c) + (i % 9) * interval '0.417 seconds' + interval '31.207 milliseconds' END,
  CASE k WHEN 'failed' THEN CASE job WHEN 'MailReceipt' THEN E'Job Failed\n{:error, {:retries_exceeded, {:temporary_failure, ''mx.club.example'', "451 4.7.1 Greylisted\\r\\n"}}}'
    WHEN 'SyncCalendar' THEN E'Job Failed\n{:error, :unauthorized}'
    WHEN 'PushInvoice' THEN E'Job Failed\n{:error, %{status: ' || CASE WHEN i % 2 = 0 THEN '503' ELSE '422' END || '}}'
    ELSE E'an exception was raised:\n    ** (File.Error) could not read file "/uploads/' || i * 17 || E'.png": no such file or directory\n        (elixir 1.14.5) lib/file.ex:358: File.read!/1\n        (club 0.9.2) lib/club/jobs/resize_avatar.ex:11: Club.Jobs.ResizeAvatar.perform/1' END END,
  CASE WHEN n > 0 THEN jsonb_build_object('attempts', n) WHEN k = 'failed' AND job = 'PushInvoice' THEN '{"attempts": 5}' ELSE '{}' END::jsonb
FROM d ORDER BY o;
SELECT setval('rihanna_jobs_id_seq', (SELECT max(id) FROM rihanna_jobs));
