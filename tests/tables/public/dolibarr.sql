-- dialect: sqlite
CREATE TABLE llx_mailing (rowid INTEGER PRIMARY KEY AUTOINCREMENT, titre VARCHAR(128), entity INTEGER NOT NULL DEFAULT 1, sujet VARCHAR(128), body MEDIUMTEXT, email_from VARCHAR(255), nbemail INTEGER, date_creat DATETIME, date_valid DATETIME, date_envoi DATETIME, statut SMALLINT DEFAULT 0, fk_user_creat INTEGER, fk_user_valid INTEGER);
INSERT INTO llx_mailing VALUES
  (7, 'Autumn catalogue', 1, 'Our autumn catalogue', '<html>Dear __FIRSTNAME__ ... __CHECK_READ__ __UNSUBSCRIBE__</html>', 'sales@shop.example', 96, '2026-10-12 14:20:11', '2026-10-13 09:00:05', '2026-10-13 09:20:01', 3, 1, 1),
  (8, 'Price list 2027', 1, 'Price list 2027', '<html>Dear __FIRSTNAME__ ... __CHECK_READ__ __UNSUBSCRIBE__</html>', 'sales@shop.example', 88, '2026-11-03 10:02:40', '2026-11-03 16:10:31', '2026-11-24 11:50:01', 2, 1, 1),
  (9, 'Winter fair', 1, 'Meet us at the winter fair', '<html>Dear __FIRSTNAME__ ... __CHECK_READ__ __UNSUBSCRIBE__</html>', 'sales@shop.example', 74, '2026-11-24 11:24:36', '2026-11-24 11:36:12', '2026-11-24 11:50:02', 2, 1, 1);

CREATE TABLE llx_mailing_cibles (
  rowid INTEGER PRIMARY KEY AUTOINCREMENT,
  fk_mailing INTEGER NOT NULL,
  fk_contact INTEGER NOT NULL,
  lastname VARCHAR(160),
  firstname VARCHAR(160),
  email VARCHAR(160) NOT NULL,
  other VARCHAR(255) NULL,
  tag VARCHAR(64) NULL,
  statut SMALLINT NOT NULL DEFAULT 0,
  source_url VARCHAR(255),
  source_id INTEGER,
  source_type VARCHAR(16),
  date_envoi DATETIME,
  tms TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  error_text VARCHAR(255)
);
CREATE UNIQUE INDEX uk_mailing_cibles ON llx_mailing_cibles (fk_mailing, email);
CREATE INDEX idx_mailing_cibles_email ON llx_mailing_cibles (email);
CREATE INDEX idx_mailing_cibles_tag ON llx_mailing_cibles (tag);
-- mailing-send.php all, each ten minutes, 20 mails a time; the first mails of mailing 8 were sent from the web page
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 258),
m AS (SELECT i, CASE WHEN i <= 96 THEN 7 WHEN i <= 184 THEN 8 ELSE 9 END AS m, CASE WHEN i <= 96 THEN i WHEN i <= 184 THEN i - 96 ELSE i - 184 END AS p FROM n),
k AS (SELECT i, m, p, 1 + (p * 7 + m) % 211 AS src,
  CASE m WHEN 7 THEN 0 WHEN 8 THEN p IN (13, 37, 38, 61, 70) ELSE p IN (4, 11, 19) END AS bad,
  CASE WHEN m = 9 AND p > 40 THEN NULL WHEN m = 9 THEN strftime('%s', '2026-11-24 11:40:02') + (p - 1) / 20 * 600 + (p - 1) % 20 * 2
    WHEN m = 7 THEN strftime('%s', '2026-10-13 09:10:01') + (p - 1) / 20 * 600 + (p - 1) % 20 * 2 ELSE strftime('%s', '2026-11-03 16:20:01') + (p - 1) / 20 * 600 + (p - 1) % 20 * 2 END AS d,
  CASE m WHEN 7 THEN strftime('%s', '2026-10-12 14:31:09') WHEN 8 THEN strftime('%s', '2026-11-03 10:12:55') ELSE strftime('%s', '2026-11-24 11:31:47') END + (p > 60) AS ins FROM m),
s AS (SELECT k.*, CASE WHEN d IS NULL THEN 0 WHEN bad THEN -1 WHEN m < 9 AND p % 5 = 2 THEN 2 WHEN m < 9 AND p % 17 = 6 THEN 3 WHEN m = 9 AND p IN (7, 16) THEN 2 ELSE 1 END AS st,
  CASE WHEN bad AND d IS NOT NULL THEN strftime('%s', '2026-11-24 11:50:01') + p % 7 WHEN m = 7 AND p = 44 THEN strftime('%s', '2026-10-13 09:50:03') ELSE d END AS sent FROM k)
INSERT INTO llx_mailing_cibles (rowid, fk_mailing, fk_contact, lastname, firstname, email, other, tag, statut, source_url, source_id, source_type, date_envoi, tms, error_text)
SELECT 402 + i, m, CASE WHEN src % 3 = 0 THEN src ELSE 0 END, 'Name' || src, CASE WHEN src % 3 = 0 THEN 'First' || src ELSE '' END,
  CASE WHEN bad THEN 'info@gone' || src || '.example' ELSE 'contact' || src || '@customer' || (src % 40) || '.example' END,
  CASE WHEN src % 3 = 0 THEN 'Function=Buyer;Civility=MR' ELSE '' END,
  printf('%08x%08x%08x%08x', (i * 2654435761) % 4294967296, (i * 40503977) % 4294967296, (i * 97531) % 4294967296, (i * 1327217885) % 4294967296),
  st,
  CASE WHEN src % 3 = 0 THEN '<a href="/contact/card.php?id=' || src || '"><span class="fas fa-address-book"></span></a>' ELSE '<a href="/societe/card.php?socid=' || src || '"><span class="fas fa-building"></span></a>' END,
  src, CASE WHEN src % 3 = 0 THEN 'contacts' ELSE 'thirdparty' END,
  datetime(sent, 'unixepoch'),
  datetime(CASE st WHEN 0 THEN ins WHEN 2 THEN sent + CASE m WHEN 9 THEN 340 ELSE 1200 + (i * 7919) % 200000 END WHEN 3 THEN sent + 900 + (i * 5231) % 90000 ELSE sent END, 'unixepoch'),
  CASE WHEN m = 8 AND bad AND p <= 40 THEN 'SMTP error: 550 5.1.1 User unknown' WHEN m = 8 AND p = 21 THEN 'Connection timed out (110)' END
FROM s ORDER BY i;
