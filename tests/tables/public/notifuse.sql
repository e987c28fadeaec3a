-- dialect: postgres
CREATE TABLE webhook_subscriptions (
  id VARCHAR(32) PRIMARY KEY,
  name VARCHAR(255) NOT NULL,
  url TEXT NOT NULL,
  secret VARCHAR(64) NOT NULL,
  settings JSONB NOT NULL DEFAULT '{}'::jsonb,
  enabled BOOLEAN DEFAULT true,
  created_at TIMESTAMPTZ DEFAULT NOW(),
  updated_at TIMESTAMPTZ DEFAULT NOW(),
  last_delivery_at TIMESTAMPTZ
);
CREATE INDEX idx_webhook_subscriptions_enabled ON webhook_subscriptions(enabled) WHERE enabled = true;
INSERT INTO webhook_subscriptions VALUES
('whsub7c1e90a2b4d84f6e9a', 'CRM sync', 'https://crm.example/hooks/notifuse', 'whsec_3vJmK0y8H1xq5Qw2Lr7Zt9Ub4Nc6Pd', '{"event_types": ["contact.created", "contact.updated", "list.subscribed", "list.unsubscribed"]}', true, '2026-09-14 08:22:10.118+00', '2026-09-14 08:22:10.118+00', '2026-11-24 11:58:21.402+00'),
('whsub0d52fb8e613c4a79b1', 'Warehouse', 'https://dwh.example/in/mail', 'whsec_9aTg5Xe2Yb8Mk1Wo7Rf3Hs6Jv0Lp4Q', '{"event_types": ["email.sent", "email.delivered", "email.opened", "email.clicked", "email.bounced"]}', true, '2026-10-05 13:40:55.730+00', '2026-10-05 13:40:55.730+00', '2026-11-24 11:20:09.911+00');

CREATE TABLE webhook_deliveries (
  id VARCHAR(36) PRIMARY KEY,
  subscription_id VARCHAR(32) NOT NULL,
  event_type VARCHAR(100) NOT NULL,
  payload JSONB NOT NULL,
  status VARCHAR(20) DEFAULT 'pending',
  attempts INT DEFAULT 0,
  max_attempts INT DEFAULT 10,
  next_attempt_at TIMESTAMPTZ DEFAULT NOW(),
  last_attempt_at TIMESTAMPTZ,
  delivered_at TIMESTAMPTZ,
  last_response_status INT,
  last_response_body TEXT,
  last_error TEXT,
  created_at TIMESTAMPTZ DEFAULT NOW()
);
CREATE INDEX idx_webhook_deliveries_pending ON webhook_deliveries(next_attempt_at) WHERE status IN ('pending', 'failed') AND attempts < max_attempts;
CREATE INDEX idx_webhook_deliveries_subscription ON webhook_deliveries(subscription_id, created_at DESC);
CREATE INDEX idx_webhook_deliveries_status ON webhook_deliveries(status);

