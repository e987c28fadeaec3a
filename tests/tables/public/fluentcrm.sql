-- dialect: sqlite
CREATE TABLE wp_options (option_id INTEGER PRIMARY KEY AUTOINCREMENT, option_name VARCHAR(191) NOT NULL DEFAULT '' UNIQUE, option_value TEXT NOT NULL, autoload VARCHAR(20) NOT NULL DEFAULT 'yes');
INSERT INTO wp_options (option_name, option_value) VALUES ('siteurl', 'https://shop.example'), ('_fluentcrm_is_sending_emails', '1795521580'), ('fluentcrm_db_version', '2.9.2');
CREATE TABLE wp_fc_campaigns (id INTEGER PRIMARY KEY AUTOINCREMENT, parent_id BIGINT NULL, type VARCHAR(50) NOT NULL DEFAULT 'campaign', title VARCHAR(192) NOT NULL, slug VARCHAR(192) NOT NULL, status VARCHAR(50) NOT NULL, email_subject VARCHAR(192) NULL, email_body TEXT NOT NULL, recipients_count INT NOT NULL DEFAULT 0, scheduled_at TIMESTAMP NULL, settings TEXT NULL, created_by BIGINT NULL, created_at TIMESTAMP NULL, updated_at TIMESTAMP NULL);
INSERT INTO wp_fc_campaigns (title, slug, status, email_subject, email_body, recipients_count, scheduled_at, created_by, created_at, updated_at) VALUES ('October news', 'october-news', 'archived', 'October news', '<p>Hi</p>', 60, '2026-10-10 09:00:00', 1, '2026-10-09 15:00:00', '2026-10-10 09:20:00'), ('Autumn sale', 'autumn-sale', 'archived', 'Autumn sale', '<p>Hi</p>', 60, '2026-11-05 09:00:00', 1, '2026-11-04 15:00:00', '2026-11-05 09:20:00'), ('Black week', 'black-week', 'working', 'Black week', '<p>Hi</p>', 60, '2026-11-24 11:50:00', 1, '2026-11-23 15:00:00', '2026-11-24 11:50:00');
CREATE TABLE wp_fc_subscribers (id INTEGER PRIMARY KEY AUTOINCREMENT, hash VARCHAR(90) NULL, first_name VARCHAR(192) NULL, email VARCHAR(190) NOT NULL UNIQUE, status VARCHAR(50) NOT NULL DEFAULT 'subscribed', contact_type VARCHAR(50) NULL DEFAULT 'lead', created_at TIMESTAMP NULL, updated_at TIMESTAMP NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
INSERT INTO wp_fc_subscribers (hash, first_name, email, status, created_at, updated_at) SELECT printf('%08x%08x%08x%08x', (i * 2654435761 + 77) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296), 'Sub' || i, 'sub' || i || '@mail.example', CASE WHEN i = 6 THEN 'bounced' WHEN i = 13 THEN 'unsubscribed' ELSE 'subscribed' END, '2026-10-02 10:00:00', '2026-10-02 10:00:00' FROM n;

CREATE TABLE wp_fc_campaign_emails (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  campaign_id BIGINT NULL,
  email_type VARCHAR(50) NULL DEFAULT 'campaign',
  subscriber_id BIGINT NULL,
  email_subject_id BIGINT NULL,
  email_address VARCHAR(192) NOT NULL,
  email_subject VARCHAR(192) NULL,
  email_body TEXT NULL,
  email_headers TEXT NULL,
  is_open TINYINT(1) NOT NULL DEFAULT 0,
  is_parsed TINYINT(1) NOT NULL DEFAULT 0,
  click_counter INT NULL,
  status VARCHAR(50) NOT NULL DEFAULT 'draft',
  note TEXT NULL,
  scheduled_at TIMESTAMP NULL,
  email_hash VARCHAR(192) NULL,
  created_at TIMESTAMP NULL,
  updated_at TIMESTAMP NULL
);
CREATE INDEX wp_fc_cam__cid_idx ON wp_fc_campaign_emails (campaign_id);
CREATE INDEX wp_fc_cam__sid_idx ON wp_fc_campaign_emails (subscriber_id);
CREATE INDEX wp_fc_cam__et_idx ON wp_fc_campaign_emails (email_type);
CREATE INDEX wp_fc_cam__estidx ON wp_fc_campaign_emails (status);
CREATE INDEX wp_fc_cam__emtidx ON wp_fc_campaign_emails (email_hash);
CREATE INDEX wp_fc_cam__scheduled_at ON wp_fc_campaign_emails (scheduled_at);
CREATE INDEX wp_fc_cam__updated_at ON wp_fc_campaign_emails (updated_at);
CREATE INDEX wp_fc_cam_sc_at_status ON wp_fc_campaign_emails (scheduled_at, status);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 220),
k AS (SELECT i, CASE WHEN i BETWEEN 41 AND 80 THEN 1 WHEN i BETWEEN 121 AND 160 THEN 2 WHEN i BETWEEN 185 AND 212 THEN 3 END AS camp,
  CASE WHEN i BETWEEN 41 AND 80 THEN datetime('2026-10-10 08:58:00', '+' || (i - 40) || ' seconds') WHEN i BETWEEN 121 AND 160 THEN datetime('2026-11-05 08:58:00', '+' || (i - 120) || ' seconds')
       WHEN i <= 40 THEN datetime('2026-10-02 11:00:00', '+' || (i * 270 + (i * 7) % 60) || ' minutes') WHEN i <= 120 THEN datetime('2026-10-10 12:00:00', '+' || ((i - 80) * 900 + (i * 7) % 60) || ' minutes') WHEN i <= 184 THEN datetime('2026-11-05 12:00:00', '+' || ((i - 160) * 1080 + (i * 7) % 60) || ' minutes')
       WHEN i <= 212 THEN datetime('2026-11-24 11:48:30', '+' || (i - 184) || ' seconds') ELSE datetime('2026-11-24 11:50:10', '+' || ((i - 212) * 41) || ' seconds') END AS c,
  CASE WHEN i <= 184 THEN CASE WHEN i % 18 = 11 THEN 'failed' WHEN i IN (66, 146) THEN 'bounced' WHEN i IN (168, 176, 180) THEN 'scheduled' ELSE 'sent' END WHEN i <= 196 THEN 'sent' WHEN i <= 200 THEN 'processing' WHEN i <= 212 THEN 'pending' ELSE 'scheduled' END AS st FROM n)
