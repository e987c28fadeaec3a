-- dialect: postgres
CREATE TABLE miq_servers (
  id bigserial PRIMARY KEY,
  guid character varying(36),
  status character varying,
  started_on timestamp without time zone,
  stopped_on timestamp without time zone,
  name character varying,
  last_heartbeat timestamp without time zone,
  zone_id bigint
);
INSERT INTO miq_servers VALUES (1000000000001, '1b6f0c52-7a0e-4f4b-9f5e-6d0f5c1a2b11', 'started', '2026-10-30 06:12:41.118203', NULL, 'EVM', '2026-11-24 11:59:51.220117', 1000000000002),
  (1000000000002, '8c2d7e40-03b9-4a57-8d21-b54d0c9e7f02', 'not responding', '2026-09-14 14:02:10.771203', NULL, 'EVM-DR', '2026-11-03 22:41:07.448120', 1000000000003);

CREATE TABLE miq_queue (
  id bigserial PRIMARY KEY,
  target_id bigint,
  priority integer,
  method_name character varying,
  state character varying,
  created_on timestamp without time zone,
  updated_on timestamp without time zone,
  lock_version integer DEFAULT 0,
  task_id character varying,
  deliver_on timestamp without time zone,
  queue_name character varying,
  class_name character varying,
  instance_id bigint,
  args text,
  miq_callback text,
  msg_data bytea,
  zone character varying,
  role character varying,
  server_guid character varying(36),
  msg_timeout integer,
  handler_id bigint,
  handler_type character varying,
  expires_on timestamp without time zone,
  tracking_label character varying,
  user_id bigint,
  group_id bigint,
  tenant_id bigint
);
COMMENT ON COLUMN miq_queue.tracking_label IS 'label to track requests through the system';
CREATE INDEX miq_queue_get_idx ON miq_queue USING btree (state, zone, task_id, queue_name, role, server_guid, deliver_on, priority, id);
-- k: o for the server that is gone, s later (scheduled), m metrics (the collectors are behind since 11:41), e events of the last minutes, r put back, d in progress
INSERT INTO miq_queue (id, target_id, priority, method_name, state, created_on, updated_on, lock_version, task_id, deliver_on, queue_name, class_name, instance_id, args, miq_callback, msg_data, zone, role, server_guid, msg_timeout, handler_id, handler_type, expires_on, tracking_label, user_id, group_id, tenant_id)
SELECT 1000000000000 + CASE WHEN i <= 16 THEN 611300 + i * 7919 WHEN i <= 22 THEN 741100 + i * 1103 ELSE 784000 + i * 3 END, NULL,
  CASE k WHEN 'o' THEN 20 WHEN 'e' THEN 20 WHEN 'm' THEN 100 + i % 2 * 50 ELSE 100 END,
  CASE cls WHEN 'MiqServer' THEN (ARRAY['ntp_reload', 'set_assigned_roles', 'queue_restart_apache'])[1 + i % 3] WHEN 'MiqSchedule' THEN 'invoke_actions' WHEN 'EmsEvent' THEN 'add' WHEN 'EmsRefresh' THEN 'refresh' WHEN 'MiqProvision' THEN 'execute' ELSE 'perf_capture_realtime' END,
  CASE WHEN running THEN 'dequeue' ELSE 'ready' END, c,
  CASE k WHEN 'r' THEN timestamp '2026-11-24 11:58:51.771203' + (i % 7) * interval '8.118 seconds' ELSE CASE WHEN running THEN timestamp '2026-11-24 11:58:30.118203' + i % 11 * interval '7.771 seconds' ELSE c END END,
  CASE WHEN k = 'r' THEN 2 * (6 + i % 9) WHEN running THEN 1 ELSE 0 END,
  CASE WHEN cls = 'MiqProvision' THEN 'miq_provision_' || 1000000000000 + 410 + i % 5 END,
  CASE k WHEN 's' THEN timestamp '2026-11-24 13:00:00' + (i - 17) * interval '9 hours' WHEN 'r' THEN timestamp '2026-11-24 11:59:51.771203' + (i % 7) * interval '8.118 seconds' END,
  CASE cls WHEN 'MiqServer' THEN 'miq_server' WHEN 'EmsEvent' THEN 'event_handler' WHEN 'EmsRefresh' THEN 'ems_1000000000003' WHEN 'ManageIQ::Providers::Vmware::InfraManager::Vm' THEN 'vmware_ems_metrics_collector' WHEN 'MiqProvision' THEN 'automate' ELSE 'generic' END,
  CASE cls WHEN 'MiqProvision' THEN 'ManageIQ::Providers::Vmware::InfraManager::Provision' ELSE cls END,
  CASE cls WHEN 'MiqServer' THEN 1000000000002 WHEN 'EmsEvent' THEN NULL WHEN 'EmsRefresh' THEN NULL WHEN 'MiqSchedule' THEN NULL ELSE 1000000000400 + i % 73 END,
  CASE cls WHEN 'MiqServer' THEN E'--- []\n' WHEN 'EmsEvent' THEN E'---\n- 1000000000003\n- :event_type: VmPoweredOnEvent\n  :chain_id: ' || 90211 + i || E'\n  :source: VC\n' WHEN 'EmsRefresh' THEN E'---\n- - - ManageIQ::Providers::Vmware::InfraManager::Vm\n    - ' || 1000000000400 + i % 73 || E'\n' WHEN 'MiqSchedule' THEN E'---\n- ' || 1000000000010 + i || E'\n- 2026-11-24 06:00:00.000000000 Z\n' ELSE E'--- []\n' END,
  CASE cls WHEN 'ManageIQ::Providers::Vmware::InfraManager::Vm' THEN E'---\n:class_name: ManageIQ::Providers::Vmware::InfraManager::Vm\n:instance_id: ' || 1000000000400 + i % 73 || E'\n:method_name: :perf_capture_callback\n:args:\n- - ' || 1000000088000 + i || E'\n' WHEN 'MiqSchedule' THEN E'--- {}\n' ELSE E'--- {}\n' END,
  NULL, CASE k WHEN 'o' THEN 'dr-site' ELSE 'default' END,
  CASE cls WHEN 'EmsEvent' THEN 'event' WHEN 'EmsRefresh' THEN 'ems_operations' WHEN 'ManageIQ::Providers::Vmware::InfraManager::Vm' THEN 'ems_metrics_collector' WHEN 'MiqProvision' THEN 'automate' WHEN 'MiqSchedule' THEN 'scheduler' END,
  CASE k WHEN 'o' THEN '8c2d7e40-03b9-4a57-8d21-b54d0c9e7f02' END,
  CASE cls WHEN 'EmsRefresh' THEN 7200 WHEN 'MiqProvision' THEN 3600 ELSE 600 END,
  CASE WHEN running THEN 1000000002210 + i % 8 END, CASE WHEN running THEN 'MiqWorker' END,
  CASE k WHEN 'm' THEN c + interval '4 hours' END,
  CASE WHEN cls = 'MiqProvision' THEN 'r1000000000' || 210 + i % 5 || '_miq_provision' END,
  CASE WHEN cls IN ('MiqProvision', 'MiqSchedule') THEN 1000000000001 END, CASE WHEN cls IN ('MiqProvision', 'MiqSchedule') THEN 1000000000002 END, CASE WHEN cls IN ('MiqProvision', 'MiqSchedule') THEN 1000000000001 END
