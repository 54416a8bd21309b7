-- +goose Up
-- What was done, by month: a month is made ahead, and dropped as a whole. Each part has a
-- primary key of its own, so a row is refused whose number is there in the same month.
-- Whatever no month was made for, because a clock is wrong or nobody looked after the
-- months, is kept in act_other.
create table if not exists tidemark.keep (
  what text     collate "C" primary key,
  long interval not null
);

-- +goose StatementBegin
create or replace function tidemark.keep_acts() returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' as $$
declare
  this  timestamp := date_trunc('month', now() at time zone 'UTC');
  month timestamp;
  name  text;
  done  text := '';
  kept  interval;
begin
  -- Servers call it: it takes no argument, how long rows are kept is said by the owner
  -- alone, and no setting of who calls changes how a date is read. One at a time, and
  -- nobody who writes waits for long.
  if not pg_try_advisory_xact_lock(x'746964656d617263'::bigint) then
    return done;
  end if;
  perform set_config('lock_timeout', '2s', true);
  for n in 0 .. 3 loop
    month := this + make_interval(months => n);
    name := 'act_' || to_char(month, 'YYYY_MM');
    continue when to_regclass('tidemark.' || name) is not null;
    begin
      execute format('create table tidemark.%I (like tidemark.act, primary key (tenant, node, boot, n))', name);
      execute format('alter table tidemark.%I enable row level security, force row level security', name);
      execute format('alter table tidemark.act attach partition tidemark.%I for values from (%L) to (%L)', name, month at time zone 'UTC', (month + interval '1 month') at time zone 'UTC');
      insert into tidemark.made (what, how) values ('row security of ' || name, 'enabled and forced') on conflict do nothing;
      done := done || 'made ' || name || '; ';
    exception
      when check_violation or invalid_object_definition then null; -- some rows of it are in act_other, or in what was there before
      when lock_not_available then return done;
    end;
  end loop;

  select k.long into kept from tidemark.keep k where k.what = 'act';
  for name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'tidemark.act'::regclass and substring(pg_get_expr(c.relpartbound, c.oid) from ' TO \(''(.*)''\)$')::timestamptz < now() - kept
    order by 1
  loop
    begin
      execute format('drop table tidemark.%I', name);
      delete from tidemark.made where what = 'row security of ' || name;
      done := done || 'dropped ' || name || '; ';
    exception when lock_not_available then return done;
    end;
  end loop;
  return done;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
do $$
declare
  ending timestamp;
  before text;
  holder record;
begin
  if (select c.relkind from pg_class c where c.oid = 'tidemark.act'::regclass) = 'p' then
    return; -- it is so already
  end if;
  perform set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true);
  lock table tidemark.act;
  alter table tidemark.act no force row level security; -- the policies would hide every row from the owner
  select date_trunc('month', greatest(now(), max(a.at)) at time zone 'UTC') + interval '1 month' into ending from tidemark.act a;
  before := 'act_until_' || to_char(ending, 'YYYY_MM');
  alter table tidemark.act enable row level security, force row level security;
  execute format('alter table tidemark.act rename to %I', before);
  execute format('alter table tidemark.%I rename constraint act_pkey to %I', before, before || '_pkey');
  execute format('create table tidemark.act (like tidemark.%I) partition by range (at)', before);
  create table tidemark.act_other (like tidemark.act, primary key (tenant, node, boot, n));
  -- Servers go on in the moment this is committed: they need their rights, and the policies
  -- that stand.
  for holder in
    execute format('select r.rolname, x.privilege_type from pg_class c, aclexplode(c.relacl) x join pg_roles r on r.oid = x.grantee
      where c.oid = %L::regclass and x.grantee <> c.relowner', 'tidemark.' || before)
  loop
    execute format('grant %s on tidemark.act to %I', holder.privilege_type, holder.rolname);
    execute format('revoke all on tidemark.%I from %I', before, holder.rolname);
  end loop;
  alter table tidemark.act enable row level security, force row level security;
  alter table tidemark.act_other enable row level security, force row level security;
  for holder in
    execute format('select p.policyname, p.permissive, p.cmd, p.roles, p.qual, p.with_check from pg_policies p where p.schemaname = ''tidemark'' and p.tablename = %L', before)
  loop
    execute format('create policy %I on tidemark.act as %s for %s to %s', holder.policyname, holder.permissive, holder.cmd,
        (select string_agg(quote_ident(r), ', ') from unnest(holder.roles) r))
      || coalesce(' using (' || holder.qual || ')', '') || coalesce(' with check (' || holder.with_check || ')', '');
    execute format('drop policy %I on tidemark.%I', holder.policyname, before);
  end loop;
  execute format('alter table tidemark.act attach partition tidemark.%I for values from (minvalue) to (%L)', before, ending at time zone 'UTC');
  alter table tidemark.act attach partition tidemark.act_other default;
end $$;
-- +goose StatementEnd
