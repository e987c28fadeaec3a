-- dialect: postgres
CREATE TABLE django_migrations (id bigserial PRIMARY KEY, app varchar(255) NOT NULL, name varchar(255) NOT NULL, applied timestamptz NOT NULL);
INSERT INTO django_migrations (app, name, applied) SELECT 'zerver', lpad((440 + g)::text, 4, '0') || '_step', timestamptz '2026-10-01 04:00+00' FROM generate_series(1, 5) g;
CREATE TABLE zerver_realm (id serial PRIMARY KEY, string_id varchar(40) NOT NULL UNIQUE, name varchar(40) NOT NULL, date_created timestamptz NOT NULL);
INSERT INTO zerver_realm (string_id, name, date_created) VALUES ('zulipinternal', 'System', '2026-10-01 04:00+00'), ('acme', 'Acme', '2026-10-01 05:00+00');
CREATE TABLE zerver_client (id serial PRIMARY KEY, name varchar(30) NOT NULL UNIQUE);
INSERT INTO zerver_client (name) VALUES ('website'), ('ZulipMobile'), ('ZulipElectron');
CREATE TABLE zerver_userprofile (id serial PRIMARY KEY, realm_id integer NOT NULL REFERENCES zerver_realm DEFERRABLE INITIALLY DEFERRED, delivery_email varchar(254) NOT NULL, full_name varchar(100) NOT NULL, is_active boolean NOT NULL, date_joined timestamptz NOT NULL);
INSERT INTO zerver_userprofile (realm_id, delivery_email, full_name, is_active, date_joined) SELECT 2, 'p' || g || '@acme.example', 'Person ' || g, g <> 5, timestamptz '2026-10-01 06:00+00' FROM generate_series(1, 8) g;

CREATE TABLE zerver_scheduledmessage (
  id serial PRIMARY KEY,
  subject varchar(60) NOT NULL,
  content text NOT NULL,
  scheduled_timestamp timestamp with time zone NOT NULL,
  delivered boolean NOT NULL,
  realm_id integer NOT NULL REFERENCES zerver_realm (id) DEFERRABLE INITIALLY DEFERRED,
  recipient_id integer NOT NULL,
  sender_id integer NOT NULL REFERENCES zerver_userprofile (id) DEFERRABLE INITIALLY DEFERRED,
  sending_client_id integer NOT NULL REFERENCES zerver_client (id) DEFERRABLE INITIALLY DEFERRED,
  stream_id integer,
  delivery_type smallint NOT NULL CHECK (delivery_type >= 0),
  rendered_content text NOT NULL,
  has_attachment boolean NOT NULL,
  failed boolean NOT NULL,
  failure_message text,
  delivered_message_id integer,
  read_by_sender boolean NOT NULL
);
CREATE INDEX zerver_scheduledmessage_scheduled_timestamp_idx ON zerver_scheduledmessage (scheduled_timestamp);
CREATE INDEX zerver_scheduledmessage_has_attachment_idx ON zerver_scheduledmessage (has_attachment);
CREATE INDEX zerver_unsent_scheduled_messages_by_time ON zerver_scheduledmessage (scheduled_timestamp) WHERE NOT delivered AND NOT failed;
CREATE INDEX zerver_realm_unsent_scheduled_messages_by_user ON zerver_scheduledmessage (realm_id, sender_id, delivery_type, scheduled_timestamp) WHERE NOT delivered;

INSERT INTO zerver_scheduledmessage (subject, content, scheduled_timestamp, delivered, realm_id, recipient_id, sender_id, sending_client_id, stream_id, delivery_type, rendered_content, has_attachment, failed, failure_message, delivered_message_id, read_by_sender)
SELECT CASE WHEN i % 3 = 0 THEN '' ELSE 'topic ' || i % 11 END,
  'Reminder number ' || i || ': please look at it.',
  CASE k WHEN 'new' THEN timestamptz '2026-11-24 11:55+00' + ((i - 93) * 7 % 23) * interval '9 hours 5 minutes' ELSE timestamptz '2026-10-03 08:00+00' + i * interval '13 hours' END,
  k = 'done', 2, 20 + i % 15, 1 + i % 8, 1 + i % 3, CASE WHEN i % 3 = 0 THEN NULL ELSE 4 + i % 5 END,
  CASE WHEN i % 10 = 0 THEN 2 ELSE 1 END,
  '<p>Reminder number ' || i || ': please look at it.</p>', i % 9 = 0,
  k = 'failed',
  CASE k WHEN 'failed' THEN CASE i / 12 % 3 WHEN 0 THEN 'Message could not be sent at the scheduled time.' WHEN 1 THEN 'You do not have permission to post in this channel.' ELSE 'Internal server error.' END END,
  CASE k WHEN 'done' THEN 7000 + i * 17 END, i % 4 <> 0
FROM (SELECT i, CASE WHEN i <= 92 AND i % 12 = 4 THEN 'failed' WHEN i <= 92 THEN 'done' ELSE 'new' END AS k FROM generate_series(1, 110) i) s ORDER BY i;
