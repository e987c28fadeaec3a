-- dialect: postgres
CREATE TABLE "EmailAccount" (
  "Id" serial NOT NULL,
  "DisplayName" varchar(255),
  "Email" varchar(255) NOT NULL,
  "Host" varchar(255) NOT NULL,
  "Username" varchar(255),
  "Password" varchar(255),
  "Port" integer NOT NULL,
  "EnableSsl" boolean NOT NULL,
  "MaxNumberOfEmails" integer NOT NULL,
  "EmailAuthenticationMethodId" integer NOT NULL,
  CONSTRAINT "PK_EmailAccount" PRIMARY KEY ("Id")
);
INSERT INTO "EmailAccount" ("DisplayName", "Email", "Host", "Username", "Port", "EnableSsl", "MaxNumberOfEmails", "EmailAuthenticationMethodId") VALUES ('Garden Tools Shop', 'shop@gardentools.example', 'smtp.mail.example', 'shop', 587, true, 50, 10), ('Newsletter', 'news@gardentools.example', 'smtp.mail.example', 'news', 587, true, 50, 10);
CREATE TABLE "ScheduleTask" (
  "Id" serial NOT NULL,
  "Name" text NOT NULL,
  "Type" text NOT NULL,
  "LastEnabledUtc" timestamp,
  "Enabled" boolean NOT NULL,
  "StopOnError" boolean NOT NULL,
  "LastStartUtc" timestamp,
  "LastEndUtc" timestamp,
  "LastSuccessUtc" timestamp,
  "Seconds" integer NOT NULL,
  CONSTRAINT "PK_ScheduleTask" PRIMARY KEY ("Id")
);
INSERT INTO "ScheduleTask" ("Name", "Type", "LastEnabledUtc", "Enabled", "StopOnError", "LastStartUtc", "LastEndUtc", "LastSuccessUtc", "Seconds") VALUES
('Send emails', 'Nop.Services.Messages.QueuedMessagesSendTask, Nop.Services', '2026-03-02 09:14:20.118204', true, false, '2026-11-24 11:59:07.402311', '2026-11-24 11:59:11.914620', '2026-11-24 11:59:11.914620', 60),
('Keep alive', 'Nop.Services.Common.KeepAliveTask, Nop.Services', '2026-03-02 09:14:20.118204', true, false, '2026-11-24 11:57:31.710022', '2026-11-24 11:57:31.799841', '2026-11-24 11:57:31.799841', 300),
('Delete guests', 'Nop.Services.Customers.DeleteGuestsTask, Nop.Services', '2026-03-02 09:14:20.118204', true, false, '2026-11-24 11:50:02.000310', '2026-11-24 11:50:02.390771', '2026-11-24 11:50:02.390771', 600),
('Clear cache', 'Nop.Services.Caching.ClearCacheTask, Nop.Services', NULL, false, false, NULL, NULL, NULL, 600);

CREATE TABLE "QueuedEmail" (
  "Id" serial NOT NULL,
  "From" varchar(500) NOT NULL,
  "FromName" varchar(500),
  "To" varchar(500) NOT NULL,
  "ToName" varchar(500),
  "ReplyTo" varchar(500),
  "ReplyToName" varchar(500),
  "CC" varchar(500),
  "Bcc" varchar(500),
  "Subject" varchar(1000),
  "EmailAccountId" integer NOT NULL,
  "PriorityId" integer NOT NULL,
  "Body" text,
  "AttachmentFilePath" text,
  "AttachmentFileName" text,
  "AttachedDownloadId" integer NOT NULL,
  "CreatedOnUtc" timestamp NOT NULL,
  "DontSendBeforeDateUtc" timestamp,
  "SentTries" integer NOT NULL,
  "SentOnUtc" timestamp,
  CONSTRAINT "PK_QueuedEmail" PRIMARY KEY ("Id"),
  CONSTRAINT "FK_QueuedEmail_EmailAccountId_EmailAccount_Id" FOREIGN KEY ("EmailAccountId") REFERENCES "EmailAccount" ("Id") ON DELETE CASCADE
);
CREATE INDEX "IX_QueuedEmail_EmailAccountId" ON "QueuedEmail" ("EmailAccountId");
CREATE INDEX "IX_QueuedEmail_CreatedOnUtc" ON "QueuedEmail" ("CreatedOnUtc" DESC);
CREATE INDEX "IX_QueuedEmail_SentOnUtc_DontSendBeforeDateUtc_Extended" ON "QueuedEmail" ("SentOnUtc", "DontSendBeforeDateUtc") INCLUDE ("SentTries");

