-- phpList 3.6 (admin/structure.php). It runs on MySQL only: the same names, in SQLite's types.
CREATE TABLE phplist_usermessage (messageid INTEGER NOT NULL, userid INTEGER NOT NULL, entered DATETIME NOT NULL,
  viewed DATETIME, status VARCHAR(255), PRIMARY KEY (userid, messageid));
INSERT INTO phplist_usermessage VALUES (1, 7, '2026-11-20 10:00:00', NULL, 'todo'), (1, 8, '2026-11-20 10:00:00', NULL, 'todo'),
  (2, 7, '2026-11-20 10:00:00', NULL, 'not sent'), (2, 8, '2026-11-20 09:00:00', NULL, 'sent'), (3, 7, '2026-11-20 09:00:00', NULL, 'invalid email address');
