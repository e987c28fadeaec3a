-- dialect: postgres
CREATE TABLE ir_module_module (id serial PRIMARY KEY, name varchar NOT NULL UNIQUE, state varchar, latest_version varchar, create_date timestamp, write_date timestamp);
INSERT INTO ir_module_module (name, state, latest_version, create_date, write_date) VALUES ('base', 'installed', '17.0.1.3', '2026-10-01 07:00', '2026-10-01 07:00'), ('mail', 'installed', '17.0.1.15', '2026-10-01 07:01', '2026-10-01 07:01'), ('sale', 'uninstalled', NULL, '2026-10-01 07:01', '2026-10-01 07:01');
CREATE TABLE res_users (id serial PRIMARY KEY, login varchar NOT NULL UNIQUE, active boolean DEFAULT true, create_date timestamp);
INSERT INTO res_users (login, active, create_date) VALUES ('__system__', false, '2026-10-01 07:00'), ('admin', true, '2026-10-01 07:00'), ('sales@firm.example', true, '2026-10-02 09:00');
CREATE TABLE ir_mail_server (id serial PRIMARY KEY, name varchar NOT NULL, smtp_host varchar, smtp_port integer, sequence integer, active boolean);
INSERT INTO ir_mail_server (name, smtp_host, smtp_port, sequence, active) VALUES ('Outgoing', 'smtp.firm.example', 587, 10, true);
CREATE TABLE mail_message (id serial PRIMARY KEY, subject varchar, date timestamp, body text, message_type varchar NOT NULL, model varchar, res_id integer, email_from varchar, message_id varchar, create_date timestamp, write_date timestamp);
INSERT INTO mail_message (subject, date, body, message_type, model, res_id, email_from, message_id, create_date, write_date)
SELECT 'Order S000' || g, d, '<p>Your order</p>', 'email_outgoing', 'sale.order', g, 'sales@firm.example', '<' || 100 + g || '@firm.example>', d, d FROM (SELECT g, timestamp '2026-10-08 06:40' + g * interval '9 hours 20 minutes' AS d FROM generate_series(1, 12) g) x;

CREATE TABLE mail_mail (
  id serial PRIMARY KEY,
  mail_message_id integer NOT NULL,
  fetchmail_server_id integer,
  mail_server_id integer,
  create_uid integer REFERENCES res_users (id) ON DELETE SET NULL,
  write_uid integer REFERENCES res_users (id) ON DELETE SET NULL,
  email_cc varchar,
  state varchar,
  failure_type varchar,
  body_html text,
  "references" text,
  headers text,
  email_to text,
  failure_reason text,
  is_notification boolean,
  auto_delete boolean,
  scheduled_date timestamp without time zone,
  create_date timestamp without time zone,
  write_date timestamp without time zone
);
CREATE INDEX mail_mail__mail_message_id_index ON mail_mail (mail_message_id);
CREATE INDEX mail_mail__fetchmail_server_id_index ON mail_mail (fetchmail_server_id);

INSERT INTO mail_mail (mail_message_id, mail_server_id, create_uid, write_uid, email_cc, state, failure_type, body_html, "references", headers, email_to, failure_reason, is_notification, auto_delete, scheduled_date, create_date, write_date)
SELECT 400 + i, CASE WHEN i % 2 = 0 THEN 1 END, 2 + i % 2, CASE k WHEN 'outgoing' THEN 2 + i % 2 ELSE 1 END,
  CASE WHEN i % 11 = 0 THEN 'boss@firm.example' END, k,
  CASE k WHEN 'exception' THEN CASE i % 3 WHEN 0 THEN 'mail_smtp' WHEN 1 THEN 'mail_email_invalid' ELSE 'unknown' END END,
  '<div><p>Hello,</p><p>here is document ' || i || '.</p></div>', '<' || 100 + i || '@firm.example>',
  '{"X-Odoo-Objects": "sale.order-' || i || '"}',
  '"Customer ' || i || '" <c' || i || '@mail.example>',
  CASE k WHEN 'exception' THEN CASE i % 3 WHEN 0 THEN 'Connection failed (outgoing mail server problem)' WHEN 1 THEN 'Invalid email address' ELSE '(550, b''5.1.1 User unknown'')' END END,
  i % 3 <> 0, i % 4 = 1 AND k <> 'sent',
  CASE WHEN k = 'outgoing' AND i > 103 THEN timestamp '2026-11-24 16:00' + (i % 5) * interval '9 hours' WHEN i % 13 = 0 THEN c + interval '1 hour' END,
  c, CASE k WHEN 'outgoing' THEN c WHEN 'sent' THEN least(c + (30 + i % 40) * interval '1 minute', timestamp '2026-11-24 11:50') ELSE c + interval '61 minutes' END
FROM (
  SELECT i, CASE WHEN i <= 97 THEN timestamp '2026-10-12 06:40:11.2231' + i * interval '10 hours 20 minutes' ELSE timestamp '2026-11-24 11:22:11.408812' + (i - 97) * interval '3 minutes' END AS c,
    CASE WHEN i <= 97 AND i % 14 = 6 THEN 'exception' WHEN i <= 97 AND i % 33 = 17 THEN 'cancel' WHEN i IN (22, 71) THEN 'received' WHEN i <= 97 THEN 'sent' ELSE 'outgoing' END AS k
  FROM generate_series(1, 109) i) s ORDER BY i;
