-- Action Scheduler 3.7 (ActionScheduler_StoreSchema). MySQL only: the same names, in SQLite's types.
CREATE TABLE wp_actionscheduler_actions (action_id INTEGER PRIMARY KEY AUTOINCREMENT, hook VARCHAR(191) NOT NULL, status VARCHAR(20) NOT NULL, scheduled_date_gmt DATETIME DEFAULT '0000-00-00 00:00:00',
  args VARCHAR(191), schedule TEXT, group_id INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, last_attempt_gmt DATETIME DEFAULT '0000-00-00 00:00:00', claim_id INTEGER NOT NULL DEFAULT 0);
INSERT INTO wp_actionscheduler_actions (action_id, hook, status, scheduled_date_gmt, attempts, last_attempt_gmt, claim_id) VALUES
  (1, 'send', 'pending', '2020-11-20 10:00:00', 0, '0000-00-00 00:00:00', 0), (2, 'send', 'pending', '2020-11-20 10:00:01', 0, '0000-00-00 00:00:00', 0),
  (3, 'send', 'failed', '2020-11-20 10:00:02', 4, '2026-11-20 10:00:02', 0), (4, 'send', 'failed', '2020-11-20 10:00:03', 4, '2026-11-20 23:59:58', 0),
  (5, 'send', 'pending', '2020-11-20 10:00:04', 0, '0000-00-00 00:00:00', 9), (6, 'send', 'pending', '2999-11-20 10:00:05', 0, '0000-00-00 00:00:00', 0), (7, 'send', 'complete', '2020-11-20 10:00:06', 1, '2020-11-20 10:00:06', 0),
  (8, 'send', 'failed', '2020-11-20 10:00:07', 1, '0000-00-00 00:00:00', 0);
