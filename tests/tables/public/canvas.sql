-- dialect: postgres
CREATE TABLE accounts (id bigserial PRIMARY KEY, name varchar(255), workflow_state varchar(255) DEFAULT 'active' NOT NULL, root_account_id bigint, created_at timestamp, updated_at timestamp);
INSERT INTO accounts (name, root_account_id, created_at, updated_at) VALUES ('Example College', NULL, '2026-10-01 06:00', '2026-10-01 06:00'), ('Faculty of Arts', 1, '2026-10-01 06:20', '2026-10-02 06:20');
CREATE TABLE notifications (id bigserial PRIMARY KEY, workflow_state varchar(255) DEFAULT 'active' NOT NULL, name varchar(255), subject varchar(255), category varchar(255), delay_for integer DEFAULT 120, created_at timestamp, updated_at timestamp);
INSERT INTO notifications (name, category, created_at, updated_at) SELECT n, 'Due Date', '2026-10-01 06:00', '2026-10-01 06:00' FROM unnest(ARRAY['Assignment Created', 'Submission Graded', 'New Announcement', 'Conversation Message']) n;
CREATE TABLE communication_channels (id bigserial PRIMARY KEY, path varchar(255) NOT NULL, path_type varchar(255) DEFAULT 'email' NOT NULL, user_id bigint NOT NULL, workflow_state varchar(255) NOT NULL, bounce_count integer DEFAULT 0, created_at timestamp, updated_at timestamp);
INSERT INTO communication_channels (path, user_id, workflow_state, created_at, updated_at) SELECT 'student' || g || '@college.example', 100 + g, CASE WHEN g = 7 THEN 'unconfirmed' ELSE 'active' END, '2026-10-01 08:00', '2026-10-01 08:00' FROM generate_series(1, 12) g;

CREATE TABLE messages (
  id bigserial PRIMARY KEY,
  "to" text,
  "from" text,
  subject text,
  body text,
  delay_for integer DEFAULT 120,
  dispatch_at timestamp without time zone,
  sent_at timestamp without time zone,
  workflow_state character varying(255),
  transmission_errors text,
  is_bounced boolean,
  notification_id bigint,
  communication_channel_id bigint,
  context_id bigint,
  context_type character varying,
  user_id bigint,
  created_at timestamp without time zone,
  updated_at timestamp without time zone,
  notification_name character varying(255),
  url text,
  path_type character varying(255),
  from_name text,
  to_email boolean,
  html_body text,
  root_account_id bigint,
  reply_to_name character varying(255)
);
CREATE INDEX existing_undispatched_message ON messages (context_id, context_type, notification_name, "to", user_id);
CREATE INDEX index_messages_on_communication_channel_id ON messages (communication_channel_id);
CREATE INDEX index_messages_on_notification_id ON messages (notification_id);
CREATE INDEX index_messages_on_root_account_id ON messages (root_account_id);
CREATE INDEX index_messages_on_sent_at ON messages (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX index_messages_user_id_dispatch_at_to_email ON messages (user_id, to_email, dispatch_at);

INSERT INTO messages ("to", "from", subject, body, delay_for, dispatch_at, sent_at, workflow_state, transmission_errors, is_bounced, notification_id, communication_channel_id, context_id, context_type, user_id, created_at, updated_at, notification_name, url, path_type, from_name, to_email, html_body, root_account_id, reply_to_name)
SELECT CASE WHEN dash THEN 'dashboard' ELSE 'student' || u || '@college.example' END, 'notifications@college.example',
  nn || ': Essay ' || i % 14 || ', History 101', 'Your teacher posted something about Essay ' || i % 14 || '.' || chr(10) || 'https://lms.college.example/courses/' || 20 + i % 5,
  CASE WHEN i % 9 = 0 THEN 0 ELSE 120 END,
  CASE WHEN dash THEN c + interval '2 minutes'
       WHEN st = 'staged' AND i > 188 THEN timestamp '2026-11-24 18:00' + (i % 4) * interval '6 hours'
       WHEN st = 'staged' AND err THEN timestamp '2026-11-24 11:56:20' + (i % 5) * interval '2 minutes'
       ELSE c + interval '2 minutes' END,
  CASE WHEN st IN ('sent', 'bounced') THEN c + interval '2 minutes' + (3 + i % 40) * interval '1 second' END,
  st,
  CASE WHEN st = 'transmission_error' THEN CASE i % 2 WHEN 0 THEN '#<Net::SMTPSyntaxError: 501 5.1.3 Bad recipient address syntax>' ELSE '#<Net::SMTPFatalError: 550 5.1.1 User unknown>' END
       WHEN err THEN '#<Net::OpenTimeout: execution expired>' || chr(10) || 'lib/net/smtp.rb:539:in `tcp_socket''' END,
  CASE WHEN st = 'bounced' THEN true END,
  1 + i % 4, CASE WHEN NOT dash THEN u END, 900 + i % 31, CASE i % 4 WHEN 3 THEN 'ConversationMessage' ELSE 'Assignment' END, 100 + u, c,
  CASE st WHEN 'sent' THEN c + interval '2 minutes' + (3 + i % 40) * interval '1 second' WHEN 'bounced' THEN c + interval '11 minutes' WHEN 'transmission_error' THEN c + interval '3 minutes' WHEN 'cancelled' THEN c + interval '1 minute' WHEN 'closed' THEN c + interval '2 days' WHEN 'sending' THEN timestamp '2026-11-24 11:59:57.21' ELSE CASE WHEN err THEN timestamp '2026-11-24 11:51:20' + (i % 5) * interval '2 minutes' ELSE c END END,
  nn, 'https://lms.college.example/courses/' || 20 + i % 5, CASE WHEN dash THEN 'dashboard' ELSE 'email' END, 'Example College', NOT dash,
  CASE WHEN NOT dash THEN '<html><body><p>Your teacher posted something.</p></body></html>' END, 1, CASE i % 4 WHEN 3 THEN 'Ann' END
FROM (SELECT *, st IN ('closed', 'dashboard') AS dash, st = 'staged' AND i BETWEEN 150 AND 172 AS err, 1 + i % 12 AS u,
    CASE i % 4 WHEN 0 THEN 'Assignment Created' WHEN 1 THEN 'Submission Graded' WHEN 2 THEN 'New Announcement' ELSE 'Conversation Message' END AS nn
  FROM (SELECT i,
    CASE WHEN i <= 168 THEN timestamp '2026-10-15 07:21:16.09' + i * interval '5 hours 41 minutes' + (i * 17 % 53) * interval '71 seconds' ELSE timestamp '2026-11-24 11:36:02.44' + (i - 168) * interval '42 seconds' END AS c,
    CASE WHEN i IN (161, 166, 168) THEN 'staged' WHEN i <= 168 THEN CASE WHEN i % 21 = 10 THEN 'transmission_error' WHEN i % 33 = 4 THEN 'bounced' WHEN i % 26 = 13 THEN 'closed' WHEN i % 40 = 7 THEN 'cancelled' WHEN i IN (140, 155) THEN 'dashboard' ELSE 'sent' END
         WHEN i <= 172 THEN 'staged' WHEN i <= 174 THEN 'sending' ELSE 'staged' END AS st
    FROM generate_series(1, 198) i) a) b ORDER BY i;