-- k: done | again (done after some failures) | dead (given up) | retry | new
WITH a AS (
  SELECT i, CASE WHEN i <= 214 THEN timestamptz '2026-11-17 11:31:08.204117+00' + i * interval '46 minutes 51 seconds' + (i * i % 977) * interval '1.013 seconds'
    WHEN i <= 226 THEN timestamptz '2026-11-24 11:21:40.771902+00' + (i - 214) * interval '2 minutes 57.311 seconds'
    ELSE timestamptz '2026-11-24 11:59:50.903114+00' + (i - 226) * interval '1.371 seconds' END AS c
  FROM generate_series(1, 232) i
), b AS (
  SELECT i, c, CASE WHEN i > 226 THEN 'new' WHEN i > 214 AND i % 2 = 0 THEN 'retry'
    WHEN c BETWEEN '2026-11-20 01:10+00' AND '2026-11-20 06:30+00' AND i % 2 = 0 THEN 'dead'
    WHEN c BETWEEN '2026-11-20 06:30+00' AND '2026-11-20 11:10+00' AND i % 2 = 0 THEN 'again'
    WHEN i % 31 = 5 THEN 'again' WHEN i = 71 OR i = 133 THEN 'dead' ELSE 'done' END AS k,
    (i % 2 = 0) AS dwh,
    ARRAY[0,30,90,210,510,1410,3210,6810,14010,35610] AS cum
  FROM a
), d AS (
  SELECT *, CASE k WHEN 'new' THEN 0 WHEN 'done' THEN 1 WHEN 'dead' THEN 10
    WHEN 'again' THEN CASE WHEN c > '2026-11-20 06:30+00' AND c < '2026-11-20 11:10+00' THEN 9 ELSE 2 + i % 3 END
    ELSE (SELECT count(*)::int FROM unnest(cum) WITH ORDINALITY u(s, o) WHERE c + (s + o * 6) * interval '1 second' <= '2026-11-24 11:59:55+00') END AS n
  FROM b
), e AS (
  SELECT *, CASE WHEN n > 0 THEN c + (cum[n] + n * 5 + i % 5) * interval '1 second' + ((i * 7919) % 1000) * interval '0.733 milliseconds' END AS la FROM d
)
INSERT INTO webhook_deliveries
SELECT substr(m, 1, 8) || '-' || substr(m, 9, 4) || '-4' || substr(m, 14, 3) || '-' || substr('89ab', 1 + i % 4, 1) || substr(m, 18, 3) || '-' || substr(m, 21, 12),
  CASE WHEN dwh THEN 'whsub0d52fb8e613c4a79b1' ELSE 'whsub7c1e90a2b4d84f6e9a' END,
  CASE WHEN dwh THEN (ARRAY['email.sent', 'email.delivered', 'email.opened', 'email.sent', 'email.clicked', 'email.delivered', 'email.bounced'])[1 + i / 2 % 7]
    ELSE (ARRAY['contact.created', 'list.subscribed', 'contact.updated', 'contact.updated', 'list.unsubscribed'])[1 + i / 2 % 5] END,
  CASE WHEN dwh THEN jsonb_build_object('email', 'reader' || i * 13 % 90 || '@mail.example', 'message_id', 'news_' || substr(m, 5, 12), 'template_id', 'weekly')
    ELSE jsonb_build_object('contact', jsonb_build_object('email', 'reader' || i * 13 % 90 || '@mail.example', 'language', 'en', 'created_at', c)) END,
  CASE k WHEN 'new' THEN 'pending' WHEN 'done' THEN 'delivered' WHEN 'again' THEN 'delivered' ELSE 'failed' END,
  n, 10,
  CASE k WHEN 'done' THEN c WHEN 'new' THEN c WHEN 'retry' THEN la + (ARRAY[30,60,120,300,900,1800,3600,7200,21600,86400])[n] * interval '1 second' + interval '0.21 milliseconds'
    ELSE la - (1 + i % 8) * interval '1.107 seconds' END,
  la, CASE WHEN k IN ('done', 'again') THEN la END,
  CASE k WHEN 'new' THEN NULL WHEN 'done' THEN CASE WHEN dwh THEN 202 ELSE 200 END WHEN 'again' THEN CASE WHEN dwh THEN 202 ELSE 200 END
    ELSE CASE WHEN i IN (71, 133) THEN 422 WHEN i % 3 = 0 THEN NULL ELSE 503 END END,
  CASE k WHEN 'new' THEN NULL WHEN 'retry' THEN CASE WHEN i % 3 = 0 THEN '' ELSE 'no healthy upstream' END
    WHEN 'dead' THEN CASE WHEN i IN (71, 133) THEN '{"error":"unknown contact field"}' WHEN i % 3 = 0 THEN '' ELSE 'no healthy upstream' END
    ELSE CASE WHEN dwh THEN '' ELSE '{"received":true}' END END,
  CASE WHEN k IN ('again', 'retry', 'dead') THEN CASE WHEN i IN (71, 133) THEN 'HTTP 422'
    WHEN i % 3 = 0 THEN 'Post "https://' || CASE WHEN dwh THEN 'dwh.example/in/mail' ELSE 'crm.example/hooks/notifuse' END || '": context deadline exceeded (Client.Timeout exceeded while awaiting headers)' ELSE 'HTTP 503' END END,
  c
FROM (SELECT *, md5('delivery' || i) AS m FROM e) z ORDER BY i;
