-- Action Scheduler 3.7 (ActionScheduler_StoreSchema) is for MySQL only: its names, in SQLite's types.
CREATE TABLE wp_actionscheduler_actions (action_id INTEGER PRIMARY KEY AUTOINCREMENT, hook VARCHAR(191) NOT NULL, status VARCHAR(20) NOT NULL,
  scheduled_date_gmt DATETIME DEFAULT '0000-00-00 00:00:00', scheduled_date_local DATETIME DEFAULT '0000-00-00 00:00:00', priority TINYINT NOT NULL DEFAULT 10,
  args VARCHAR(191), schedule TEXT, group_id INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
  last_attempt_gmt DATETIME DEFAULT '0000-00-00 00:00:00', last_attempt_local DATETIME DEFAULT '0000-00-00 00:00:00',
  claim_id INTEGER NOT NULL DEFAULT 0, extended_args VARCHAR(8000) DEFAULT NULL);
CREATE INDEX claim_id_status_priority_scheduled_date_gmt ON wp_actionscheduler_actions (claim_id, status, priority, scheduled_date_gmt);
INSERT INTO wp_actionscheduler_actions (action_id, hook, status, scheduled_date_gmt, priority, args, attempts, last_attempt_gmt, claim_id) VALUES
  (1, 'send', 'pending', '2020-11-20 10:00:00', 10, '[]', 0, '0000-00-00 00:00:00', 0),
  (2, 'send', 'pending', '2020-11-20 10:00:01', 0, '[]', 0, '0000-00-00 00:00:00', 0),
  (3, 'send', 'failed', '2020-11-20 10:00:02', 10, '[]', 4, '2026-11-20 10:00:02', 0),
  (4, 'send', 'failed', '2026-11-21 00:02:58', 10, '[]', 4, '2026-11-20 23:59:58', 0),
  (5, 'send', 'pending', '2020-11-20 10:00:04', 10, '[]', 0, '0000-00-00 00:00:00', 9),
  (6, 'send', 'pending', '2999-11-20 10:00:05', 10, '[]', 0, '0000-00-00 00:00:00', 0),
  (7, 'send', 'complete', '2020-11-20 10:00:06', 10, '[]', 1, '2020-11-20 10:00:06', 0),
  (8, 'send', 'failed', '2020-11-20 10:00:07', 10, '[]', 1, '0000-00-00 00:00:00', 0),
  (9, 'send', 'canceled', '2020-11-20 10:00:08', 10, '[]', 5, '2020-11-21 10:00:08', 0),
  (10, 'send', 'pending', NULL, 10, '[]', 0, NULL, 0);
