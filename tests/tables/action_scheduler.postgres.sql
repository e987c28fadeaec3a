-- Action Scheduler 3.7 (ActionScheduler_StoreSchema) is for MySQL only: its names, in PostgreSQL's types, and NULL for 0000-00-00, which no timestamp can be.
CREATE TABLE wp_actionscheduler_actions (action_id bigserial PRIMARY KEY, hook varchar(191) NOT NULL, status varchar(20) NOT NULL,
  scheduled_date_gmt timestamp, scheduled_date_local timestamp, priority smallint NOT NULL DEFAULT 10,
  args varchar(191), schedule text, group_id bigint NOT NULL DEFAULT 0, attempts integer NOT NULL DEFAULT 0,
  last_attempt_gmt timestamp, last_attempt_local timestamp,
  claim_id bigint NOT NULL DEFAULT 0, extended_args varchar(8000) DEFAULT NULL);
CREATE INDEX claim_id_status_priority_scheduled_date_gmt ON wp_actionscheduler_actions (claim_id, status, priority, scheduled_date_gmt);
INSERT INTO wp_actionscheduler_actions (action_id, hook, status, scheduled_date_gmt, priority, args, attempts, last_attempt_gmt, claim_id) VALUES
  (1, 'send', 'pending', '2020-11-20 10:00:00', 10, '[]', 0, NULL, 0),
  (2, 'send', 'pending', '2020-11-20 10:00:01', 0, '[]', 0, NULL, 0),
  (3, 'send', 'failed', '2020-11-20 10:00:02', 10, '[]', 4, '2026-11-20 10:00:02', 0),
  (4, 'send', 'failed', '2026-11-21 00:02:58', 10, '[]', 4, '2026-11-20 23:59:58', 0),
  (5, 'send', 'pending', '2020-11-20 10:00:04', 10, '[]', 0, NULL, 9),
  (6, 'send', 'pending', '2999-11-20 10:00:05', 10, '[]', 0, NULL, 0),
  (7, 'send', 'complete', '2020-11-20 10:00:06', 10, '[]', 1, '2020-11-20 10:00:06', 0),
  (8, 'send', 'failed', '2020-11-20 10:00:07', 10, '[]', 1, NULL, 0),
  (9, 'send', 'canceled', '2020-11-20 10:00:08', 10, '[]', 5, '2020-11-21 10:00:08', 0),
  (10, 'send', 'pending', NULL, 10, '[]', 0, NULL, 0);
