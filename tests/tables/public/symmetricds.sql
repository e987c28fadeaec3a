-- dialect: postgres
CREATE TABLE sym_node (
    node_id VARCHAR(50) NOT NULL PRIMARY KEY,
    node_group_id VARCHAR(50) NOT NULL,
    external_id VARCHAR(255) NOT NULL,
    sync_enabled SMALLINT DEFAULT 0,
    sync_url VARCHAR(255),
    symmetric_version VARCHAR(50),
    batch_to_send_count INTEGER DEFAULT 0,
    batch_in_error_count INTEGER DEFAULT 0,
    created_at_node_id VARCHAR(50)
);
INSERT INTO sym_node VALUES ('000', 'corp', '000', 1, 'http://corp.shops.example:31415/sync/corp', '3.9.20', 0, 0, '000'), ('001', 'store', '001', 1, 'http://s001.shops.example:31415/sync/store', '3.9.20', 0, 0, '000'), ('002', 'store', '002', 1, 'http://s002.shops.example:31415/sync/store', '3.9.20', 2, 0, '000'), ('003', 'store', '003', 1, 'http://s003.shops.example:31415/sync/store', '3.9.20', 0, 0, '000'), ('005', 'store', '005', 1, 'http://s005.shops.example:31415/sync/store', '3.9.17', 0, 0, '000');

CREATE TABLE sym_outgoing_batch (
    batch_id BIGINT NOT NULL,
    node_id VARCHAR(50) NOT NULL,
    channel_id VARCHAR(128),
    status CHAR(2),
    load_id BIGINT,
    extract_job_flag SMALLINT DEFAULT 0,
    load_flag SMALLINT DEFAULT 0,
    error_flag SMALLINT DEFAULT 0,
    common_flag SMALLINT DEFAULT 0,
    ignore_count BIGINT DEFAULT 0 NOT NULL,
    byte_count BIGINT DEFAULT 0 NOT NULL,
    extract_count BIGINT DEFAULT 0 NOT NULL,
    sent_count BIGINT DEFAULT 0 NOT NULL,
    load_count BIGINT DEFAULT 0 NOT NULL,
    data_event_count BIGINT DEFAULT 0 NOT NULL,
    reload_event_count BIGINT DEFAULT 0 NOT NULL,
    insert_event_count BIGINT DEFAULT 0 NOT NULL,
    update_event_count BIGINT DEFAULT 0 NOT NULL,
    delete_event_count BIGINT DEFAULT 0 NOT NULL,
    other_event_count BIGINT DEFAULT 0 NOT NULL,
    router_millis BIGINT DEFAULT 0 NOT NULL,
    network_millis BIGINT DEFAULT 0 NOT NULL,
    filter_millis BIGINT DEFAULT 0 NOT NULL,
    load_millis BIGINT DEFAULT 0 NOT NULL,
    extract_millis BIGINT DEFAULT 0 NOT NULL,
    transform_extract_millis BIGINT DEFAULT 0 NOT NULL,
    transform_load_millis BIGINT DEFAULT 0 NOT NULL,
    total_extract_millis BIGINT DEFAULT 0 NOT NULL,
    total_load_millis BIGINT DEFAULT 0 NOT NULL,
    sql_state VARCHAR(10),
    sql_code INTEGER DEFAULT 0 NOT NULL,
    sql_message TEXT,
    failed_data_id BIGINT DEFAULT 0 NOT NULL,
    failed_line_number BIGINT DEFAULT 0 NOT NULL,
    last_update_hostname VARCHAR(255),
    last_update_time TIMESTAMP,
    create_time TIMESTAMP,
    create_by VARCHAR(255),
    PRIMARY KEY (batch_id, node_id)
);
CREATE INDEX sym_idx_ob_node_status ON sym_outgoing_batch (node_id, status);
CREATE INDEX sym_idx_ob_status ON sym_outgoing_batch (status);
CREATE INDEX sym_idx_ob_in_error ON sym_outgoing_batch (error_flag);

-- Batches of the channel `item` go to all stores (common), those of `price` to one or two, `config` seldom. Store 005 has been
-- closed since the 23rd, 17:30; at store 003 a row of `item` has violated a foreign key since 11:23; store 002 has had a full disk since 11:56.
INSERT INTO sym_outgoing_batch (batch_id, node_id, channel_id, status, load_id, error_flag, common_flag, ignore_count, byte_count, extract_count, sent_count, load_count, data_event_count, insert_event_count, update_event_count, delete_event_count, other_event_count,
  router_millis, network_millis, filter_millis, load_millis, extract_millis, sql_state, sql_code, sql_message, failed_data_id, last_update_hostname, last_update_time, create_time, create_by)
