-- The three columns that every table needs and the payload, nothing else, for SQLite.
CREATE TABLE BACKLOG (
  ID            INTEGER PRIMARY KEY AUTOINCREMENT,
  STATUS        TEXT NOT NULL DEFAULT 'NEW',
  DATE_INSERTED TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  PAYLOAD       TEXT
) STRICT;
