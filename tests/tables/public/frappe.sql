-- dialect: sqlite
CREATE TABLE "tabUser" (name TEXT PRIMARY KEY, creation TEXT, modified TEXT, enabled INTEGER NOT NULL DEFAULT 1, email TEXT NOT NULL DEFAULT '', full_name TEXT);
INSERT INTO "tabUser" VALUES ('Administrator', '2026-10-01 07:00:00.000000', '2026-10-01 07:00:00.000000', 1, 'admin@firm.example', 'Administrator'), ('ann@firm.example', '2026-10-02 07:00:00.000000', '2026-10-02 07:00:00.000000', 1, 'ann@firm.example', 'Ann'), ('bob@firm.example', '2026-10-02 08:00:00.000000', '2026-10-02 08:00:00.000000', 0, 'bob@firm.example', 'Bob');
CREATE TABLE "tabEmail Account" (name TEXT PRIMARY KEY, creation TEXT, modified TEXT, email_id TEXT, smtp_server TEXT, enable_outgoing INTEGER NOT NULL DEFAULT 0, default_outgoing INTEGER NOT NULL DEFAULT 0);
INSERT INTO "tabEmail Account" VALUES ('Notifications', '2026-10-01 07:10:00.000000', '2026-10-01 07:10:00.000000', 'erp@firm.example', 'smtp.firm.example', 1, 1);
CREATE TABLE "tabSingles" (doctype TEXT, field TEXT, value TEXT);
CREATE INDEX "tabSingles_index" ON "tabSingles" (doctype, field);
INSERT INTO "tabSingles" VALUES ('System Settings', 'language', 'en'), ('System Settings', 'email_retry_limit', '3'), ('System Settings', 'time_zone', 'Europe/Berlin');

CREATE TABLE "tabEmail Queue" (
  name TEXT PRIMARY KEY,
  creation TEXT,
  modified TEXT,
  modified_by TEXT,
  owner TEXT,
  docstatus INTEGER NOT NULL DEFAULT 0,
  idx INTEGER NOT NULL DEFAULT 0,
  sender TEXT,
  show_as_cc TEXT,
  message TEXT,
  status TEXT DEFAULT 'Not Sent',
  error TEXT,
  message_id TEXT,
  reference_doctype TEXT,
  reference_name TEXT,
  communication TEXT,
  send_after TEXT,
  priority INTEGER NOT NULL DEFAULT 1,
  add_unsubscribe_link INTEGER NOT NULL DEFAULT 1,
  unsubscribe_param TEXT,
  unsubscribe_method TEXT,
  expose_recipients TEXT,
  attachments TEXT,
  retry INTEGER NOT NULL DEFAULT 0,
  email_account TEXT,
  "_user_tags" TEXT,
  "_comments" TEXT,
  "_assign" TEXT,
  "_liked_by" TEXT
);
CREATE INDEX "tabEmail Queue_modified_index" ON "tabEmail Queue" (modified);
CREATE INDEX "tabEmail Queue_reference_name_index" ON "tabEmail Queue" (reference_name);
CREATE INDEX "tabEmail Queue_communication_index" ON "tabEmail Queue" (communication);
CREATE INDEX index_bulk_flush ON "tabEmail Queue" (status, send_after, priority, creation);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 124),
k AS (
  SELECT i, strftime('%Y-%m-%d %H:%M:%S', CASE WHEN i <= 106 THEN '2026-10-28 05:11:09' ELSE '2026-11-24 11:10:09' END, '+' || (CASE WHEN i <= 106 THEN i * 358 + (i * 37) % 50 ELSE (i - 106) * 2 END) || ' minutes') || printf('.%06d', (i * 7919) % 1000000) AS c,
    CASE WHEN i <= 106 AND i % 17 = 6 THEN 'Error' WHEN i <= 106 THEN 'Sent' WHEN i <= 107 THEN 'Sending' WHEN i <= 110 THEN 'Partially Sent' ELSE 'Not Sent' END AS st
  FROM n)
INSERT INTO "tabEmail Queue" (name, creation, modified, modified_by, owner, sender, show_as_cc, message, status, error, message_id, reference_doctype, reference_name, communication, send_after, priority, add_unsubscribe_link, unsubscribe_method, expose_recipients, attachments, retry, email_account)
SELECT printf('%010x', (i * 2654435761 * 97 + 11) % 1099511627776), c,
  CASE st WHEN 'Sent' THEN strftime('%Y-%m-%d %H:%M:%S', c, '+4 minutes') || '.104211' WHEN 'Error' THEN strftime('%Y-%m-%d %H:%M:%S', c, '+21 minutes') || '.733001' ELSE c END,
  'Administrator', CASE i % 3 WHEN 0 THEN 'ann@firm.example' ELSE 'Administrator' END,
  'Firm <erp@firm.example>', '',
  'From: Firm <erp@firm.example>' || char(10) || 'To: <!--recipient-->' || char(10) || 'Subject: Sales Invoice ACC-SINV-2026-' || printf('%05d', i) || char(10) || char(10) || 'Please find it attached.',
  st,
  CASE WHEN st = 'Error' THEN 'Traceback (most recent call last):' || char(10) || CASE i % 2 WHEN 0 THEN 'smtplib.SMTPDataError: (552, b''message too large'')' ELSE 'UnicodeEncodeError: ''ascii'' codec can''t encode character' END
       WHEN st = 'Partially Sent' OR (st = 'Not Sent' AND i % 5 = 1) THEN 'smtplib.SMTPServerDisconnected: Connection unexpectedly closed' END,
  printf('%016x', i * 2654435761 * 31) || '@firm.example', 'Sales Invoice', printf('ACC-SINV-2026-%05d', i), printf('%010x', (i * 40503 * 65537) % 1099511627776),
  CASE WHEN i > 117 THEN strftime('%Y-%m-%d %H:%M:%S', '2026-11-24 13:00:00', '+' || ((i % 5) * 540) || ' minutes') || '.000000' END,
  CASE WHEN i % 9 = 0 THEN 0 ELSE 1 END, 0, '/api/method/frappe.email.queue.unsubscribe', CASE WHEN i % 4 = 0 THEN 'header' END,
  '[{"fid": null, "print_format_attachment": 1, "doctype": "Sales Invoice", "name": "' || printf('ACC-SINV-2026-%05d', i) || '"}]',
  CASE WHEN st = 'Error' THEN 3 WHEN st = 'Not Sent' AND i % 5 = 1 THEN 1 + i % 2 WHEN st = 'Sent' AND i % 20 = 0 THEN 1 ELSE 0 END,
  CASE WHEN st IN ('Sent', 'Partially Sent') THEN 'Notifications' END
FROM k ORDER BY i;
CREATE TABLE "tabEmail Queue Recipient" (name TEXT PRIMARY KEY, creation TEXT, modified TEXT, parent TEXT, parentfield TEXT, parenttype TEXT, idx INTEGER NOT NULL DEFAULT 0, recipient TEXT, status TEXT DEFAULT 'Not Sent', error TEXT);
CREATE INDEX "tabEmail Queue Recipient_parent_index" ON "tabEmail Queue Recipient" (parent);
INSERT INTO "tabEmail Queue Recipient" (name, creation, modified, parent, parentfield, parenttype, idx, recipient, status)
SELECT 'r' || name, creation, modified, name, 'recipients', 'Email Queue', 1, 'c' || rowid || '@mail.example', CASE WHEN status IN ('Sent', 'Partially Sent') THEN 'Sent' ELSE 'Not Sent' END FROM "tabEmail Queue" WHERE rowid > 104;
