-- dialect: postgres
CREATE TABLE act_ge_property (name_ varchar(64) NOT NULL PRIMARY KEY, value_ varchar(300), rev_ integer);
INSERT INTO act_ge_property VALUES ('schema.version', 'fox', 1), ('deployment.lock', '0', 1), ('history.cleanup.job.lock', '0', 1), ('historyLevel', '3', 1);
CREATE TABLE act_re_procdef (
  id_ varchar(64) NOT NULL PRIMARY KEY, rev_ integer, category_ varchar(255), name_ varchar(255), key_ varchar(255) NOT NULL, version_ integer NOT NULL,
  deployment_id_ varchar(64), resource_name_ varchar(4000), suspension_state_ integer, tenant_id_ varchar(64), startable_ boolean NOT NULL DEFAULT true
);
INSERT INTO act_re_procdef VALUES ('claim:3:4f1a', 1, 'http://bpmn.io/schema/bpmn', 'Claim', 'claim', 3, 'd1', 'claim.bpmn', 1, NULL, true), ('dunning:1:7c2b', 1, 'http://bpmn.io/schema/bpmn', 'Dunning', 'dunning', 1, 'd1', 'dunning.bpmn', 1, NULL, true);
CREATE TABLE act_ru_jobdef (
  id_ varchar(64) NOT NULL PRIMARY KEY, rev_ integer, proc_def_id_ varchar(64), proc_def_key_ varchar(255), act_id_ varchar(255), job_type_ varchar(255) NOT NULL,
  job_configuration_ varchar(255), suspension_state_ integer, job_priority_ bigint, tenant_id_ varchar(64), deployment_id_ varchar(64)
);
INSERT INTO act_ru_jobdef VALUES ('jd-1', 1, 'claim:3:4f1a', 'claim', 'Task_notify', 'async-continuation', 'async-before', 1, NULL, NULL, 'd1'), ('jd-2', 1, 'dunning:1:7c2b', 'dunning', 'Event_wait', 'timer-intermediate-transition', 'DURATION: P14D', 1, NULL, NULL, 'd1');
CREATE TABLE act_ge_bytearray (id_ varchar(64) NOT NULL PRIMARY KEY, rev_ integer, name_ varchar(255), deployment_id_ varchar(64), bytes_ bytea, generated_ boolean, tenant_id_ varchar(64), type_ integer, create_time_ timestamp, root_proc_inst_id_ varchar(64), removal_time_ timestamp);

CREATE TABLE act_ru_job (
  id_ varchar(64) NOT NULL PRIMARY KEY,
  rev_ integer,
  type_ varchar(255) NOT NULL,
  lock_exp_time_ timestamp without time zone,
  lock_owner_ varchar(255),
  exclusive_ boolean,
  execution_id_ varchar(64),
  root_proc_inst_id_ varchar(64),
  process_instance_id_ varchar(64),
  process_def_id_ varchar(64),
  process_def_key_ varchar(255),
  retries_ integer,
  exception_stack_id_ varchar(64),
  exception_msg_ varchar(4000),
  failed_act_id_ varchar(255),
  duedate_ timestamp without time zone,
  repeat_ varchar(255),
  repeat_offset_ bigint DEFAULT 0,
  handler_type_ varchar(255),
  handler_cfg_ varchar(4000),
  deployment_id_ varchar(64),
  suspension_state_ integer NOT NULL DEFAULT 1,
  job_def_id_ varchar(64),
  priority_ bigint NOT NULL DEFAULT 0,
  sequence_counter_ bigint,
  tenant_id_ varchar(64),
  create_time_ timestamp without time zone,
  last_failure_log_id_ varchar(64),
  batch_id_ varchar(64)
);
CREATE INDEX act_idx_job_execution_id ON act_ru_job (execution_id_);
CREATE INDEX act_idx_job_handler ON act_ru_job (handler_type_, handler_cfg_);
CREATE INDEX act_idx_job_procinst ON act_ru_job (process_instance_id_);
CREATE INDEX act_idx_job_exception ON act_ru_job (exception_stack_id_);
CREATE INDEX act_idx_job_job_def_id ON act_ru_job (job_def_id_);

