-- dialect: sqlite
CREATE TABLE gammu (Version INTEGER NOT NULL DEFAULT 0 PRIMARY KEY);
INSERT INTO gammu VALUES (18);
CREATE TABLE phones (
  ID TEXT NOT NULL, UpdatedInDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), InsertIntoDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), TimeOut NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')),
  Send TEXT NOT NULL DEFAULT 'no', Receive TEXT NOT NULL DEFAULT 'no', IMEI TEXT PRIMARY KEY NOT NULL, IMSI TEXT NOT NULL, NetCode TEXT DEFAULT 'ERROR', NetName TEXT DEFAULT 'ERROR', Client TEXT NOT NULL,
  Battery INTEGER NOT NULL DEFAULT -1, Signal INTEGER NOT NULL DEFAULT -1, Sent INTEGER NOT NULL DEFAULT 0, Received INTEGER NOT NULL DEFAULT 0);
INSERT INTO phones VALUES ('modem1', '2026-11-24 11:59:55', '2026-10-01 06:00:00', '2026-11-24 12:00:05', 'yes', 'yes', '357000000000017', '262010000000017', '262 01', 'Telekom.de', 'Gammu 1.42.0, Linux', 100, 63, 4127, 311);
CREATE TABLE inbox (
  UpdatedInDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), ReceivingDateTime NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), Text TEXT NOT NULL, SenderNumber TEXT NOT NULL DEFAULT '',
  Coding TEXT NOT NULL DEFAULT 'Default_No_Compression', UDH TEXT NOT NULL, SMSCNumber TEXT NOT NULL DEFAULT '', Class INTEGER NOT NULL DEFAULT -1, TextDecoded TEXT NOT NULL DEFAULT '',
  ID INTEGER PRIMARY KEY AUTOINCREMENT, RecipientID TEXT NOT NULL, Processed TEXT NOT NULL DEFAULT 'false', Status INTEGER NOT NULL DEFAULT -1);
INSERT INTO inbox (UpdatedInDB, ReceivingDateTime, Text, SenderNumber, UDH, TextDecoded, RecipientID, Processed) VALUES
 ('2026-11-20 09:00:04', '2026-11-20 08:59:50', '0053', '+4917000000001', '', 'STOP', 'modem1', 'true'), ('2026-11-23 17:10:44', '2026-11-23 17:10:31', '004F', '+4917000000002', '', 'OK', 'modem1', 'false');
CREATE TABLE sentitems (
  UpdatedInDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), InsertIntoDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), SendingDateTime NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')), DeliveryDateTime NUMERIC NULL,
  Text TEXT NOT NULL, DestinationNumber TEXT NOT NULL DEFAULT '', Coding TEXT NOT NULL DEFAULT 'Default_No_Compression', UDH TEXT NOT NULL, SMSCNumber TEXT NOT NULL DEFAULT '', Class INTEGER NOT NULL DEFAULT -1,
  TextDecoded TEXT NOT NULL DEFAULT '', ID INTEGER, SenderID TEXT NOT NULL, SequencePosition INTEGER NOT NULL DEFAULT 1, Status TEXT NOT NULL DEFAULT 'SendingOK', StatusError INTEGER NOT NULL DEFAULT -1,
  TPMR INTEGER NOT NULL DEFAULT -1, RelativeValidity INTEGER NOT NULL DEFAULT -1, CreatorID TEXT NOT NULL, StatusCode INTEGER NOT NULL DEFAULT -1,
  CHECK (Status IN ('SendingOK', 'SendingOKNoReport', 'SendingError', 'DeliveryOK', 'DeliveryFailed', 'DeliveryPending', 'DeliveryUnknown', 'Error')),
  PRIMARY KEY (ID, SequencePosition));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
INSERT INTO sentitems (UpdatedInDB, InsertIntoDB, SendingDateTime, DeliveryDateTime, Text, DestinationNumber, UDH, TextDecoded, ID, SenderID, Status, TPMR, CreatorID)
SELECT datetime('2026-11-24 05:00:00', '+' || (i * 5 + 1) || ' minutes'), datetime('2026-11-24 05:00:00', '+' || (i * 5) || ' minutes'), datetime('2026-11-24 05:00:00', '+' || (i * 5 + 1) || ' minutes'), NULL,
  '00480069', printf('+491700%06d', i * 7), '', 'Hi ' || i, 4100 + i, 'modem1', CASE WHEN i % 5 = 0 THEN 'SendingError' ELSE 'SendingOKNoReport' END, i, 'webapp' FROM n;

