-- What each row of the five tables is worth to whom. Made anew, whole, by
-- every migration that finds it otherwise. A setting that is missing is null,
-- and equals nothing: no rows. The sub-selects are worked out once a statement,
-- and never by the planner, who would trip over a setting that is no id.
--
-- Those of log have few: every append changes one row of it, all policies for
-- reading hold there as well, each up to four times, and to make a sub-select ready
-- costs more than to ask for a setting again for each of the few rows that a
-- statement reads. It is compared as text, which any setting is. What is asked of
-- many users at once stays a sub-select.

alter table tidemark.record enable row level security, force row level security;
alter table tidemark.log    enable row level security, force row level security;
alter table tidemark.line   enable row level security, force row level security;
alter table tidemark.share  enable row level security, force row level security;
alter table tidemark.act    enable row level security, force row level security;

-- Nobody ever leaves the tenant, whatever another policy grants.
create policy tenant on tidemark.record as restrictive using (tenant = (select tidemark.setting_id('tidemark.tenant')));
create policy tenant on tidemark.log    as restrictive using (tenant::text = current_setting('tidemark.tenant', true));
create policy tenant on tidemark.line   as restrictive using (tenant = (select tidemark.setting_id('tidemark.tenant')))
  with check (tenant::text = current_setting('tidemark.tenant', true));
create policy tenant on tidemark.share  as restrictive using (tenant = (select tidemark.setting_id('tidemark.tenant')));
create policy tenant on tidemark.act    as restrictive using (tenant = (select tidemark.setting_id('tidemark.tenant')));

-- What is one's own can be read and written. A row that names a scope needs
-- the share that says so, one that names a session its id and one of its kinds.
-- Of lines, many are read and few are added at a time: what is read is compared with a
-- sub-select, what is added with the setting, as in log.
create policy own on tidemark.line using (owner = (select tidemark.setting_id('tidemark.user')))
  with check (owner::text = current_setting('tidemark.user', true));

create policy own on tidemark.record using (owner = (select tidemark.setting_id('tidemark.user')))
  with check (owner = (select tidemark.setting_id('tidemark.user')) and (scope is null or exists (
    select from tidemark.share s where s.tenant = record.tenant and s.owner = record.owner and s.session = record.session and s.scope = record.scope))
    and (session is null or left(id, 36) = session::text and
      kind in ('session', 'notes', 'past', 'worker', 'checkpoint', 'file', 'name', 'fork', 'cold')));

create policy own on tidemark.log using (owner::text = current_setting('tidemark.user', true))
  with check (owner::text = current_setting('tidemark.user', true) and (scope is null or tidemark.is_shared(tenant, owner, session, scope))
    and (session is null or left(id, 36) = session::text and
      kind in ('session', 'notes', 'past', 'worker', 'checkpoint', 'file', 'name', 'fork', 'cold')));

-- One shares with the tenant, or with a workspace that one is in.
create policy own on tidemark.share using (owner = (select tidemark.setting_id('tidemark.user')))
  with check (owner = (select tidemark.setting_id('tidemark.user')) and scope = any (
    (select tidemark.setting_ids('tidemark.workspaces') || tidemark.setting_id('tidemark.tenant'))::uuid[]));

-- What others shared can be read, and the search index of it, which belongs to
-- the scope itself: as one comparison, because each sub-select costs every
-- statement.
create policy granted on tidemark.record for select using (case when kind in ('index', 'segment', 'unindexed') then owner else scope end = any (
  (select tidemark.setting_ids('tidemark.workspaces') || tidemark.setting_id('tidemark.tenant'))::uuid[]));
create policy granted on tidemark.log for select using ((scope is not null or kind = 'segment')
  and tidemark.is_granted(case kind when 'segment' then owner else scope end));
create policy granted on tidemark.share for select using (scope = any (
  (select tidemark.setting_ids('tidemark.workspaces') || tidemark.setting_id('tidemark.tenant'))::uuid[]));

-- Who keeps the index of a scope is told what changed of a session that is, or
-- was until this commit, shared there, by its owner.
create policy tells on tidemark.record for insert with check (kind = 'unindexed' and session is null and scope is null and exists (
  select from tidemark.share s where s.tenant = record.tenant and s.owner = (select tidemark.setting_id('tidemark.user'))
    and s.scope = record.owner and s.session::text = left(record.id, 36) and s.owner::text = record."group"));

