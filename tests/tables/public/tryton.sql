-- dialect: postgres
CREATE TABLE res_user (
  id serial PRIMARY KEY,
  active boolean DEFAULT true,
  create_date timestamp(6) without time zone,
  create_uid integer,
  login varchar NOT NULL UNIQUE,
  name varchar,
  write_date timestamp(6) without time zone,
  write_uid integer
);
INSERT INTO res_user (id, active, create_date, create_uid, login, name) VALUES (0, false, '2026-02-11 08:01:12.501223', NULL, 'root', 'Root'), (1, true, '2026-02-11 08:01:12.501223', 0, 'admin', 'Administrator'), (2, true, '2026-02-11 09:40:33.118276', 1, 'sales', 'Sales'), (3, true, '2026-02-11 09:41:02.660190', 1, 'stock', 'Stock'), (4, true, '2026-03-02 07:15:48.002817', 1, 'accounts', 'Accounts');

CREATE TABLE ir_queue (
  id serial PRIMARY KEY,
  create_date timestamp(6) without time zone,
  create_uid integer,
  data text,
  dequeued_at timestamp(6) without time zone,
  enqueued_at timestamp(6) without time zone NOT NULL,
  expected_at timestamp(6) without time zone,
  finished_at timestamp(6) without time zone,
  name varchar NOT NULL,
  scheduled_at timestamp(6) without time zone,
  write_date timestamp(6) without time zone,
  write_uid integer
);
COMMENT ON TABLE ir_queue IS 'Queue';
COMMENT ON COLUMN ir_queue.dequeued_at IS 'Dequeued at';
COMMENT ON COLUMN ir_queue.enqueued_at IS 'Enqueued at';
COMMENT ON COLUMN ir_queue.expected_at IS 'Expected at';
COMMENT ON COLUMN ir_queue.finished_at IS 'Finished at';
COMMENT ON COLUMN ir_queue.scheduled_at IS 'Scheduled at';
CREATE INDEX ir_queue_0d0c47c1 ON ir_queue (scheduled_at NULLS FIRST, expected_at NULLS FIRST, dequeued_at, name);

-- Tasks are deleted 30 days after they were dequeued. Those taken but never finished have ended in an exception (they are not tried again); g 301, 302 run now.
-- After a deadlock the same data is pushed as a new task, scheduled some seconds later: g 61, 62 and 190, 191.
INSERT INTO ir_queue (id, create_date, create_uid, data, dequeued_at, enqueued_at, expected_at, finished_at, name, scheduled_at, write_date, write_uid)
SELECT 18204 + g, CASE WHEN g > 282 THEN timestamp '2026-11-24 11:59:37.170557' ELSE c - (20 + g % 30) * interval '0.001017 seconds' END, 0,
  json_build_object('model', model, 'method', method, 'user', CASE WHEN g % 4 = 0 THEN 0 ELSE 1 + g % 4 END, 'context', json_build_object('company', 1, '_datetime', NULL), 'instances', json_build_array(4100 + CASE WHEN g IN (62, 191) THEN g - 1 ELSE g END), 'args', '[]'::json, 'kwargs', '{}'::json)::text,
  deq, c, CASE WHEN k = 3 THEN c + interval '1 hour' END,
  CASE WHEN st = 'done' THEN deq + dur END, CASE WHEN k = 3 THEN 'edocument' ELSE 'default' END, sched,
  CASE WHEN st = 'done' THEN deq + (g % 9 + 3) * interval '0.002113 seconds' END, CASE WHEN st = 'done' THEN 0 END
FROM (
  SELECT y.*, CASE WHEN st IN ('done', 'failed') THEN coalesce(sched, c) + (g % 17 + 1) * interval '0.013107 seconds' + CASE WHEN g BETWEEN 283 AND 300 THEN (g - 283) * interval '0.8 seconds' ELSE interval '0' END WHEN st = 'running' THEN timestamp '2026-11-24 11:59:52.417731' + (g - 301) * interval '2.204719 seconds' END AS deq,
    (g * 31 % 97 + 8) * interval '0.061311 seconds' AS dur
  FROM (
    SELECT x.*, CASE WHEN g IN (61, 190) THEN 'failed' WHEN g IN (301, 302) THEN 'running' WHEN g > 302 THEN 'new' WHEN sched > timestamp '2026-11-24 11:59:59' THEN 'new' WHEN g % 37 = 14 THEN 'failed' WHEN g = 120 THEN 'failed' ELSE 'done' END AS st,
      (ARRAY['sale.sale', 'stock.shipment.out', 'sale.sale', 'account.invoice', 'purchase.purchase', 'stock.shipment.out', 'marketing.automation.activity'])[1 + k] AS model, (ARRAY['process', '_create_move_cost', 'process', 'post', 'process', 'assign_try', 'trigger'])[1 + k] AS method
    FROM (
      SELECT g, c, CASE WHEN g > 282 THEN 0 WHEN g IN (62, 191) THEN (g - 1) % 7 ELSE g % 7 END AS k,
        CASE WHEN g IN (62, 191) THEN c + interval '9 seconds' WHEN g <= 282 AND g % 7 = 6 THEN c + CASE g % 3 WHEN 0 THEN interval '3 days' WHEN 1 THEN interval '1 day' ELSE interval '2 hours' END END AS sched
      FROM (SELECT g, CASE WHEN g IN (62, 191) THEN timestamp '2026-10-25 13:10:41.118702' + (g - 1) * interval '2 hours 32 minutes 7.30713 seconds' + interval '4.107713 seconds' WHEN g <= 282 THEN timestamp '2026-10-25 13:10:41.118702' + g * interval '2 hours 32 minutes 7.30713 seconds' ELSE timestamp '2026-11-24 11:59:37.204118' + (g - 283) * interval '0.017311 seconds' END AS c FROM generate_series(1, 331) g) w
    ) x
  ) y
) z ORDER BY g;
SELECT setval('ir_queue_id_seq', (SELECT max(id) FROM ir_queue));
