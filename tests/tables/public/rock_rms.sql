-- dialect: sqlite
CREATE TABLE "Communication" (
  "Id" INTEGER PRIMARY KEY AUTOINCREMENT,
  "Name" NVARCHAR(100),
  "Subject" NVARCHAR(1000),
  "CommunicationType" INTEGER NOT NULL DEFAULT 0,
  "Status" INTEGER NOT NULL,
  "FutureSendDateTime" DATETIME,
  "SendDateTime" DATETIME,
  "SenderPersonAliasId" INTEGER,
  "CreatedDateTime" DATETIME,
  "Guid" UNIQUEIDENTIFIER NOT NULL
);
INSERT INTO "Communication" VALUES
  (1841, 'Fall festival volunteers', 'We need you on Saturday', 1, 3, NULL, '2026-10-13 09:02:41.330', 12, '2026-10-13 08:51:10.127', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a001'),
  (1842, 'Weekly newsletter 43', 'This week at Grace Chapel', 1, 3, NULL, '2026-10-22 15:04:12.007', 12, '2026-10-22 14:58:55.213', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a002'),
  (1843, 'Snow closing', NULL, 2, 3, NULL, '2026-11-02 06:31:55.480', 4, '2026-11-02 06:30:02.667', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a003'),
  (1844, 'Giving statement (wrong template)', 'Your giving statement', 1, 3, NULL, '2026-11-09 10:11:07.903', 7, '2026-11-09 10:07:31.450', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a004'),
  (1845, 'Weekly newsletter 47', 'This week at Grace Chapel', 1, 3, NULL, '2026-11-19 15:03:30.217', 12, '2026-11-19 14:55:20.983', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a005'),
  (1846, 'Advent choir', 'Rehearsals start', 1, 3, '2026-11-27 08:00:00.000', NULL, 9, '2026-11-23 16:20:44.860', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a006'),
  (1847, 'Thanksgiving service', 'Join us on Thursday', 1, 3, NULL, NULL, 12, '2026-11-24 11:57:48.310', '5d0c6d3e-30a4-4f0e-8c6a-1d6a5bb3a007');

CREATE TABLE "CommunicationRecipient" (
  "Id" INTEGER PRIMARY KEY AUTOINCREMENT,
  "CommunicationId" INTEGER NOT NULL REFERENCES "Communication" ("Id") ON DELETE CASCADE,
  "Status" INTEGER NOT NULL,
  "StatusNote" NVARCHAR,
  "AdditionalMergeValuesJson" NVARCHAR,
  "Guid" UNIQUEIDENTIFIER NOT NULL,
  "CreatedDateTime" DATETIME,
  "ModifiedDateTime" DATETIME,
  "OpenedDateTime" DATETIME,
  "OpenedClient" NVARCHAR(200),
  "TransportEntityTypeName" NVARCHAR(100),
  "UniqueMessageId" NVARCHAR(100),
  "CreatedByPersonAliasId" INTEGER,
  "ModifiedByPersonAliasId" INTEGER,
  "PersonAliasId" INTEGER,
  "ForeignKey" NVARCHAR(100),
  "ResponseCode" NVARCHAR(6),
  "ForeignGuid" UNIQUEIDENTIFIER,
  "ForeignId" INTEGER,
  "MediumEntityTypeId" INTEGER,
  "SentMessage" NVARCHAR,
  "SendDateTime" DATETIME,
  "PersonalDeviceId" INTEGER,
  "FirstSendAttemptDateTime" DATETIME
);
CREATE UNIQUE INDEX "IX_CommunicationRecipient_Guid" ON "CommunicationRecipient" ("Guid");
CREATE INDEX "IX_CommunicationRecipient_CommunicationId" ON "CommunicationRecipient" ("CommunicationId");
CREATE INDEX "IX_CommunicationRecipient_PersonAliasId" ON "CommunicationRecipient" ("PersonAliasId");
CREATE INDEX "IX_CommunicationRecipient_Status" ON "CommunicationRecipient" ("Status");

-- comm 1844 was cancelled after the first recipients, 1846 is scheduled for the 27th, 1847 is being sent just now
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 318),
m(i, comm, k, c) AS (SELECT i,
    CASE WHEN i <= 34 THEN 1841 WHEN i <= 110 THEN 1842 WHEN i <= 158 THEN 1843 WHEN i <= 181 THEN 1844 WHEN i <= 262 THEN 1845 WHEN i <= 276 THEN 1846 ELSE 1847 END,
    CASE WHEN i <= 34 THEN i WHEN i <= 110 THEN i - 34 WHEN i <= 158 THEN i - 110 WHEN i <= 181 THEN i - 158 WHEN i <= 262 THEN i - 181 WHEN i <= 276 THEN i - 262 ELSE i - 276 END,
    CASE WHEN i <= 34 THEN '2026-10-13 08:51:10.127' WHEN i <= 110 THEN '2026-10-22 14:58:55.213' WHEN i <= 158 THEN '2026-11-02 06:30:02.667' WHEN i <= 181 THEN '2026-11-09 10:07:31.450' WHEN i <= 262 THEN '2026-11-19 14:55:20.983' WHEN i <= 276 THEN '2026-11-23 16:20:44.860' ELSE '2026-11-24 11:57:48.310' END
  FROM n),
s AS (SELECT m.*, comm = 1843 AS sms,
    CASE WHEN comm = 1846 THEN 0 WHEN comm = 1847 THEN CASE WHEN k <= 17 THEN CASE WHEN k = 9 THEN 2 WHEN k = 3 THEN 4 ELSE 1 END WHEN k <= 19 THEN 5 ELSE 0 END
      WHEN comm = 1844 AND k > 7 THEN 3 WHEN i % 19 = 7 THEN 2 WHEN comm <> 1843 AND i % 5 IN (1, 3) THEN 4 ELSE 1 END AS st,
    CASE comm WHEN 1847 THEN strftime('%Y-%m-%d %H:%M:%f', '2026-11-24 11:59:02.113', '+' || (k * 3.013) || ' seconds')
      ELSE strftime('%Y-%m-%d %H:%M:%f', c, '+' || (CASE comm WHEN 1843 THEN 41 ELSE 318 END + k * 1.287) || ' seconds') END AS t
  FROM m),
d AS (SELECT s.*, strftime('%Y-%m-%d %H:%M:%f', t, '+' || (0.317 + (i * 7 % 10) * 0.08) || ' seconds') AS sent,
    strftime('%Y-%m-%d %H:%M:%f', t, '+' || CASE comm WHEN 1847 THEN 29 + k ELSE 600 + (i * 7919) % 90000 END || ' seconds') AS opened FROM s)
INSERT INTO "CommunicationRecipient" ("Id", "CommunicationId", "Status", "StatusNote", "AdditionalMergeValuesJson", "Guid", "CreatedDateTime", "ModifiedDateTime", "OpenedDateTime", "OpenedClient", "TransportEntityTypeName", "UniqueMessageId", "CreatedByPersonAliasId", "ModifiedByPersonAliasId", "PersonAliasId", "ResponseCode", "MediumEntityTypeId", "SentMessage", "SendDateTime", "FirstSendAttemptDateTime")
SELECT 61400 + i, comm, st,
  CASE WHEN st = 2 THEN CASE WHEN sms THEN CASE i % 2 WHEN 0 THEN 'No SMS Number' ELSE 'Exception: The message From/To pair violates a blacklist rule.' END ELSE CASE i % 3 WHEN 0 THEN 'No Email Address' WHEN 1 THEN 'Exception: Mailbox unavailable. The server response was: 5.1.1 <member' || (i % 90) || '@mail.example>: Recipient address rejected' ELSE 'Communication Preference of "Do Not Email"' END END
    WHEN st IN (1, 4) THEN CASE WHEN sms THEN CASE WHEN i % 3 THEN 'Message Confirmed from Twilio' END ELSE 'Email was received for delivery by SMTP server.' END END,
  '{}',
  printf('%08x-%04x-4%03x-a%03x-%012x', (i * 2654435761) % 4294967296, (i * 40503) % 65536, (i * 613) % 4096, (i * 271) % 4096, (i * 987654321123) % 281474976710656),
  c, CASE st WHEN 0 THEN c WHEN 3 THEN '2026-11-09 10:13:55.737' WHEN 2 THEN sent WHEN 1 THEN sent WHEN 4 THEN opened ELSE t END,
  CASE st WHEN 4 THEN opened END, CASE st WHEN 4 THEN CASE i % 3 WHEN 0 THEN 'iOS Mobile Safari' WHEN 1 THEN 'Windows 10 Chrome 130' ELSE 'Android Chrome Mobile' END END,
  CASE WHEN st IN (1, 4) THEN CASE WHEN sms THEN 'Rock.Communication.Transport.Twilio' ELSE 'Rock.Communication.Transport.SMTP' END END,
  CASE WHEN st IN (1, 4) AND sms THEN printf('SM%016x%016x', i * 987654321123, i * 40503977123) END,
  CASE comm WHEN 1843 THEN 4 WHEN 1844 THEN 7 WHEN 1846 THEN 9 ELSE 12 END, CASE comm WHEN 1843 THEN 4 WHEN 1844 THEN 7 WHEN 1846 THEN 9 ELSE 12 END,
  200 + (i * 37) % 411, CASE WHEN sms AND st = 1 THEN '@' || (1200 + i) END, CASE WHEN sms THEN 38 ELSE 37 END,
  CASE WHEN st IN (1, 4) THEN CASE WHEN sms THEN 'Due to snow all classes are cancelled today.' ELSE '<html><body><p>Dear member ' || (i % 90) || ',</p><p>...</p></body></html>' END END,
  CASE WHEN st IN (1, 4) THEN sent END, CASE WHEN st NOT IN (0, 3) THEN t END
FROM d ORDER BY i;
