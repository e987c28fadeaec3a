-- dialect: sqlite
CREATE TABLE "auth_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "password" varchar(128) NOT NULL, "last_login" datetime NULL, "is_superuser" bool NOT NULL, "username" varchar(150) NOT NULL UNIQUE, "last_name" varchar(150) NOT NULL, "email" varchar(254) NOT NULL, "is_staff" bool NOT NULL, "is_active" bool NOT NULL, "date_joined" datetime NOT NULL, "first_name" varchar(150) NOT NULL);
INSERT INTO "auth_user" VALUES (1, '!x', '2026-11-24 08:01:12.440121', 1, 'admin', '', 'admin@museum.example', 1, 1, '2026-05-02 09:00:00.118230', ''), (2, '!x', '2026-11-24 09:44:50.120077', 0, 'maria', 'Lind', 'maria@museum.example', 1, 1, '2026-05-04 10:11:32.771203', 'Maria');
CREATE TABLE "newsletter_issue" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "subject" varchar(200) NOT NULL, "send_at" datetime NULL, "sent" bool NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO "newsletter_issue" SELECT i, 'Museum news ' || i, datetime('2026-10-05 06:00:00', '+' || (i * 7) || ' days'), i < 8 FROM n;

CREATE TABLE "django_tasks_database_dbtaskresult" ("id" char(32) NOT NULL PRIMARY KEY, "status" varchar(10) NOT NULL, "args_kwargs" text NOT NULL CHECK ((JSON_VALID("args_kwargs") OR "args_kwargs" IS NULL)), "priority" integer NOT NULL, "task_path" text NOT NULL, "queue_name" varchar(32) NOT NULL, "backend_name" varchar(32) NOT NULL, "run_after" datetime NOT NULL, "enqueued_at" datetime NOT NULL, "finished_at" datetime NULL, "started_at" datetime NULL, "return_value" text NULL CHECK ((JSON_VALID("return_value") OR "return_value" IS NULL)), "exception_class_path" text NOT NULL, "traceback" text NOT NULL, "worker_ids" text NOT NULL CHECK ((JSON_VALID("worker_ids") OR "worker_ids" IS NULL)), CONSTRAINT "priority_range" CHECK ("priority" BETWEEN -100 AND 100));
-- k: d done, f failed, o failed weeks ago (kept longer), x left behind, l deferred, r running, n new (the worker is busy with an issue since 11:56)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 214),
a AS (SELECT i, CASE WHEN i <= 6 THEN 'o' WHEN i = 7 THEN 'x' WHEN i <= 190 THEN CASE WHEN i % 23 = 9 THEN 'f' WHEN i IN (120, 171, 188) THEN 'l' ELSE 'd' END WHEN i = 191 THEN 'r' ELSE 'n' END AS k,
  CASE WHEN i <= 7 THEN strftime('%s', '2026-10-02 07:13:20') + i * 392041 WHEN i <= 190 THEN strftime('%s', '2026-11-10 12:20:00') + (i - 8) * 6600 + (i * 7919) % 5400 WHEN i = 191 THEN strftime('%s', '2026-11-24 11:56:02') + 0 ELSE strftime('%s', '2026-11-24 11:56:20') + ((i - 192) / 2) * 19 END AS c FROM n),
