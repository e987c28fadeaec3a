-- Symfony 7 Messenger, Doctrine transport (Transport/Connection.php), as Doctrine creates it on PostgreSQL, without its trigger for NOTIFY.
CREATE TABLE messenger_messages (id BIGSERIAL NOT NULL PRIMARY KEY, body TEXT NOT NULL, headers TEXT NOT NULL, queue_name VARCHAR(190) NOT NULL,
  created_at TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL, available_at TIMESTAMP(0) WITHOUT TIME ZONE NOT NULL, delivered_at TIMESTAMP(0) WITHOUT TIME ZONE DEFAULT NULL);
CREATE INDEX IDX_75EA56E0FB7336F0 ON messenger_messages (queue_name);
CREATE INDEX IDX_75EA56E0E3BD61CE ON messenger_messages (available_at);
CREATE INDEX IDX_75EA56E016BA31DB ON messenger_messages (delivered_at);
INSERT INTO messenger_messages (id, body, headers, queue_name, created_at, available_at, delivered_at) VALUES
  (1, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:00', '2026-11-20 10:00:00', NULL),
  (2, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:01', '2026-11-20 10:00:01', NULL),
  (3, 'O:36:"Envelope"', '[]', 'failed', '2026-11-20 10:00:02', '2026-11-20 10:00:02', NULL),
  (4, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:03', '2026-11-20 10:00:03', '2026-11-20 10:00:04'),
  (5, 'O:36:"Envelope"', '[]', 'default', '2026-11-20 10:00:04', '2999-01-01 00:00:00', NULL);
