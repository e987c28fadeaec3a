-- The table that `backlog init` creates, and that `sqlite3 FILE < schema.sql`
-- creates just as well. Only ID, STATUS and DATE_INSERTED are needed; the
-- program works on any table that has these three, whatever else it holds.
CREATE TABLE BACKLOG (
  -- What a record is called in every message, claim and handler. AUTOINCREMENT
  -- never gives the id of a deleted row again.
  ID            INTEGER PRIMARY KEY AUTOINCREMENT,

  -- NEW       waits for its first attempt
  -- ERROR     the last attempt failed; it will be tried again
  -- SUCCESS   done
  -- ARCHIVED  ran out of attempts; kept, and never tried again by itself
  STATUS        TEXT NOT NULL DEFAULT 'NEW'
                -- In two parts, since SQLite compares with two values at once, but makes a
                -- table of three and more with each row that is written.
                CHECK (STATUS IN ('NEW', 'ERROR') OR STATUS IN ('SUCCESS', 'ARCHIVED')),

  -- UTC, fixed width, so that the order of the text is the order in time.
  DATE_INSERTED TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),

  -- What the handler needs to know, as JSON.
  PAYLOAD       TEXT CHECK (PAYLOAD IS NULL OR json_valid(PAYLOAD)),

  -- Optional from here on. FAILURES and LAST_FAILURE are what
  -- `process --fibonacci` and `--max-attempts` go by; they are written before
  -- a handler runs and taken back when it succeeds. LAST_ERROR is for people, but
  -- for how it begins: before the instant of `snoozed until ...` the record is
  -- not due, and `outcome unknown`, `not sent` and `next key` say which
  -- Idempotency-Key a webhook is sent next.
  FAILURES      INTEGER NOT NULL DEFAULT 0,
  LAST_FAILURE  TEXT,
  LAST_ERROR    TEXT
) STRICT;

-- Pending rows only: a pass finds its work at once, however many rows are done.
-- The first is for what is due by age, the second for what is due by its count
-- of failures: a pass that goes by it does not even look at what still waits.
CREATE INDEX BACKLOG_PENDING ON BACKLOG (DATE_INSERTED, ID, STATUS)
  WHERE STATUS IN ('NEW', 'ERROR');
CREATE INDEX BACKLOG_WAITING ON BACKLOG (FAILURES, STATUS, LAST_FAILURE)
  WHERE STATUS IN ('NEW', 'ERROR');