-- What belongs to sessions of the tenant itself can be read by everybody in it.
create policy house on tidemark.record for select using (session is not null and owner = (select tidemark.setting_id('tidemark.tenant')));
create policy house on tidemark.log    for select using (session is not null and owner::text = current_setting('tidemark.tenant', true));

-- Lines have no scope of their own. Those of a log that can be read are read
-- by naming the log, and whose it is, in the transaction. The index of ids finds
-- them, however many logs the owner has: as a plain comparison the owner would
-- invite the planner to walk all of those.
create policy named on tidemark.line for select using (owner = (select tidemark.setting_id('tidemark.of')) and log = any (
  (select array(select l.log from tidemark.log l where l.tenant = (select tidemark.setting_id('tidemark.tenant'))
    and (l.owner = (select tidemark.setting_id('tidemark.of'))) is true and l.log = any ((select tidemark.setting_ids('tidemark.logs'))::uuid[])
    and (l.session is not null or l.kind = 'segment')))::uuid[]));

-- A commit for several users names them. It finds the logs of their sessions that
-- know a lease, goes on with them, and adds lines. No record can be read by it, and
-- no line: whoever names users cannot name logs as well.
create policy grouped on tidemark.log for select using (kind = 'session' and lease is not null
  and owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[]) and coalesce(current_setting('tidemark.of', true), '') = '');
create policy grows on tidemark.log for update using (kind = 'session' and lease is not null
  and owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[]))
  with check (kind = 'session' and lease is not null and owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[])
    and session is not null and left(id, 36) = session::text and (scope is null or tidemark.is_shared(tenant, owner, session, scope)));
create policy grouped on tidemark.share for select using (owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[]));
create policy grows on tidemark.line for insert with check (owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[]));

-- What was done in a tenant is added by everybody who does something in it, and
-- read by the operator alone, whose id follows from the name. There is no
-- policy to change or to delete a row, nor a right.
create policy adds on tidemark.act for insert with check (true);
create policy reads on tidemark.act for select using ((select tidemark.setting_id('tidemark.user')) = 'adb2951e-144f-8ba1-ad96-63fabe743313'::uuid);

-- A log forgets the lease and the record that it was last appended to under when
-- either changes, so that nobody appends under one that is lost.
create or replace trigger look_again after update of tenant, owner, kind, id, version or delete on tidemark.record
  for each row when (old.kind in ('lease', 'session')) execute function tidemark.look_again();
alter table tidemark.record enable trigger look_again;

-- Nobody goes on with a log whose keys are not all here; see the migration. The
-- condition of a trigger is read anew by each statement, so it is short, and so are
-- those below.
create or replace trigger stays_trimmed after update of length on tidemark.log
  for each row when (old.trimmed > 0) execute function tidemark.refuse_trimmed();
alter table tidemark.log enable trigger stays_trimmed;

-- Who owns the tables moves a tenant to another database, and says so in the
-- transaction: otherwise the owner sees what anybody would.
create policy moves on tidemark.record to current_user using ((select current_setting('tidemark.moves', true)) = 'on');
create policy moves on tidemark.log to current_user using ((select current_setting('tidemark.moves', true)) = 'on');
create policy moves on tidemark.line to current_user using ((select current_setting('tidemark.moves', true)) = 'on');
create policy moves on tidemark.share to current_user using ((select current_setting('tidemark.moves', true)) = 'on');
create policy moves on tidemark.act to current_user using ((select current_setting('tidemark.moves', true)) = 'on');

-- Writes are taken where the tenant is at home. Once in a transaction that is looked
-- up; the first of its statements that writes holds the tenant there to the end.
create or replace trigger check_home before insert or update or delete on tidemark.record
  for each statement when (tidemark.is_unchecked()) execute function tidemark.check_home();
alter table tidemark.record enable trigger check_home;
create or replace trigger check_home before insert or update or delete on tidemark.log
  for each statement when (tidemark.is_unchecked()) execute function tidemark.check_home();
alter table tidemark.log enable trigger check_home;
create or replace trigger check_home before insert or update or delete on tidemark.line
  for each statement when (tidemark.is_unchecked()) execute function tidemark.check_home();
alter table tidemark.line enable trigger check_home;
create or replace trigger check_home before insert or update or delete on tidemark.share
  for each statement when (tidemark.is_unchecked()) execute function tidemark.check_home();
alter table tidemark.share enable trigger check_home;
create or replace trigger check_home before insert or update or delete on tidemark.act
  for each statement when (tidemark.is_unchecked()) execute function tidemark.check_home();
alter table tidemark.act enable trigger check_home;
