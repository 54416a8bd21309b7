-- +goose Up
-- Which tenants this database serves (ADR 0037). A tenant without a row is as the
-- row of the all-zero id says, and is here if there is none either. The owner alone
-- writes it. Nothing is rewritten, and servers of the version before go on.
create table if not exists tidemark.home (
  tenant    uuid        primary key,
  state     text        collate "C" not null check (state in ('here', 'leaving', 'arriving', 'moved')),
  elsewhere text        collate "C" not null, -- leaving, moved: to which database; arriving: from which
  since     timestamptz not null default clock_timestamp()
);

-- What the trigger check_home does, which is made with the policies: it has each
-- transaction that writes hold the tenant where it is, and refuses where it is not.
-- The lock is tried and not waited for, so that nobody keeps a connection while a
-- tenant is switched. The state is read after it: whoever has the lock alone changes
-- the state before giving it back. Who owns the tables moves tenants.
-- +goose StatementBegin
create or replace function tidemark.check_home() returns trigger
language plpgsql as $$
declare
  asked   uuid := tidemark.setting_id('tidemark.tenant');
  home    record;
  ignored text;
begin
  if not pg_try_advisory_xact_lock_shared(hashtextextended('tidemark.home ' || asked, 0)) then
    raise exception using errcode = 'TM004', message = 'the tenant is being switched to another database';
  end if;
  select h.state, h.elsewhere into home from tidemark.home h
  where h.tenant in (asked, '00000000-0000-0000-0000-000000000000') order by h.tenant desc limit 1;
  if home.state in ('arriving', 'moved') then
    if not pg_has_role((select c.relowner from pg_class c where c.oid = tg_relid), 'usage') then
      raise exception using errcode = 'TM003', message = 'the tenant is at another database', detail = home.elsewhere;
    end if;
  end if;
  ignored := set_config('tidemark.home', asked::text, true);
  return null;
end $$;
-- +goose StatementEnd
