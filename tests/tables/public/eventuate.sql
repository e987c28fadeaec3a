-- dialect: postgres
CREATE SCHEMA eventuate;
CREATE TABLE public.consumer (id bigserial PRIMARY KEY, name varchar(255) NOT NULL, credit_limit numeric(12, 2) NOT NULL, creation_time bigint NOT NULL);
INSERT INTO public.consumer (name, credit_limit, creation_time) SELECT 'Consumer ' || g, 100 * g, 1790850000000 + g * 3600000 FROM generate_series(1, 9) g;
CREATE TABLE eventuate.received_messages (
  consumer_id varchar(1000), message_id varchar(1000), creation_time bigint, PRIMARY KEY (consumer_id, message_id)
);
CREATE TABLE eventuate.offset_store (client_name varchar(255) NOT NULL PRIMARY KEY, serialized_offset varchar(255));
INSERT INTO eventuate.offset_store VALUES ('MyPostgresBinaryLog', '{"offset":0}');
CREATE TABLE eventuate.cdc_monitoring (reader_id varchar(1000) PRIMARY KEY, last_time bigint);
INSERT INTO eventuate.cdc_monitoring VALUES ('reader1', 1795521598411);

CREATE TABLE eventuate.message (
  id varchar(1000) PRIMARY KEY,
  destination text NOT NULL,
  headers text NOT NULL,
  payload text NOT NULL,
  published smallint DEFAULT 0,
  message_partition smallint,
  creation_time bigint
);
CREATE INDEX message_published_idx ON eventuate.message (published, id);

INSERT INTO eventuate.message
SELECT lpad(to_hex(t), 16, '0') || '-0242ac1400020000',
  CASE i % 3 WHEN 0 THEN 'net.acme.orders.domain.Order' WHEN 1 THEN 'consumerService' ELSE 'net.acme.orders.CreateOrderSaga-reply' END,
  json_build_object('ID', lpad(to_hex(t), 16, '0') || '-0242ac1400020000', 'PARTITION_ID', (i % 8)::text, 'DATE', to_char(to_timestamp(t / 1000) AT TIME ZONE 'UTC', 'Dy, DD Mon YYYY HH24:MI:SS "GMT"'), 'DESTINATION', 'net.acme.orders.domain.Order', 'event-type', 'net.acme.orders.domain.OrderCreatedEvent')::text,
  json_build_object('orderId', 9000 + i / 3, 'consumerId', 1 + i % 9)::text,
  CASE WHEN i <= 151 THEN 1 ELSE 0 END,
  i % 8,
  t
FROM (SELECT i, CASE WHEN i <= 151 THEN 1790956000000 + i::bigint * 28800000 + (i * 7919 % 1800) * 1000 ELSE 1795519800000 + (i - 151)::bigint * 150000 END + i % 997 AS t FROM generate_series(1, 161) i) s ORDER BY i;
INSERT INTO eventuate.received_messages SELECT 'orderHistory', id, creation_time + 812 FROM eventuate.message ORDER BY id LIMIT 15;
