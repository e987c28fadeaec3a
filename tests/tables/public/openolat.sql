-- dialect: postgres
create table o_bs_identity (
   id int8 not null,
   version int4 not null,
   creationdate timestamp,
   lastlogin timestamp,
   name varchar(128) not null unique,
   status integer,
   primary key (id)
);
insert into o_bs_identity select 98304 + g, 3, timestamp '2026-02-01 08:00:00' + g * interval '3 days', timestamp '2026-11-24 07:00:00' + g * interval '11 minutes', 'lecturer' || g, 2 from generate_series(1, 9) g;

create table o_ex_task (
   id int8 not null,
   creationdate timestamp not null,
   lastmodified timestamp not null,
   e_name varchar(255) not null,
   e_status varchar(16) not null,
   e_ressubpath varchar(2048),
   e_executor_node varchar(16),
   e_executor_boot_id varchar(64),
   e_task text not null,
   e_scheduled timestamp,
   e_status_before_edit varchar(16),
   e_progress decimal,
   e_checkpoint varchar(255),
   fk_resource_id int8,
   fk_identity_id int8,
   primary key (id)
);
create table o_ex_task_modifier (
   id int8 not null,
   creationdate timestamp not null,
   fk_task_id int8 not null,
   fk_identity_id int8 not null,
   primary key (id)
);
alter table o_ex_task add constraint idx_ex_task_ident_id foreign key (fk_identity_id) references o_bs_identity (id);
create index idx_ex_task_ident_idx on o_ex_task (fk_identity_id);
create index idx_ex_task_rsrc_idx on o_ex_task (fk_resource_id);
alter table o_ex_task_modifier add constraint idx_ex_task_mod_task_id foreign key (fk_task_id) references o_ex_task (id);
create index idx_ex_task_mod_task_idx on o_ex_task_modifier (fk_task_id);

-- kinds: v transcoding of a video, b bulk assessment (may be scheduled), e export of results, d deletion of user data, u export of user data
insert into o_ex_task (id, creationdate, lastmodified, e_name, e_status, e_ressubpath, e_executor_node, e_executor_boot_id, e_task, e_scheduled, e_status_before_edit, e_progress, e_checkpoint, fk_resource_id, fk_identity_id)
select id, c,
  case when kind = 'b' and i % 6 = 4 then c + interval '3 hours 13 minutes 4.207 seconds' when st = 'inWork' and kind = 'e' then timestamp '2026-11-24 11:59:51.027' when st in ('failed', 'cancelled') and kind = 'e' then c + interval '41.204 seconds' else c end,
  overlay(overlay(md5('task' || i) placing '4' from 13) placing '9' from 17)::uuid::text, st,
  case when kind in ('b', 'e') then (104200000000000 + i * 7919331)::text end,
  case when st in ('failed', 'inWork', 'cancelled') then '1' end,
  case when st in ('failed', 'inWork', 'cancelled') then overlay(overlay(md5('boot' || case when st = 'inWork' then 99 else i / 24 end) placing '4' from 13) placing 'b' from 17)::uuid::text end,
  case kind when 'v' then '<org.olat.modules.video.manager.VideoTranscodingTask><videoResource class="org.olat.resource.OLATResourceImpl"><key>' || 1179648 + i * 3 || '</key></videoResource></org.olat.modules.video.manager.VideoTranscodingTask>'
    when 'b' then '<org.olat.course.assessment.bulk.BulkAssessmentTask><courseRes class="org.olat.core.util.resource.OLATResourceableJustBeforeDeletedEvent"/><coachedIdentity>' || 98304 + 1 + i % 9 || '</coachedIdentity></org.olat.course.assessment.bulk.BulkAssessmentTask>'
    when 'e' then '<org.olat.course.archiver.ArchiveTask><title>Results ' || i || '</title><locale>de</locale></org.olat.course.archiver.ArchiveTask>'
    when 'd' then '<org.olat.user.DeleteUserDataTask><identityKey>' || 131072 + i * 5 || '</identityKey></org.olat.user.DeleteUserDataTask>'
    else '<org.olat.user.UserDataExportTask><exportKey>' || 4000 + i || '</exportKey></org.olat.user.UserDataExportTask>' end,
  case when sched is not null then sched end,
  case when st = 'edition' then 'newTask' end,
  case when kind = 'e' and st <> 'newTask' then case st when 'inWork' then 0.42 else 0.1 + (i % 8) * 0.1 end end,
  case when kind = 'e' and st <> 'newTask' then 'users-' || i % 40 end,
  case when kind in ('v', 'b', 'e') then 1179648 + i * 3 end,
  case when kind in ('b', 'e') then 98304 + 1 + i % 9 end
from (
  select i, c, kind, 32768 * (40 + i / 24 * 3) + i * 37 as id,
    case when i <= 84 then case when i in (19, 46, 80) then 'cancelled' else 'failed' end
      when i in (85, 86, 87, 88, 89, 90, 91, 92, 93, 94) then case when i = 91 then 'edition' else 'newTask' end
      when i in (96, 97) then 'inWork' when i = 95 then 'failed' else 'newTask' end as st,
    case when i between 85 and 94 then timestamp '2026-11-24 22:00:00' + (i - 85) * interval '1 day' when kind = 'b' and i <= 84 and i % 2 = 0 then date_trunc('hour', c) + interval '18 hours' end as sched
  from (select i,
      case when i <= 84 then timestamp '2026-03-02 09:14:20.118' + i * interval '3 days 1 hour 7 minutes' + (i * i % 97) * interval '401.133 seconds'
        when i <= 94 then timestamp '2026-11-18 13:20:11.402' + (i - 84) * interval '11 hours 21 minutes 3.017 seconds'
        when i = 95 then timestamp '2026-11-24 08:02:41.733'
        else timestamp '2026-11-24 11:52:07.204' + (i - 95) * interval '17.331 seconds' end as c,
      case when i between 85 and 94 then 'b' when i = 96 then 'e' when i > 96 then (array['v', 'v', 'v', 'e', 'd'])[1 + i % 5] else (array['v', 'e', 'b', 'v', 'd', 'b', 'u'])[1 + i % 7] end as kind
    from generate_series(1, 120) i) a
) s order by i;
insert into o_ex_task_modifier select id + 11, lastmodified, id, 98304 + 2 from o_ex_task where lastmodified > creationdate + interval '3 hours';
