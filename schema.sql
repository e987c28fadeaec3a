-- The table that `backlog init` or `sqlite3 FILE < schema.sql` creates. Only ID,
-- STATUS and DATE_INSERTED are needed: the program works on any table that has
-- these three columns.
CREATE TABLE BACKLOG (
  -- The name of a record in messages, claims and handlers. With AUTOINCREMENT,
  -- the id of a deleted row is never used again.
  ID            INTEGER PRIMARY KEY AUTOINCREMENT,

  -- NEW       waits for its first attempt
  -- ERROR     the last attempt failed; will be tried again
  -- SUCCESS   done
  -- ARCHIVED  ran out of attempts; kept, and not tried again until restored
  STATUS        TEXT NOT NULL DEFAULT 'NEW'
                -- In two parts: SQLite compares with two values directly, but builds a
                -- temporary table for three or more values each time it writes a row.
                CHECK (STATUS IN ('NEW', 'ERROR') OR STATUS IN ('SUCCESS', 'ARCHIVED')),

  -- UTC, with a fixed width, so that the text sorts in the order of time.
  DATE_INSERTED TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),

  -- Input of the handler, as JSON.
  PAYLOAD       TEXT CHECK (PAYLOAD IS NULL OR json_valid(PAYLOAD)),

  -- The following columns are optional. `--fibonacci` and `--policy` use FAILURES
  -- and LAST_FAILURE, and `--max-attempts` uses FAILURES. They are written
  -- before a handler runs, and restored when it succeeds. LAST_ERROR is for
  -- people, except for its beginning: before the time in `snoozed until ...` the
  -- record is not due, and `outcome unknown`, `not sent` and `next key` decide
  -- the next Idempotency-Key of a webhook.
  FAILURES      INTEGER NOT NULL DEFAULT 0,
  LAST_FAILURE  TEXT,
  LAST_ERROR    TEXT
) STRICT;

-- Indexes of pending rows only: a pass finds due records at once, however many
-- rows are done. The first index serves schedules by age, the second schedules
-- by the count of failures, which then do not read waiting rows.
CREATE INDEX BACKLOG_PENDING ON BACKLOG (DATE_INSERTED, ID, STATUS)
  WHERE STATUS IN ('NEW', 'ERROR');
CREATE INDEX BACKLOG_WAITING ON BACKLOG (FAILURES, STATUS, LAST_FAILURE)
  WHERE STATUS IN ('NEW', 'ERROR');
