-- dialect: postgres
CREATE TABLE v_domains (domain_uuid uuid PRIMARY KEY, domain_parent_uuid uuid, domain_name text, domain_enabled text, domain_description text, insert_date timestamptz, insert_user uuid, update_date timestamptz, update_user uuid);
INSERT INTO v_domains (domain_uuid, domain_name, domain_enabled, insert_date) VALUES
  ('6e0a3ed4-6c7b-4c11-9e0e-3b1f5b0c7a01', 'pbx.corp.example', 'true', '2026-08-03 09:12:44.120934+00'), ('6e0a3ed4-6c7b-4c11-9e0e-3b1f5b0c7a02', 'clinic.example', 'true', '2026-08-19 14:02:10.553102+00');

CREATE TABLE v_email_queue (
  email_queue_uuid uuid PRIMARY KEY,
  domain_uuid uuid,
  hostname text,
  email_date timestamptz,
  email_from text,
  email_to text,
  email_subject text,
  email_body text,
  email_status text,
  email_retry_count numeric,
  email_action_before text,
  email_action_after text,
  email_uuid uuid,
  email_transcription text,
  email_response text,
  insert_date timestamptz,
  insert_user uuid,
  update_date timestamptz,
  update_user uuid
);
-- the service looks every two minutes (the last time at 11:58:40); the mail server has been refusing connections since 11:45
INSERT INTO v_email_queue (email_queue_uuid, domain_uuid, hostname, email_date, email_from, email_to, email_subject, email_body, email_status, email_retry_count, email_action_after, email_uuid, email_transcription, email_response, insert_date, insert_user, update_date)
SELECT overlay(overlay(md5('eq' || i) placing '4' from 13) placing 'a' from 17)::uuid,
  ('6e0a3ed4-6c7b-4c11-9e0e-3b1f5b0c7a0' || 1 + (i % 3 = 1)::int)::uuid, 'pbx01', t, 'Voicemail<noreply@corp.example>',
  CASE WHEN bad THEN 'ext' || 100 + i % 40 || '@gone.example' ELSE 'user' || i % 23 || '@corp.example' END,
  CASE kind WHEN 'vm' THEN 'Voicemail from Caller ' || i % 31 || ' <0151' || 200000 + i * 311 || '> 00:00:' || lpad((10 + i % 49)::text, 2, '0')
    WHEN 'missed' THEN 'Missed Call from Caller ' || i % 31 || ' <0151' || 200000 + i * 311 || '>' ELSE 'Password Reset' END,
  CASE kind WHEN 'vm' THEN '<html><body>New voicemail for extension ' || 100 + i % 23 || '<br>${message_text}</body></html>' ELSE '<html><body>' || kind || ' ' || i || '</body></html>' END,
  st, n,
  CASE kind WHEN 'vm' THEN CASE WHEN i % 4 = 0 THEN 'delete' ELSE '' END END,
  CASE kind WHEN 'vm' THEN md5('vm' || i)::uuid END,
  CASE WHEN kind = 'vm' AND st = 'sent' AND i % 3 = 1 THEN 'Hello, this is caller ' || i % 31 || ', please call me back.' END,
  CASE WHEN st = 'waiting' THEN NULL ELSE E'smtp_auth: true\nsmtp_from: noreply@corp.example\nsmtp_host: mail.corp.example:587\nsmtp_password: [REDACTED]\nsmtp_secure: tls\n\n' || CASE
    WHEN st = 'sent' THEN E'SERVER -> CLIENT: 220 mail.corp.example ESMTP\nCLIENT -> SERVER: DATA\nSERVER -> CLIENT: 250 2.0.0 Ok: queued as ' || upper(substr(md5('q' || i), 1, 10))
    WHEN bad THEN 'SMTP Error: The following recipients failed: ext' || 100 + i % 40 || '@gone.example: 550 5.1.1 User unknown'
    ELSE 'SMTP ERROR: Failed to connect to server: Connection refused (111)' END END,
  CASE WHEN kind <> 'vm' THEN t END, CASE kind WHEN 'reset' THEN md5('admin')::uuid END,
  CASE st WHEN 'waiting' THEN NULL WHEN 'sent' THEN tick + coalesce(n, 0) * interval '120.31 seconds' ELSE tick + (n - 1) * interval '120.08 seconds' END
FROM (
  SELECT i, t, bad, kind,
    CASE WHEN i <= 231 THEN t + ((i * 37) % 118 + 2) * interval '1.013 seconds' ELSE timestamptz '2026-11-24 11:58:41.332101+00' - (cnt - 1) * interval '120.08 seconds' + i * interval '0.021 seconds' END AS tick,
    CASE WHEN i <= 231 THEN CASE WHEN bad THEN 'failed' ELSE 'sent' END WHEN cnt >= 5 THEN 'failed' WHEN cnt >= 1 THEN 'trying' ELSE 'waiting' END AS st,
    CASE WHEN i <= 231 THEN CASE WHEN bad THEN 5 WHEN i IN (44, 45, 46, 152) THEN 1 + i % 3 END WHEN cnt >= 1 THEN least(cnt, 5) END AS n
  FROM (SELECT i, t, i <= 231 AND i % 33 = 8 AS bad, CASE WHEN i % 19 = 11 THEN 'reset' WHEN i % 3 = 0 THEN 'missed' ELSE 'vm' END AS kind,
      CASE WHEN i > 231 THEN ceil(extract(epoch FROM timestamptz '2026-11-24 11:58:40+00' - t) / 120)::int END AS cnt
    FROM (SELECT i, CASE WHEN i <= 231 THEN timestamptz '2026-10-09 08:04:51.220817+00' + i * interval '4 hours 45 minutes 3.1 seconds' + ((i * 97) % 1200) * interval '1.007 seconds'
        ELSE timestamptz '2026-11-24 11:49:22.618441+00' + (i - 231) * interval '33.204 seconds' END AS t FROM generate_series(1, 249) i) a) b
) c ORDER BY i;

CREATE TABLE v_email_queue_attachments (email_queue_attachment_uuid uuid PRIMARY KEY, domain_uuid uuid, email_queue_uuid uuid, email_attachment_mime_type text, email_attachment_type text, email_attachment_path text, email_attachment_name text, email_attachment_base64 text, email_attachment_cid text, insert_date timestamptz, insert_user uuid, update_date timestamptz, update_user uuid);
INSERT INTO v_email_queue_attachments (email_queue_attachment_uuid, domain_uuid, email_queue_uuid, email_attachment_type, email_attachment_path, email_attachment_name)
SELECT md5('att' || email_queue_uuid)::uuid, domain_uuid, email_queue_uuid, 'wav', '/var/lib/freeswitch/storage/voicemail/default/pbx.corp.example/101', 'msg_' || email_uuid || '.wav' FROM v_email_queue WHERE email_uuid IS NOT NULL AND email_date > '2026-11-23';
