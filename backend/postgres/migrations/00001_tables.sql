-- +goose Up
-- Everything is keyed by the tenant first and the owner second, so that no
-- unique key tells one owner what another one has. Names compare byte by byte.

-- +goose StatementBegin
create function tidemark.setting_id(name text) returns uuid
language sql stable parallel safe
return nullif(current_setting(name, true), '')::uuid;
-- +goose StatementEnd

-- +goose StatementBegin
create function tidemark.setting_ids(name text) returns uuid[]
language sql stable parallel safe
return coalesce(nullif(current_setting(name, true), '')::uuid[], '{}');
-- +goose StatementEnd

create table tidemark.record (
  tenant  uuid        not null,
  owner   uuid        not null,
  kind    text        collate "C" not null,
  id      text        collate "C" not null,
  session uuid,                    -- the session that it belongs to, if it does
  scope   uuid,                    -- who else may read it: a workspace, the tenant, or nobody
  version bigint      not null,
  "group" text        collate "C" not null,
  state   text        collate "C" not null,
  due     timestamptz,             -- null: never
  updated timestamptz not null,    -- the time of the batch that put it
  touched timestamptz not null,    -- the end of the ten seconds in which the record or its log last changed
  batch   text        collate "C" not null,
  sum     bigint      not null,    -- CRC-32C over kind, id and body
  body    bytea       not null,
  primary key (tenant, owner, kind, id),
  constraint record_session check (session is null or left(id, 36) = session::text and
    kind in ('session', 'notes', 'past', 'worker', 'checkpoint', 'file', 'name', 'fork')),
  constraint record_scope check (scope is null or session is not null)
) with (fillfactor = 80);

create index record_touched on tidemark.record (tenant, owner, kind, touched desc, id);
create index record_state   on tidemark.record (tenant, owner, kind, state, touched desc, id) where state <> '';
create index record_group   on tidemark.record (tenant, owner, kind, "group", touched desc, id) where "group" <> '';
create index record_due     on tidemark.record (tenant, owner, kind, due, id) where due is not null;
create index record_shared  on tidemark.record (tenant, scope, kind, touched desc, id) where scope is not null;

create table tidemark.log (
  tenant  uuid        not null,
  owner   uuid        not null,
  kind    text        collate "C" not null,
  id      text        collate "C" not null,
  log     uuid        not null,    -- names the log in line and word; made anew with the log
  session uuid,
  scope   uuid,
  length  bigint      not null,    -- the seq of the newest line
  updated timestamptz not null,    -- the time of the batch that wrote that line
  parent  bigint      not null,    -- place and chain of that line
  depth   bigint      not null,
  nodes   bigint      not null,
  turn    bigint      not null,
  chain   bytea,
  indexed bigint      not null default 0,    -- lines from the first on that are in the index, or have no words
  behind  boolean     not null default true, -- there are more lines than that
  primary key (tenant, owner, kind, id),
  unique (tenant, log, owner), -- the owner last, so that no planner takes this index for the primary key
  constraint log_session check (session is null or left(id, 36) = session::text and
    kind in ('session', 'notes', 'past', 'worker', 'checkpoint', 'file', 'name', 'fork')),
  constraint log_scope check (scope is null or session is not null)
) with (fillfactor = 70);

create index log_behind on tidemark.log (tenant, owner, kind, id) where behind;

-- +goose StatementBegin
do $$
declare
  parts int := coalesce(nullif(current_setting('tidemark.partitions', true), ''), '0')::int;
begin
  execute 'create table tidemark.line (
    tenant  uuid        not null,
    owner   uuid        not null,
    log     uuid        not null,
    seq     bigint      not null,
    kind    text        collate "C" not null,
    key     text        collate "C",
    at      timestamptz not null,
    parent  bigint      not null,
    depth   bigint      not null,
    nodes   bigint      not null,
    turn    bigint      not null,
    chain   bytea,
    batch   text        collate "C" not null,
    sum     bigint      not null,
    body    bytea       not null,
    primary key (tenant, owner, log, seq)
  )' || case when parts > 0 then ' partition by hash (tenant, log)' else '' end;
  for i in 0 .. parts - 1 loop
    execute format('create table tidemark.line_%s partition of tidemark.line for values with (modulus %s, remainder %s)', i, parts, i);
    execute format('alter table tidemark.line_%s enable row level security, force row level security', i);
  end loop;
end $$;
-- +goose StatementEnd

create unique index line_key on tidemark.line (tenant, owner, log, key) where key is not null;

create table tidemark.word (
  tenant uuid        not null,
  owner  uuid        not null,
  log    uuid        not null,
  seq    bigint      not null,
  scope  uuid,
  word   bytea       not null,
  at     timestamptz not null
);

create index word_own    on tidemark.word (tenant, owner, word, at desc, log, seq);
create index word_shared on tidemark.word (tenant, scope, word, at desc, owner, log, seq) where scope is not null;
create index word_log    on tidemark.word (tenant, owner, log);

-- One row a session that others may read.
create table tidemark.share (
  tenant  uuid        not null,
  owner   uuid        not null,
  session uuid        not null,
  scope   uuid        not null, -- a workspace, or the tenant
  since   timestamptz not null default clock_timestamp(),
  primary key (tenant, owner, session)
);

create index share_session on tidemark.share (tenant, session);

-- What the migration made, so that a server can tell that it still stands.
create table tidemark.made (
  what text collate "C" primary key,
  how  text not null
);
