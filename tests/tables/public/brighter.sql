-- dialect: sqlite
CREATE TABLE "Person" (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, timestamp TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7) INSERT INTO "Person" (name, timestamp) SELECT 'Person ' || i, datetime('2026-10-01 07:00:00', '+' || i || ' days') FROM n;
CREATE TABLE "Greeting" (id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL, recipient_id INTEGER NOT NULL REFERENCES "Person" (id));
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) INSERT INTO "Greeting" (message, recipient_id) SELECT 'Hello no. ' || i, 1 + i % 7 FROM n;
CREATE TABLE "Inbox" ([CommandId] TEXT NOT NULL COLLATE NOCASE, [CommandType] TEXT, [CommandBody] TEXT, [Timestamp] TEXT, [ContextKey] TEXT, CONSTRAINT [PK_CommandId] PRIMARY KEY ([CommandId], [ContextKey]));
INSERT INTO "Inbox" VALUES ('0b7e2a90-41c3-4d0e-8a77-0c1d2e3f4a51', 'AddGreeting', '{"name":"Person 2","greeting":"Hello"}', '2026-11-22 08:10:11.1200000', 'GreetingHandler'), ('0b7e2a90-41c3-4d0e-8a77-0c1d2e3f4a52', 'AddGreeting', '{"name":"Person 5","greeting":"Good day"}', '2026-11-23 18:40:01.7700000', 'GreetingHandler');

CREATE TABLE "Outbox" (
  [MessageId] TEXT NOT NULL COLLATE NOCASE,
  [Topic] TEXT NULL,
  [MessageType] TEXT NULL,
  [Timestamp] TEXT NULL,
  [CorrelationId] TEXT NULL,
  [ReplyTo] TEXT NULL,
  [ContentType] TEXT NULL,
  [PartitionKey] TEXT NULL,
  [Dispatched] TEXT NULL,
  [HeaderBag] TEXT NULL,
  [Body] TEXT NULL,
  CONSTRAINT [PK_MessageId] PRIMARY KEY ([MessageId])
);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 168),
k AS (SELECT i, datetime(CASE WHEN i <= 152 THEN '2026-10-02 09:31:17' ELSE '2026-11-24 11:41:22' END, '+' || (CASE WHEN i <= 152 THEN i * 29600 + (i * 97) % 1200 ELSE (i - 152) * 64 END) || ' seconds') AS c,
  CASE i % 3 WHEN 0 THEN 'GreetingMade' WHEN 1 THEN 'PersonAdded' ELSE 'PersonRemoved' END AS t FROM n)
INSERT INTO "Outbox" (MessageId, Topic, MessageType, Timestamp, CorrelationId, ReplyTo, ContentType, PartitionKey, Dispatched, HeaderBag, Body)
SELECT printf('%08x-%04x-4%03x-a%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656),
  t, CASE t WHEN 'PersonRemoved' THEN 'MT_DOCUMENT' ELSE 'MT_EVENT' END,
  c || printf('.%07d', (i * 771737) % 10000000),
  printf('%08x-%04x-4%03x-b%03x-%012x', (i * 40503977) % 4294967296, (i * 613) % 65536, i % 4096, (i * 31) % 4096, i * 7919),
  CASE WHEN i % 9 = 0 THEN 'greeting.reply' ELSE '' END, 'application/json', CASE WHEN i % 2 = 0 THEN 'p' || (i % 4) ELSE '' END,
  CASE WHEN i <= 152 AND i NOT IN (61, 118) THEN datetime(c, '+' || (i % 6) || ' seconds') || printf('.%07d', (i * 3511731) % 10000000) WHEN i = 155 THEN '2026-11-24 11:47:02.5512034' END,
  '{"x-trace":"' || printf('%016x', i * 104729) || '","source":"greetings-web"}',
  '{"id":"' || printf('%08x', (i * 2654435761) % 4294967296) || '","name":"Person ' || (1 + i % 7) || '","greeting":"Hello no. ' || i || '"}'
FROM k ORDER BY i;
