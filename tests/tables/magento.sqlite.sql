-- Magento 2.4 (MysqlMq/etc/db_schema.xml). MySQL only: the same names, in SQLite's types.
CREATE TABLE queue_message_status (id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, message_id INTEGER NOT NULL, updated_at TIMESTAMP NOT NULL, status SMALLINT NOT NULL, number_of_trials INTEGER NOT NULL DEFAULT 0);
INSERT INTO queue_message_status VALUES (1, 1, 11, '2026-11-20 10:00:00', 2, 0), (2, 1, 12, '2026-11-20 10:00:01', 2, 0), (3, 1, 13, '2026-11-20 10:00:02', 5, 2), (4, 1, 14, '2026-11-20 10:00:03', 3, 1), (5, 1, 15, '2026-11-20 10:00:04', 4, 1);
