-- +goose NO TRANSACTION
-- +goose Up
-- Which index a statement takes must not depend on how many rows the others
-- have. By the statistics of many small tenants one tenant has one row, and then
-- every index that begins with the tenant looks as good as the primary key.
--
-- Each statement works while others read and write, and can be run again: a
-- migration that was killed goes on where it was.

-- The planner takes every owner for a large one: no more distinct values than
-- one, so that a condition on it finds as many rows as the largest has.
-- +goose StatementBegin
do $$
declare
  r record;
begin
  for r in select c.oid::regclass as name, a.attname as field from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'tidemark'::regnamespace and c.relkind in ('r', 'p') and a.attname in ('tenant', 'owner', 'log', 'scope')
      and (c.relname in ('record', 'log', 'word', 'share') or c.relname ~ '^line(_[0-9]+)?$')
  loop
    if not (r.name = 'tidemark.log'::regclass and r.field = 'log') then
      execute format('alter table %s alter column %I set (n_distinct = 1, n_distinct_inherited = 1)', r.name, r.field);
    end if;
  end loop;
end $$;
-- +goose StatementEnd

-- A log is found by its name, or by its id; no index on both begins alike.
drop index concurrently if exists tidemark.log_id;
create unique index concurrently log_id on tidemark.log (log, tenant, owner);
alter table tidemark.log drop constraint if exists log_tenant_log_owner_key;

-- The condition, which holds for all rows, keeps the index for the statements
-- that name it: those that list the newest.
drop index concurrently if exists tidemark.record_newest;
create index concurrently record_newest on tidemark.record (tenant, owner, kind, touched desc, id) where touched > '-infinity';
drop index concurrently if exists tidemark.record_touched;

analyze tidemark.record, tidemark.log, tidemark.line, tidemark.word, tidemark.share;
