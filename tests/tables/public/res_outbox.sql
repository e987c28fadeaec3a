-- dialect: postgres
CREATE TABLE schema_migrations (version varchar NOT NULL PRIMARY KEY);
INSERT INTO schema_migrations SELECT '2026100108000' || g FROM generate_series(1, 4) g;
CREATE TABLE event_store_events (id bigserial PRIMARY KEY, event_id uuid NOT NULL, event_type varchar NOT NULL, metadata jsonb, data jsonb NOT NULL, created_at timestamp(6) NOT NULL, valid_at timestamp(6));
CREATE UNIQUE INDEX index_event_store_events_on_event_id ON event_store_events (event_id);
CREATE INDEX index_event_store_events_on_created_at ON event_store_events (created_at);
INSERT INTO event_store_events (event_id, event_type, metadata, data, created_at) SELECT md5('ese' || g)::uuid, 'Ordering::OrderPlaced', '{"correlation_id": "x"}', jsonb_build_object('order_id', g), timestamp '2026-11-22 08:00:00.1' + g * interval '80 minutes' FROM generate_series(1, 36) g;
CREATE TABLE event_store_events_in_streams (id bigserial PRIMARY KEY, stream varchar NOT NULL, position integer, event_id uuid NOT NULL, created_at timestamp(6) NOT NULL);
CREATE UNIQUE INDEX index_event_store_events_in_streams_on_stream_and_event_id ON event_store_events_in_streams (stream, event_id);
INSERT INTO event_store_events_in_streams (stream, position, event_id, created_at) SELECT 'Order$' || id, 0, event_id, created_at FROM event_store_events ORDER BY id;
CREATE TABLE event_store_outbox_locks (id bigserial PRIMARY KEY, format varchar NOT NULL, split_key varchar, locked_at timestamp, locked_by varchar(36));
CREATE UNIQUE INDEX index_event_store_outbox_locks_for_locking ON event_store_outbox_locks (format, split_key);
INSERT INTO event_store_outbox_locks (format, split_key, locked_at, locked_by) VALUES ('sidekiq5', 'default', NULL, NULL), ('sidekiq5', 'mailers', '2026-11-24 11:59:58', md5('proc')::uuid::text), ('sidekiq5', 'read_models', NULL, NULL);

CREATE TABLE event_store_outbox (
  id bigserial PRIMARY KEY,
  split_key character varying,
  format character varying NOT NULL,
  payload bytea NOT NULL,
  created_at timestamp without time zone NOT NULL,
  enqueued_at timestamp without time zone
);
CREATE INDEX index_event_store_outbox_for_pool ON event_store_outbox (format, enqueued_at, split_key);
CREATE INDEX index_event_store_outbox_for_clear ON event_store_outbox (created_at, enqueued_at);

INSERT INTO event_store_outbox (split_key, format, payload, created_at, enqueued_at)
SELECT sk, 'sidekiq5',
  convert_to('{"class":"' || CASE sk WHEN 'mailers' THEN 'Orders::SendConfirmation' WHEN 'read_models' THEN 'Orders::UpdateList' ELSE 'Billing::IssueInvoice' END || '","args":[{"event_id":"' || md5('ese' || i)::uuid || '","event_type":"Ordering::OrderPlaced"}],"retry":true,"queue":"' || sk || '","jid":"' || substr(md5('jid' || i), 1, 24) || '","created_at":' || extract(epoch FROM c) || '}', 'UTF8'),
  c,
  CASE WHEN NOT (i > 216 OR (sk = 'read_models' AND i > 186)) THEN c + CASE WHEN i % 50 = 17 THEN interval '7 minutes 12 seconds' ELSE (120 + i * 61 % 900) * interval '1 millisecond' END END
FROM (SELECT i, CASE i % 4 WHEN 0 THEN 'mailers' WHEN 1 THEN 'read_models' ELSE 'default' END AS sk,
  CASE WHEN i <= 204 THEN timestamp '2026-10-30 06:12:33.2074' + i * interval '2 hours 55 minutes' + (i * 43 % 67) * interval '47 seconds' ELSE timestamp '2026-11-24 11:40:11.905' + (i - 204) * interval '49 seconds' END AS c
  FROM generate_series(1, 228) i) s ORDER BY i;