b AS (SELECT i, k, c, CASE WHEN k = 'l' OR i IN (41, 98, 151, 191) OR i = 3 THEN 'newsletter.tasks.send_issue' WHEN i % 11 = 4 AND i < 191 THEN 'wagtail.tasks.delete_file_from_storage_task' WHEN i % 2 = 0 THEN 'wagtail.tasks.update_reference_index_task' ELSE 'wagtail.search.tasks.insert_or_update_object_task' END AS t FROM a),
d AS (SELECT i, k, c, t, CASE WHEN t = 'newsletter.tasks.send_issue' AND k <> 'r' THEN CASE WHEN k = 'l' THEN strftime('%s', '2026-11-25 06:00:00') + (i % 3) * 604800 ELSE (c / 86400 + 1) * 86400 + 21600 END END AS ra FROM b),
e AS (SELECT i, k, c, t, ra, CASE WHEN k IN ('n', 'l') THEN NULL WHEN ra IS NOT NULL THEN ra + i % 2 ELSE c + i % 2 END AS s FROM d)
INSERT INTO "django_tasks_database_dbtaskresult" (id, status, enqueued_at, finished_at, started_at, priority, task_path, queue_name, backend_name, run_after, return_value, args_kwargs, exception_class_path, traceback, worker_ids)
SELECT printf('%08x%04x4%03xa%03x%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656),
  CASE k WHEN 'd' THEN 'SUCCESSFUL' WHEN 'f' THEN 'FAILED' WHEN 'o' THEN 'FAILED' WHEN 'x' THEN 'RUNNING' WHEN 'r' THEN 'RUNNING' ELSE 'READY' END,
  datetime(c, 'unixepoch') || printf('.%06d', (i * 3511) % 480000 + (i % 2) * 7000),
  CASE WHEN k IN ('d', 'f', 'o') THEN datetime(s + CASE t WHEN 'newsletter.tasks.send_issue' THEN 212 + i % 40 ELSE 1 END, 'unixepoch') || printf('.%06d', (i * 48271) % 1000000) END,
  CASE WHEN s IS NOT NULL THEN datetime(s, 'unixepoch') || printf('.%06d', 500000 + (i * 733) % 500000) END,
  CASE t WHEN 'newsletter.tasks.send_issue' THEN 10 WHEN 'wagtail.tasks.delete_file_from_storage_task' THEN -10 ELSE 0 END,
  t, 'default', 'default',
  CASE WHEN ra IS NOT NULL THEN datetime(ra, 'unixepoch') ELSE '9999-01-01 00:00:00' END,
  CASE WHEN k = 'd' AND t = 'newsletter.tasks.send_issue' THEN CAST(1840 + i AS TEXT) END,
  CASE t WHEN 'newsletter.tasks.send_issue' THEN '{"args": [' || (1 + i % 9) || '], "kwargs": {}}' WHEN 'wagtail.tasks.delete_file_from_storage_task' THEN '{"args": ["django.core.files.storage.filesystem.FileSystemStorage", [], {}, "images/img_' || i || '.width-400.jpg"], "kwargs": {}}' ELSE '{"args": ["home", "contentpage", "' || (300 + i % 57) || '"], "kwargs": {}}' END,
  CASE WHEN k IN ('f', 'o') THEN CASE i % 3 WHEN 0 THEN 'smtplib.SMTPServerDisconnected' WHEN 1 THEN 'home.models.ContentPage.DoesNotExist' ELSE 'django.db.utils.OperationalError' END ELSE '' END,
  CASE WHEN k IN ('f', 'o') THEN 'Traceback (most recent call last):' || char(10) || '  File "/srv/site/.venv/lib/python3.13/site-packages/django_tasks_db/management/commands/db_worker.py", line 178, in run_task' || char(10) || '    return_value = task.call(*task_result.args, **task_result.kwargs)' || char(10) || CASE i % 3 WHEN 0 THEN 'smtplib.SMTPServerDisconnected: Connection unexpectedly closed' WHEN 1 THEN 'home.models.ContentPage.DoesNotExist: ContentPage matching query does not exist.' ELSE 'django.db.utils.OperationalError: database is locked' END || char(10) ELSE '' END,
  CASE WHEN s IS NULL THEN '[]' ELSE '["' || CASE WHEN i <= 7 THEN 'qT4nWc81yKdZb0JmXoRsUeFhVgLpAi2t' WHEN i <= 110 THEN 'Zk3vPqW9sLx0TnBcYdRjHfMgEu71aOiK' ELSE 'u8HsDfKq2LmNbVcXzAjWoEiRtYp40gQe' END || '"]' END
FROM e ORDER BY c, i;
CREATE INDEX "tasks_db_new_ordering_idx" ON "django_tasks_database_dbtaskresult" ("status", "priority" DESC, "run_after" ASC, "enqueued_at" ASC) WHERE "status" = 'READY';
CREATE INDEX "django_task_queue_n_99c321_idx" ON "django_tasks_database_dbtaskresult" ("queue_name");
CREATE INDEX "django_task_backend_3f1a5e_idx" ON "django_tasks_database_dbtaskresult" ("backend_name");