INSERT INTO act_ru_job (id_, rev_, type_, lock_exp_time_, lock_owner_, exclusive_, execution_id_, root_proc_inst_id_, process_instance_id_, process_def_id_, process_def_key_, retries_, exception_stack_id_, exception_msg_, failed_act_id_, duedate_, repeat_, repeat_offset_, handler_type_, handler_cfg_, deployment_id_, suspension_state_, job_def_id_, priority_, sequence_counter_, tenant_id_, create_time_, last_failure_log_id_, batch_id_)
SELECT md5('job' || i)::uuid::text,
  CASE k WHEN 'dead' THEN 7 WHEN 'retry' THEN 3 + 2 * (i % 2) WHEN 'run' THEN 2 ELSE 1 END,
  CASE WHEN t THEN 'timer' ELSE 'message' END,
  CASE k WHEN 'run' THEN timestamp '2026-11-24 12:04:41.2' END,
  CASE k WHEN 'run' THEN md5('node1')::uuid::text END,
  true,
  md5('ex' || i)::uuid::text, md5('pi' || i)::uuid::text, md5('pi' || i)::uuid::text,
  CASE WHEN t THEN 'dunning:1:7c2b' ELSE 'claim:3:4f1a' END, CASE WHEN t THEN 'dunning' ELSE 'claim' END,
  CASE k WHEN 'dead' THEN 0 WHEN 'retry' THEN 1 + i % 2 ELSE 3 END,
  CASE WHEN k IN ('dead', 'retry') THEN md5('st' || i)::uuid::text END,
  CASE WHEN k IN ('dead', 'retry') THEN CASE i % 3 WHEN 0 THEN 'I/O error on POST request for "http://mail/api": Connection refused' WHEN 1 THEN 'Unknown property used in expression: ${claim.owner}' ELSE 'could not execute statement; deadlock detected' END END,
  CASE WHEN k IN ('dead', 'retry') THEN CASE WHEN t THEN 'Event_wait' ELSE 'Task_notify' END END,
  CASE WHEN k = 'retry' THEN timestamp '2026-11-24 11:57:30' + (i % 5) * interval '90 seconds' WHEN t THEN c + interval '14 days' END,
  CASE WHEN i % 40 = 0 THEN 'R/P1D' END, 0,
  CASE WHEN t THEN 'timer-intermediate-transition' ELSE 'async-continuation' END,
  CASE WHEN t THEN 'Event_wait' ELSE 'transition-create-scope' END,
  'd1', CASE WHEN i IN (52, 53) THEN 2 ELSE 1 END, CASE WHEN t THEN 'jd-2' ELSE 'jd-1' END,
  CASE WHEN i % 12 = 0 THEN 50 ELSE 0 END, 1, NULL, c,
  CASE WHEN k IN ('dead', 'retry') THEN md5('log' || i)::uuid::text END, NULL
FROM (
  SELECT i, i % 3 = 0 OR i BETWEEN 13 AND 62 AS t,
    CASE WHEN i <= 12 THEN timestamp '2026-10-01 09:21:33.104' + i * interval '2 days 5 hours' WHEN i <= 62 THEN timestamp '2026-11-10 13:00:02.377' + (i - 12) * interval '6 hours 35 minutes' ELSE timestamp '2026-11-24 11:44:09.688' + (i - 62) * interval '26 seconds' END AS c,
    CASE WHEN i <= 12 THEN 'dead' WHEN i <= 62 THEN 'later' WHEN i <= 69 THEN 'retry' WHEN i <= 72 THEN 'run' ELSE 'new' END AS k
  FROM generate_series(1, 94) i
) s ORDER BY i;
INSERT INTO act_ge_bytearray (id_, rev_, name_, bytes_, type_, create_time_)
SELECT exception_stack_id_, 1, 'job.exceptionByteArray', convert_to('org.camunda.bpm.engine.ProcessEngineException: ' || exception_msg_, 'UTF8'), 3, create_time_ FROM act_ru_job WHERE exception_stack_id_ IS NOT NULL ORDER BY create_time_;
