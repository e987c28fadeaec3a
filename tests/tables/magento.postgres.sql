-- Magento 2.4 (MysqlMq/etc/db_schema.xml) is for MySQL only: its names, in PostgreSQL's types, without foreign keys.
CREATE TABLE queue_message_status (id bigserial PRIMARY KEY, queue_id integer NOT NULL, message_id bigint NOT NULL,
  updated_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, status smallint NOT NULL, number_of_trials smallint NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX QUEUE_MESSAGE_STATUS_QUEUE_ID_MESSAGE_ID ON queue_message_status (queue_id, message_id);
CREATE INDEX QUEUE_MESSAGE_STATUS_STATUS_UPDATED_AT ON queue_message_status (status, updated_at);
INSERT INTO queue_message_status (id, queue_id, message_id, updated_at, status, number_of_trials) VALUES
  (1, 1, 11, '2026-11-20 10:00:00', 2, 0),
  (2, 1, 12, '2026-11-20 10:00:01', 2, 0),
  (3, 1, 13, '2026-11-20 10:00:02', 5, 2),
  (4, 1, 14, '2026-11-20 10:00:03', 3, 1),
  (5, 1, 15, '2026-11-20 10:00:04', 4, 1),
  (6, 1, 16, '2026-11-20 10:00:05', 6, 3),
  (7, 1, 17, '2026-11-20 10:00:06', 7, 1);