INSERT INTO "QueuedEmail" ("From", "FromName", "To", "ToName", "ReplyTo", "ReplyToName", "CC", "Bcc", "Subject", "EmailAccountId", "PriorityId", "Body", "AttachmentFilePath", "AttachmentFileName", "AttachedDownloadId", "CreatedOnUtc", "DontSendBeforeDateUtc", "SentTries", "SentOnUtc")
SELECT
  CASE WHEN camp THEN 'news@gardentools.example' ELSE 'shop@gardentools.example' END,
  CASE WHEN camp THEN 'Newsletter' ELSE 'Garden Tools Shop' END,
  CASE t WHEN 'store' THEN 'shop@gardentools.example' ELSE 'customer' || (i * 37) % 211 || CASE k WHEN 'dead' THEN '@no-such-domain.example' ELSE '@mail.example' END END,
  CASE WHEN camp THEN NULL WHEN t = 'store' THEN 'Garden Tools Shop' ELSE 'Customer ' || (i * 37) % 211 END,
  CASE WHEN t = 'contact' THEN 'asker' || i || '@mail.example' END,
  CASE WHEN t = 'contact' THEN 'Asker ' || i END,
  CASE WHEN camp THEN NULL ELSE '' END,
  CASE WHEN t = 'paid' THEN 'accounts@gardentools.example' END,
  CASE t WHEN 'campaign' THEN 'Spades and bulbs: winter offers' WHEN 'store' THEN 'Garden Tools Shop. Purchase Receipt for Order #' || 2000 + i WHEN 'contact' THEN 'Garden Tools Shop. Contact us' WHEN 'paid' THEN 'Garden Tools Shop. Order #' || 2000 + i || ' paid' WHEN 'completed' THEN 'How do you like your order #' || 2000 + i || '?' ELSE 'Garden Tools Shop. Order #' || 2000 + i || ' shipped' END,
  CASE WHEN camp THEN 2 ELSE 1 END,
  CASE WHEN camp THEN 0 ELSE 5 END,
  '<p><a href="https://gardentools.example/">Garden Tools Shop</a><br /><br />' || CASE WHEN camp THEN 'Dear gardener, winter is near.' ELSE 'Order Number: ' || 2000 + i || '<br />Date Ordered: ' || to_char(c, 'FMDay, FMMonth DD, YYYY') END || '</p>',
  CASE WHEN t = 'paid' THEN '/app/wwwroot/files/exportimport/order_' || md5('order' || i) || '.pdf' END,
  CASE WHEN t = 'paid' THEN 'order.pdf' END,
  0,
  c, due,
  CASE k WHEN 'sent' THEN CASE WHEN i % 17 = 3 THEN 2 ELSE 1 END WHEN 'dead' THEN 3 WHEN 'again2' THEN 2 WHEN 'again' THEN 1 ELSE 0 END,
  CASE WHEN k = 'sent' THEN date_trunc('minute', coalesce(due, c) + CASE WHEN i % 17 = 3 THEN interval '113 seconds' ELSE interval '53 seconds' END) + interval '7.6 seconds' + (i * 7919 % 4300) * interval '1.001 milliseconds' END
FROM (
  SELECT *, t = 'campaign' AS camp,
    CASE WHEN due > timestamp '2026-11-24 11:59:00' THEN 'later'
      WHEN i <= 170 AND i % 24 = 13 AND due IS NULL THEN 'dead'
      WHEN i = 174 THEN 'again2' WHEN i IN (179, 181) THEN 'again' WHEN i > 182 THEN 'new' ELSE 'sent' END AS k
  FROM (
    SELECT i, t, c, CASE WHEN t = 'completed' THEN c + interval '7 days' WHEN t = 'campaign' THEN CASE WHEN i > 170 THEN timestamp '2026-11-25 06:00:00' ELSE timestamp '2026-11-08 06:00:00' END END AS due
    FROM (
      SELECT i,
        CASE WHEN i > 186 THEN 'campaign' WHEN i BETWEEN 101 AND 112 THEN 'campaign' WHEN i <= 170 AND i % 11 = 4 THEN 'completed' WHEN i % 5 = 1 THEN 'store' WHEN i % 5 = 2 THEN 'paid' WHEN i % 23 = 9 THEN 'contact' ELSE 'shipped' END AS t,
        CASE WHEN i BETWEEN 101 AND 112 THEN timestamp '2026-11-07 15:36:15' + (i - 101) * interval '39 milliseconds'
          WHEN i <= 170 THEN timestamp '2026-10-14 06:20:14' + i * interval '5 hours 47 minutes 41 seconds'
          WHEN i <= 186 THEN timestamp '2026-11-24 11:57:05' + (i - 171) * interval '11 seconds'
          ELSE timestamp '2026-11-24 11:59:54' + (i - 186) * interval '41 milliseconds' END + (i * 104729 % 1000000) * CASE WHEN i <= 186 AND i NOT BETWEEN 101 AND 112 THEN interval '1 microsecond' ELSE interval '0' END AS c
      FROM generate_series(1, 200) i) a) b) d
ORDER BY i;
