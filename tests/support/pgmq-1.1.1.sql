-- What the upgrade scripts of pgmq build on from 1.1.1 up: its table and its types.
-- Like CREATE EXTENSION, do not look into functions yet: some call others that come later.
SET check_function_bodies = off;
CREATE SCHEMA pgmq;
CREATE TABLE pgmq.meta (
    queue_name varchar UNIQUE NOT NULL,
    is_partitioned boolean NOT NULL,
    is_unlogged boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TYPE pgmq.message_record AS (
    msg_id bigint,
    read_ct integer,
    enqueued_at timestamptz,
    vt timestamptz,
    message jsonb
);
CREATE TYPE pgmq.metrics_result AS (
    queue_name text,
    queue_length bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages bigint,
    scrape_time timestamptz
);
