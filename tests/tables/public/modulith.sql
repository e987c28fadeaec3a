-- dialect: postgres
CREATE TABLE flyway_schema_history (
  installed_rank integer NOT NULL PRIMARY KEY, version varchar(50), description varchar(200) NOT NULL, type varchar(20) NOT NULL, script varchar(1000) NOT NULL,
  checksum integer, installed_by varchar(100) NOT NULL, installed_on timestamp NOT NULL DEFAULT now(), execution_time integer NOT NULL, success boolean NOT NULL);
INSERT INTO flyway_schema_history SELECT g, g::text, 'step ' || g, 'SQL', 'V' || g || '__step.sql', 7919 * g, 'shop', timestamp '2026-10-01 07:00', 11 + g, true FROM generate_series(1, 4) g;
CREATE TABLE customers (id bigserial PRIMARY KEY, email varchar(255) NOT NULL UNIQUE, name varchar(255) NOT NULL);
INSERT INTO customers (email, name) SELECT 'c' || g || '@mail.example', 'Customer ' || g FROM generate_series(1, 7) g;
CREATE TABLE orders (id uuid PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers (id), total numeric(10, 2) NOT NULL, placed_at timestamptz NOT NULL);
INSERT INTO orders SELECT md5('order' || g)::uuid, 1 + g % 7, 10.5 * g, timestamptz '2026-10-20 09:00+00' + g * interval '1 day' FROM generate_series(1, 12) g;

CREATE TABLE event_publication (
  id               uuid NOT NULL,
  listener_id      text NOT NULL,
  event_type       text NOT NULL,
  serialized_event text NOT NULL,
  publication_date timestamp with time zone NOT NULL,
  completion_date  timestamp with time zone,
  PRIMARY KEY (id)
);
CREATE INDEX event_publication_serialized_event_hash_idx ON event_publication USING hash (serialized_event);
CREATE INDEX event_publication_by_completion_date_idx ON event_publication (completion_date);

INSERT INTO event_publication
SELECT md5('evp' || i)::uuid,
  CASE i % 3 WHEN 0 THEN 'com.acme.shop.inventory.InventoryManagement.on(com.acme.shop.order.OrderCompleted)' WHEN 1 THEN 'com.acme.shop.mail.OrderMails.on(com.acme.shop.order.OrderCompleted)' ELSE 'com.acme.shop.crm.CrmSync.on(com.acme.shop.customer.CustomerChanged)' END,
  CASE i % 3 WHEN 2 THEN 'com.acme.shop.customer.CustomerChanged' ELSE 'com.acme.shop.order.OrderCompleted' END,
  '{"id":"' || md5('order' || (i / 2))::uuid || '","at":"' || to_char(c AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || '"}',
  c,
  CASE WHEN i > 128 OR i IN (37, 61, 62, 95) THEN NULL ELSE c + (40 + i * 13 % 700) * interval '1 millisecond' + CASE WHEN i % 27 = 0 THEN interval '6 hours' ELSE interval '0' END END
FROM (SELECT i, CASE WHEN i <= 128 THEN timestamptz '2026-10-21 07:41:12.003+00' + i * interval '6 hours 8 minutes' ELSE timestamptz '2026-11-24 11:30:02.418+00' + (i - 128) * interval '3 minutes' END AS c FROM generate_series(1, 137) i) s ORDER BY i;