SELECT 418200 + b, node, ch, st, -1, CASE st WHEN 'ER' THEN 1 ELSE 0 END, CASE ch WHEN 'item' THEN 1 ELSE 0 END, ign,
  CASE WHEN tries > 0 OR st = 'QY' THEN CASE st WHEN 'QY' THEN 0 ELSE 310 + ev * 211 END ELSE 0 END, CASE WHEN tries > 0 OR st = 'QY' THEN 1 ELSE 0 END, tries, tries,
  CASE st WHEN 'RT' THEN 0 ELSE ev END, CASE st WHEN 'RT' THEN 0 ELSE ev - ev / 2 END, CASE st WHEN 'RT' THEN 0 ELSE ev / 2 - ev / 5 END, CASE st WHEN 'RT' THEN 0 ELSE ev / 5 END, 0,
  CASE st WHEN 'RT' THEN 0 ELSE (b * 13) % 41 END, CASE WHEN st IN ('OK', 'ER') AND tries > 0 THEN 3 + (b * 7) % 90 ELSE 0 END, 0, CASE WHEN st IN ('OK', 'ER') AND tries > 0 THEN 2 + ev * 3 ELSE 0 END, CASE WHEN tries > 0 THEN 1 + ev / 3 ELSE 0 END,
  CASE WHEN st = 'ER' THEN CASE node WHEN '003' THEN '23503' ELSE '53100' END END, CASE WHEN st = 'ER' AND node = '003' THEN -900 ELSE 0 END,
  CASE WHEN st = 'ER' THEN CASE node WHEN '003' THEN 'ERROR: insert or update on table "item_selling_price" violates foreign key constraint "item_selling_price_item_id_fkey"' ELSE 'ERROR: could not extend file "base/16384/24713": No space left on device' END END,
  CASE WHEN st = 'ER' THEN 9120000 + b * 17 ELSE 0 END, 'corp', upd, c, NULL
FROM (
  SELECT z.*, CASE WHEN st = 'ER' THEN CASE node WHEN '003' THEN timestamp '2026-11-24 11:59:31.204' ELSE timestamp '2026-11-24 11:59:12.771' END
      WHEN st IN ('NE', 'RT') THEN c + ((b * 13) % 41) * interval '1 millisecond' WHEN st IN ('QY', 'LD') THEN timestamp '2026-11-24 11:59:58.107' ELSE c + tries * interval '14.317 seconds' + (b % 9) * interval '1.109 seconds' END AS upd
  FROM (
    SELECT y.*, CASE WHEN b = 170 THEN 'RT' WHEN node = '003' AND ch = 'item' AND c > timestamp '2026-11-24 08:40:00' THEN CASE WHEN b = first3 THEN 'ER' ELSE 'NE' END
        WHEN node = '002' AND ch = 'price' AND c > timestamp '2026-11-24 11:49:00' THEN CASE WHEN b = first2 THEN 'ER' ELSE 'NE' END
        WHEN node = '005' AND c > timestamp '2026-11-23 17:30:00' THEN 'NE'
        WHEN b = 169 THEN CASE node WHEN '001' THEN 'QY' ELSE 'NE' END WHEN b = 168 THEN CASE node WHEN '001' THEN 'LD' ELSE 'NE' END WHEN b >= 167 THEN 'NE' ELSE 'OK' END AS st,
      CASE WHEN node = '003' AND ch = 'item' AND b = first3 THEN 197 WHEN node = '002' AND ch = 'price' AND b = first2 THEN 10
        WHEN (node = '003' AND ch = 'item' AND c > timestamp '2026-11-24 08:40:00') OR (node = '002' AND ch = 'price' AND c > timestamp '2026-11-24 11:49:00') OR (node = '005' AND c > timestamp '2026-11-23 17:30:00') THEN 0
        WHEN b = 168 AND node = '001' THEN 1 WHEN b >= 167 THEN 0 WHEN b IN (31, 32) AND node = '005' THEN 0 WHEN b % 27 = 11 AND node = '002' THEN 3 WHEN b % 17 = 3 AND node <> '001' THEN 2 ELSE 1 END AS tries,
      CASE WHEN b IN (31, 32) AND node = '005' THEN 1 ELSE 0 END AS ign
    FROM (
      SELECT x.*, min(b) FILTER (WHERE node = '003' AND ch = 'item' AND c > timestamp '2026-11-24 08:40:00') OVER () AS first3, min(b) FILTER (WHERE node = '002' AND ch = 'price' AND c > timestamp '2026-11-24 11:49:00') OVER () AS first2
      FROM (
        SELECT b, node, ch, c, 1 + (b * 29) % 37 AS ev
        FROM (SELECT b, CASE WHEN b % 43 = 20 THEN 'config' WHEN b % 3 = 1 AND b < 168 THEN 'item' ELSE 'price' END AS ch,
            CASE WHEN b <= 150 THEN timestamp '2026-11-19 12:14:03.552' + b * interval '47 minutes 11.213 seconds' + (b * b % 59) * interval '7.31 seconds'
              WHEN b <= 166 THEN timestamp '2026-11-24 11:20:41.118' + (b - 150) * interval '2 minutes 21.417 seconds' ELSE timestamp '2026-11-24 11:59:01.662' + (b - 166) * interval '13.871 seconds' END AS c
          FROM generate_series(1, 170) b) a, (VALUES ('001'), ('002'), ('003'), ('005')) n(node)
        WHERE ch = 'item' OR (ch = 'config' AND node = '001') OR (ch = 'price' AND (node = (ARRAY['001', '002', '003', '005'])[1 + b % 4] OR (b >= 167 AND node = '001') OR (b % 5 = 0 AND node = '002')))
      ) x
    ) y
  ) z
) q ORDER BY b, node;