INSERT INTO wp_fc_campaign_emails (campaign_id, email_type, subscriber_id, email_subject_id, email_address, email_subject, email_body, email_headers, is_open, is_parsed, click_counter, status, note, scheduled_at, email_hash, created_at, updated_at)
SELECT coalesce(camp, 10 + i % 2), CASE WHEN camp IS NULL THEN CASE i % 2 WHEN 0 THEN 'funnel_email_campaign' ELSE 'sequence_mail' END ELSE 'campaign' END, 1 + i % 20, NULL, 'sub' || (1 + i % 20) || '@mail.example',
  CASE coalesce(camp, 0) WHEN 1 THEN 'October news' WHEN 2 THEN 'Autumn sale' WHEN 3 THEN 'Black week' ELSE 'Welcome to the shop, part ' || (1 + i % 4) END,
  CASE WHEN st IN ('sent', 'failed', 'bounced') AND camp IS NULL THEN '<p>Hello Sub' || (1 + i % 20) || '</p>' ELSE '' END, 'a:1:{s:4:"From";s:22:"Shop <hi@shop.example>";}',
  CASE WHEN st = 'sent' AND i % 3 = 0 THEN 1 ELSE 0 END, CASE WHEN st IN ('sent', 'failed', 'bounced', 'processing') THEN 1 ELSE 0 END, CASE WHEN st = 'sent' AND i % 6 = 0 THEN 1 + (i / 6) % 3 END, st,
  CASE st WHEN 'failed' THEN CASE (i / 18) % 2 WHEN 0 THEN 'SMTP Error: Could not authenticate.' ELSE 'SimpleEmailService::sendRawEmail(): Throttling - Maximum sending rate exceeded' END WHEN 'bounced' THEN '550 5.1.1 The email account does not exist' END,
  CASE WHEN st = 'scheduled' THEN datetime('2026-11-24 12:30:00', '+' || ((i % 7) * 620) || ' minutes') WHEN camp IS NULL THEN c ELSE datetime(c, '+2 minutes') END,
  printf('%08x%08x%08x%08x', (i * 2654435761) % 4294967296, (i * 2246822519 + 374761393) % 4294967296, (i * 3266489917 + 668265263) % 4294967296, (i * 1597334677 + 12345) % 4294967296), c,
  CASE st WHEN 'scheduled' THEN c WHEN 'pending' THEN c WHEN 'processing' THEN '2026-11-24 11:59:40' WHEN 'bounced' THEN datetime(c, '+31 minutes') ELSE datetime(c, '+' || (125 + (i * 3) % 50) || ' seconds') END
FROM k ORDER BY i;
