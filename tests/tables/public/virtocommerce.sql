-- dialect: postgres
CREATE TABLE "Notification" (
    "Id" character varying(128) NOT NULL,
    "TenantId" character varying(128) NULL,
    "TenantType" character varying(128) NULL,
    "IsActive" boolean NULL DEFAULT TRUE,
    "Type" character varying(128) NULL,
    "Kind" character varying(128) NULL,
    "OuterId" character varying(128) NULL,
    "Discriminator" character varying(128) NOT NULL,
    "From" character varying(128) NULL,
    "To" character varying(128) NULL,
    "Number" character varying(128) NULL,
    "CreatedDate" timestamp with time zone NOT NULL,
    "ModifiedDate" timestamp with time zone NULL,
    "CreatedBy" character varying(64) NULL,
    "ModifiedBy" character varying(64) NULL,
    CONSTRAINT "PK_Notification" PRIMARY KEY ("Id")
);
INSERT INTO "Notification" ("Id", "Type", "Kind", "Discriminator", "CreatedDate", "ModifiedDate", "CreatedBy", "ModifiedBy")
SELECT md5('ntf' || t)::uuid, t, k, k || 'Entity', '2026-07-06 08:11:42.551902+00', '2026-07-06 08:11:42.551902+00', 'unknown', 'unknown'
FROM (VALUES ('OrderCreateEmailNotification', 'EmailNotification'), ('OrderPaidEmailNotification', 'EmailNotification'), ('OrderSentEmailNotification', 'EmailNotification'), ('ResetPasswordEmailNotification', 'EmailNotification'), ('TwoFactorSmsNotification', 'SmsNotification')) v(t, k);

CREATE TABLE "NotificationMessage" (
    "Id" character varying(128) NOT NULL,
    "TenantId" character varying(128) NULL,
    "TenantType" character varying(128) NULL,
    "NotificationType" character varying(128) NULL,
    "SendAttemptCount" integer NOT NULL,
    "MaxSendAttemptCount" integer NOT NULL,
    "LastSendError" text NULL,
    "LastSendAttemptDate" timestamp with time zone NULL,
    "SendDate" timestamp with time zone NULL,
    "LanguageCode" character varying(10) NULL,
    "Status" character varying(20) NULL,
    "NotificationId" character varying(128) NULL,
    "Discriminator" character varying(128) NOT NULL,
    "Subject" character varying(512) NULL,
    "Body" text NULL,
    "From" character varying(128) NULL,
    "To" character varying(128) NULL,
    "CC" character varying(1024) NULL,
    "BCC" character varying(1024) NULL,
    "Message" text NULL,
    "Number" character varying(128) NULL,
    "CreatedDate" timestamp with time zone NOT NULL,
    "ModifiedDate" timestamp with time zone NULL,
    "CreatedBy" character varying(64) NULL,
    "ModifiedBy" character varying(64) NULL,
    "ReplyTo" character varying(128) NULL,
    CONSTRAINT "PK_NotificationMessage" PRIMARY KEY ("Id"),
    CONSTRAINT "FK_NotificationMessage_Notification_NotificationId" FOREIGN KEY ("NotificationId") REFERENCES "Notification" ("Id") ON DELETE RESTRICT
);
CREATE INDEX "IX_NotificationMessage_NotificationId" ON "NotificationMessage" ("NotificationId");