CREATE TABLE outbox (
  UpdatedInDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')),
  InsertIntoDB NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')),
  SendingDateTime NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')),
  SendBefore time NOT NULL DEFAULT '23:59:59',
  SendAfter time NOT NULL DEFAULT '00:00:00',
  Text TEXT,
  DestinationNumber TEXT NOT NULL DEFAULT '',
  Coding TEXT NOT NULL DEFAULT 'Default_No_Compression',
  UDH TEXT,
  Class INTEGER DEFAULT -1,
  TextDecoded TEXT NOT NULL DEFAULT '',
  ID INTEGER PRIMARY KEY AUTOINCREMENT,
  MultiPart TEXT NOT NULL DEFAULT 'false',
  RelativeValidity INTEGER DEFAULT -1,
  SenderID TEXT,
  SendingTimeOut NUMERIC NOT NULL DEFAULT (datetime('now', 'localtime')),
  DeliveryReport TEXT DEFAULT 'default',
  CreatorID TEXT NOT NULL,
  Retries INTEGER DEFAULT 0,
  Priority INTEGER DEFAULT 0,
  Status TEXT NOT NULL DEFAULT 'Reserved',
  StatusCode INTEGER NOT NULL DEFAULT -1,
  CHECK (Coding IN ('Default_No_Compression', 'Unicode_No_Compression', '8bit', 'Default_Compression', 'Unicode_Compression')),
  CHECK (DeliveryReport IN ('default', 'yes', 'no')),
  CHECK (Status IN ('SendingOK', 'SendingOKNoReport', 'SendingError', 'DeliveryOK', 'DeliveryFailed', 'DeliveryPending', 'DeliveryUnknown', 'Error', 'Reserved'))
);
CREATE INDEX outbox_date ON outbox (SendingDateTime, SendingTimeOut);
CREATE INDEX outbox_sender ON outbox (SenderID);
CREATE TRIGGER update_outbox_time UPDATE ON outbox
  BEGIN
    UPDATE outbox SET UpdatedInDB = datetime('now', 'localtime') WHERE ID = old.ID;
  END;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64),
k AS (SELECT i, datetime('2026-11-24 06:13:00', '+' || (i * 5) || ' minutes', '+' || (i * 17 % 60) || ' seconds') AS c, CASE WHEN i <= 9 THEN 1 + i % 3 ELSE 0 END AS r FROM n)
INSERT INTO outbox (UpdatedInDB, InsertIntoDB, SendingDateTime, SendBefore, SendAfter, Text, DestinationNumber, Coding, UDH, Class, TextDecoded, ID, MultiPart, RelativeValidity, SenderID, SendingTimeOut, DeliveryReport, CreatorID, Retries, Priority, Status, StatusCode)
SELECT CASE WHEN r > 0 THEN datetime('2026-11-24 11:48:00', '+' || i || ' minutes') ELSE c END, c,
  CASE WHEN i > 50 THEN datetime('2026-11-24 17:00:00', '+' || ((i % 7) * 8) || ' hours') ELSE c END,
  CASE WHEN i % 6 = 0 THEN '20:00:00' ELSE '23:59:59' END, CASE WHEN i % 6 = 0 THEN '08:00:00' ELSE '00:00:00' END,
  NULL, printf('+491700%06d', (i * 7919) % 1000000), 'Default_No_Compression', NULL, -1, 'Your appointment no. ' || i || ' is tomorrow at ' || (8 + i % 9) || ':00.',
  4113 + i, 'false', -1, CASE WHEN i % 3 = 0 THEN 'modem1' END,
  CASE WHEN r > 0 THEN datetime('2026-11-24 11:58:00', '+' || i || ' minutes') ELSE c END,
  'default', CASE WHEN i % 2 = 0 THEN 'webapp' ELSE 'Gammu 1.42.0' END, r, CASE WHEN i % 13 = 0 THEN 10 ELSE 0 END, 'Reserved', -1
FROM k ORDER BY i;