FROM (
  SELECT i, k, i IN (28, 30, 159) AS running,
    CASE k WHEN 'o' THEN 'MiqServer' WHEN 's' THEN 'MiqSchedule' WHEN 'r' THEN 'MiqProvision' WHEN 'm' THEN 'ManageIQ::Providers::Vmware::InfraManager::Vm' ELSE CASE WHEN i % 4 = 3 THEN 'EmsRefresh' ELSE 'EmsEvent' END END AS cls,
    CASE k WHEN 'o' THEN timestamp '2026-11-03 23:05:11.118203' + (i * i) * interval '1 hour 51 minutes 17.331 seconds' WHEN 's' THEN timestamp '2026-11-24 00:04:02.771208' + (i - 17) * interval '1 hour 3 minutes 8.118 seconds'
      WHEN 'r' THEN timestamp '2026-11-24 11:28:41.118203' + (i - 22) * interval '1 minute 31.771 seconds' WHEN 'm' THEN timestamp '2026-11-24 11:41:20.441208' + (i - 32) * interval '7.771 seconds' ELSE timestamp '2026-11-24 11:57:58.331208' + (i - 158) * interval '6.331 seconds' END AS c
  FROM (SELECT i, CASE WHEN i <= 16 THEN 'o' WHEN i <= 22 THEN 's' WHEN i <= 27 THEN 'r' WHEN i <= 158 THEN 'm' ELSE 'e' END AS k FROM generate_series(1, 177) i) a
) s ORDER BY i;
SELECT setval('miq_queue_id_seq', (SELECT max(id) FROM miq_queue));
