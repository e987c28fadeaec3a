-- phpList 3.6 (admin/structure.php) is for MySQL only: its names, in PostgreSQL's types.
CREATE TABLE phplist_usermessage (messageid integer NOT NULL, userid integer NOT NULL, entered timestamp NOT NULL,
  viewed timestamp, status varchar(255), PRIMARY KEY (userid, messageid));
CREATE INDEX messageidindex ON phplist_usermessage (messageid);
CREATE INDEX useridindex ON phplist_usermessage (userid);
CREATE INDEX enteredindex ON phplist_usermessage (entered);
CREATE INDEX statusidx ON phplist_usermessage (status);
CREATE INDEX viewedidx ON phplist_usermessage (viewed);
INSERT INTO phplist_usermessage (messageid, userid, entered, viewed, status) VALUES
  (1, 7, '2026-11-20 10:00:00', NULL, 'todo'),
  (1, 8, '2026-11-20 10:00:00', NULL, 'todo'),
  (2, 7, '2026-11-20 10:00:00', NULL, 'not sent'),
  (2, 8, '2026-11-20 09:00:00', '2026-11-20 09:30:00', 'sent'),
  (3, 7, '2026-11-20 09:00:00', NULL, 'invalid email address'),
  (3, 8, '2026-11-20 10:00:01', NULL, 'active'),
  (4, 7, '2026-11-20 09:00:00', NULL, 'excluded'),
  (4, 8, '2026-11-20 09:00:00', NULL, NULL);
