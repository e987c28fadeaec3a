-- dialect: postgres
CREATE TABLE organization (id serial PRIMARY KEY NOT NULL, name varchar(255) NOT NULL UNIQUE, description varchar(2048) NOT NULL, email varchar(2048) NOT NULL);
INSERT INTO organization (name, description, email) VALUES ('Verein Seebühne', 'Konzerte und Lesungen', 'info@seebuehne.example'), ('JUG Graubünden', 'Java user group', 'team@jug-gr.example');
CREATE TABLE event (id serial PRIMARY KEY NOT NULL, short_name varchar(2048) NOT NULL, display_name varchar(255), start_ts timestamp with time zone NOT NULL, end_ts timestamp with time zone NOT NULL, org_id integer NOT NULL REFERENCES organization (id), status varchar(255) NOT NULL DEFAULT 'DRAFT');
INSERT INTO event (short_name, display_name, start_ts, end_ts, org_id, status) VALUES
  ('winterkonzert', 'Winterkonzert 2026', '2026-12-19 18:30+00', '2026-12-19 21:30+00', 1, 'PUBLIC'),
  ('lesung-jan', 'Lesung im Januar', '2027-01-14 18:00+00', '2027-01-14 20:00+00', 1, 'PUBLIC'),
  ('devday', 'Developer Day', '2026-12-03 07:30+00', '2026-12-03 17:00+00', 2, 'PUBLIC');
CREATE TABLE subscription_descriptor (id uuid PRIMARY KEY NOT NULL, title jsonb NOT NULL, validity_from timestamp with time zone, validity_to timestamp with time zone, organization_id_fk integer NOT NULL REFERENCES organization (id));
INSERT INTO subscription_descriptor VALUES ('3c1f3e0a-5d0b-4a2c-9d5a-8f7e2b6a1c44', '{"de":"Abo Saison 26/27"}', '2026-09-01', '2027-06-30', 1);

CREATE TABLE email_message (
  id serial PRIMARY KEY NOT NULL,
  event_id integer,
  status varchar(255) NOT NULL,
  recipient varchar(255) NOT NULL,
  subject varchar(255) NOT NULL,
  message text NOT NULL,
  attachments text,
  checksum varchar(255) NOT NULL,
  request_ts timestamp with time zone NOT NULL,
  sent_ts timestamp with time zone,
  attempts integer DEFAULT 0 NOT NULL,
  email_cc text,
  organization_id_fk integer NOT NULL REFERENCES organization (id),
  reservation_id character(36),
  html_message text,
  subscription_descriptor_id_fk uuid CONSTRAINT email_message_subscription_descriptor_fk REFERENCES subscription_descriptor (id),
  FOREIGN KEY (event_id) REFERENCES event (id)
);
CREATE INDEX idx_email_msg_checksum ON email_message (checksum);
CREATE INDEX idx_email_event_id ON email_message (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX idx_email_subscription_descriptor ON email_message (subscription_descriptor_id_fk) WHERE subscription_descriptor_id_fk IS NOT NULL;
CREATE INDEX idx_email_subscription_status_process ON email_message (status) WHERE status = 'WAITING' OR status = 'RETRY';

WITH g AS (
  SELECT i, CASE WHEN i % 13 = 5 THEN NULL ELSE 1 + (i * 7) % 3 END AS ev, i % 3 AS kind, (i + 1) / 3 AS res,
    CASE WHEN i <= 270 THEN timestamptz '2026-10-06 06:12:00+00' + i * interval '4 hours 21 minutes' + (i * 7919 % 5400) * interval '1 second'
         WHEN i <= 274 THEN timestamptz '2026-11-24 11:56:10+00' + (i - 270) * interval '21.3 seconds'
         ELSE timestamptz '2026-11-24 11:58:49+00' + (i - 274) * interval '5.417 seconds' END AS t,
    CASE WHEN i <= 270 THEN CASE WHEN i IN (38, 121, 122, 203) THEN 'ERROR' WHEN i = 241 THEN 'WAITING' ELSE 'SENT' END
         WHEN i <= 274 THEN 'RETRY' WHEN i = 275 THEN 'IN_PROCESS' ELSE 'WAITING' END AS st,
    CASE WHEN i IN (38, 121, 122, 203) THEN 10 WHEN i IN (17, 18, 90, 160, 161, 162, 233) THEN 1 + i % 3 WHEN i BETWEEN 271 AND 274 THEN 277 - i ELSE 0 END AS att
  FROM generate_series(1, 285) AS i)
INSERT INTO email_message (event_id, status, recipient, subject, message, attachments, checksum, request_ts, sent_ts, attempts, email_cc, organization_id_fk, reservation_id, html_message, subscription_descriptor_id_fk)
SELECT ev, st,
  CASE WHEN i IN (38, 121, 122) THEN 'hans.mueller@gmial.example' WHEN kind = 2 THEN CASE WHEN ev = 3 THEN 'team@jug-gr.example' ELSE 'info@seebuehne.example' END ELSE 'gast' || (res * 37 % 211) || '@mail.example' END,
  CASE kind WHEN 0 THEN 'Ihre Reservation ' || upper(substr(md5('r' || res), 1, 8)) WHEN 1 THEN 'Ihr Ticket' ELSE 'Neue Reservation ' || upper(substr(md5('r' || res), 1, 8)) END,
  'Guten Tag, vielen Dank. Reservation ' || upper(substr(md5('r' || res), 1, 8)),
  CASE WHEN kind = 1 THEN '[{"filename":"ticket.pdf","contentType":"application/pdf","identifier":"TICKET_PDF","model":"{}"}]' WHEN kind = 0 THEN '[{"filename":"receipt.pdf","contentType":"application/pdf","identifier":"RECEIPT_PDF","model":"{}"}]' END,
  md5('c' || i) || md5('d' || i),
  CASE WHEN att > 0 THEN t + interval '48 seconds' + att * interval '1 minute' ELSE t END,
  CASE WHEN st = 'SENT' THEN CASE WHEN i IN (55, 147) THEN t + interval '6 days 3 hours' ELSE t + interval '1.214 seconds' * (1 + i % 4) + att * interval '5.3 seconds' END
       WHEN i = 241 THEN t + interval '2.9 seconds' END,
  att,
  CASE WHEN kind <> 1 THEN CASE WHEN kind = 2 AND ev = 1 THEN '["kasse@seebuehne.example"]' ELSE '[]' END END,
  CASE WHEN ev = 3 THEN 2 ELSE 1 END,
  substr(md5('r' || res), 1, 8) || '-' || substr(md5('r' || res), 9, 4) || '-4' || substr(md5('r' || res), 14, 3) || '-a' || substr(md5('r' || res), 18, 3) || '-' || substr(md5('r' || res), 21, 12),
  CASE WHEN st <> 'SENT' AND kind <> 2 THEN '<html><body><p>Guten Tag</p></body></html>' END,
  CASE WHEN ev IS NULL THEN '3c1f3e0a-5d0b-4a2c-9d5a-8f7e2b6a1c44'::uuid END
FROM g ORDER BY i;