INSERT INTO "NotificationMessage" ("Id", "TenantId", "TenantType", "NotificationType", "SendAttemptCount", "MaxSendAttemptCount", "LastSendError", "LastSendAttemptDate", "SendDate", "LanguageCode", "Status", "NotificationId", "Discriminator", "Subject", "Body", "From", "To", "Message", "Number", "CreatedDate", "ModifiedDate", "CreatedBy", "ModifiedBy")
SELECT overlay(overlay(md5('msg' || i) placing '4' from 13) placing 'b' from 17)::uuid,
  CASE WHEN i % 5 < 3 THEN md5('order' || i)::uuid END, CASE WHEN i % 5 < 3 THEN 'CustomerOrder' END,
  typ, a, 2,
  CASE WHEN st = 'Error' THEN CASE a WHEN 0 THEN '<input>(14,9) : error : The property or function customer.adress was not found' WHEN 1 THEN 'System.FormatException: The specified string is not in the form required for an e-mail address.' || E'\n   at System.Net.Mail.MailAddressParser.TryParseAddress(String data)'
    WHEN 2 THEN CASE WHEN sms THEN 'VirtoCommerce.Platform.Core.Exceptions.SentNotificationException: The ''To'' number +4915500' || i || ' is not a valid phone number.' ELSE 'VirtoCommerce.NotificationsModule.Core.Exceptions.SentNotificationException: Failure sending mail.' || E'\n ---> System.Net.Sockets.SocketException (110): Connection timed out\n   at MailKit.Net.SmtpClient.ConnectAsync' END END END,
  CASE WHEN a > 0 THEN l END,
  CASE WHEN st = 'Sent' THEN l + (310 + (i * 53) % 1400) * interval '1 millisecond' + (i % 11) * interval '71 microseconds' END,
  CASE i % 3 WHEN 0 THEN 'de-DE' WHEN 1 THEN 'en-US' END,
  st, md5('ntf' || typ)::uuid, CASE WHEN sms THEN 'SmsNotificationMessageEntity' ELSE 'EmailNotificationMessageEntity' END,
  CASE WHEN NOT sms AND NOT (st = 'Error' AND a = 0) THEN CASE i % 5 WHEN 0 THEN 'Your order CO261124-' || i WHEN 1 THEN 'Payment received for CO261124-' || i WHEN 2 THEN 'Your order CO261124-' || i || ' is on its way' ELSE 'Reset your password' END END,
  CASE WHEN NOT sms AND NOT (st = 'Error' AND a = 0) THEN '<html><body><p>Dear customer ' || i % 60 || ',</p><p>...</p></body></html>' END,
  CASE WHEN NOT sms THEN 'shop@nordhandel.example' END, CASE WHEN NOT sms THEN 'customer' || i % 60 || '@mail.example' END,
  CASE WHEN sms THEN 'Your security code: ' || 100000 + (i * 7919) % 899999 END, CASE WHEN sms THEN '+4915500' || 1000 + i END,
  c, CASE WHEN a = 0 THEN c ELSE l + (CASE WHEN st = 'Error' THEN 5 ELSE 0 END + (330 + (i * 53) % 1400) * 0.001) * interval '1 second' END,
  CASE WHEN i % 5 < 2 THEN 'customer' || i % 60 ELSE 'unknown' END, CASE WHEN a = 0 AND i % 5 < 2 THEN 'customer' || i % 60 ELSE 'unknown' END
FROM (
  SELECT i, c, st, a, sms, typ, c + (1 + (i * 7) % 14) * interval '1.113 seconds' + greatest(a - 1, 0) * interval '3.4 seconds' AS l
  FROM (SELECT i, i % 5 = 4 AS sms, (ARRAY['OrderCreateEmailNotification', 'OrderPaidEmailNotification', 'OrderSentEmailNotification', 'ResetPasswordEmailNotification', 'TwoFactorSmsNotification'])[1 + i % 5] AS typ,
      CASE WHEN i <= 206 THEN timestamptz '2026-10-19 06:41:20.337105+00' + i * interval '4 hours 10 minutes 17.0313 seconds' + (i * i % 101) * interval '23.7 seconds' ELSE timestamptz '2026-11-24 11:57:12.205583+00' + (i - 206) * interval '18.1173 seconds' END AS c,
      CASE WHEN i <= 206 THEN CASE WHEN i % 23 = 9 OR i IN (151, 152, 153) THEN 'Error' WHEN i IN (62, 188) THEN 'Error' WHEN i IN (40, 112) THEN 'Error' ELSE 'Sent' END ELSE 'Pending' END AS st,
      CASE WHEN i > 206 OR i IN (62, 188) THEN 0 WHEN i IN (40, 112) THEN 1 WHEN i % 23 = 9 OR i IN (151, 152, 153) THEN 2 WHEN i % 31 = 3 THEN 2 ELSE 1 END AS a
    FROM generate_series(1, 215) i) x
) y ORDER BY i;
