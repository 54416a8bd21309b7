-- +goose NO TRANSACTION
-- +goose Up
-- Each statement works while servers of the version before read and write, and can be
-- run again.

-- The older lines of a quiet log may be elsewhere: its record of kind cold, which
-- belongs to the same owner and is shared as the session is, says where.
alter table tidemark.log add column if not exists trimmed bigint not null default 0; -- lines up to this one are not in table line

-- What the trigger stays_trimmed does, which is made with the policies: lines that are
-- elsewhere may have keys that an append must not repeat. So nobody goes on with such a
-- log, by whatever statement and from whatever version of the program, before enough
-- of them are back.
-- +goose StatementBegin
create or replace function tidemark.refuse_trimmed() returns trigger
language plpgsql as $$
begin
  raise exception using errcode = 'TM002', message = 'lines of this log are at a cold place, and have to be brought back first';
end $$;
-- +goose StatementEnd
