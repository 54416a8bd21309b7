-- +goose Up
-- Who did what: a row a change, added by the transaction of the change itself.
-- A boot is a run of commits of one start of a server, each made after the one
-- before it was settled, so n has no gap in it. Nobody updates a row that others
-- do, and no server may change or delete one.
create table tidemark.act (
  tenant uuid        not null,
  node   text        collate "C" not null,
  boot   text        collate "C" not null,
  n      bigint      not null,
  at     timestamptz not null,
  batch  text        collate "C" not null, -- of the change
  sum    bigint      not null,
  body   bytea       not null,
  primary key (tenant, node, boot, n)
);

-- The common commit as before, with what is written down beside it.
drop function tidemark.append(uuid, uuid, text[], text[], bigint[], text[], text[], int[], timestamptz[], int[], bigint[], text[], text[], timestamptz[],
  bigint[], bigint[], bigint[], bigint[], bytea[], text[], bigint[], bytea[]);

-- +goose StatementBegin
create function tidemark.append(
  tenant uuid, owner uuid,
  need_kinds text[], need_ids text[], need_versions bigint[],
  log_kinds text[], log_ids text[], log_lasts int[], log_ats timestamptz[],
  line_logs int[], seqs bigint[], kinds text[], keys text[], ats timestamptz[],
  parents bigint[], depths bigint[], nodes bigint[], turns bigint[], chains bytea[],
  batches text[], sums bigint[], bodies bytea[],
  act_nodes text[], act_boots text[], act_ns bigint[], act_ats timestamptz[], act_batches text[], act_sums bigint[], act_bodies bytea[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  ignored text := set_config('tidemark.tenant', append.tenant::text, true);
  stands  bigint;
  first   int := 1;
  last    int;
  grown   uuid;
  logs    uuid[];
begin
  ignored := set_config('tidemark.user', append.owner::text, true);
  ignored := set_config('lock_timeout', '10s', true);
  ignored := set_config('plan_cache_mode', 'force_generic_plan', true);
  if current_setting('synchronous_commit') = 'off' then
    ignored := set_config('synchronous_commit', 'on', true);
  end if;

  for i in 1 .. cardinality(need_ids) loop
    select r.version into stands from tidemark.record r
    where r.tenant = append.tenant and r.owner = append.owner and r.kind = need_kinds[i] and r.id = need_ids[i] for no key update;
    if stands is distinct from need_versions[i] then
      raise exception using errcode = 'TM001', message = 'a record does not stand';
    end if;
  end loop;

  for i in 1 .. cardinality(log_ids) loop
    last := log_lasts[i];
    update tidemark.log l set length = seqs[last], updated = log_ats[i], parent = parents[last], depth = depths[last],
      nodes = append.nodes[last], turn = turns[last], chain = chains[last], behind = true
    where l.tenant = append.tenant and l.owner = append.owner and l.kind = log_kinds[i] and l.id = log_ids[i] and l.length = seqs[first] - 1
    returning l.log into grown;
    if not found then
      raise exception using errcode = 'TM001', message = 'a log has another length';
    end if;
    logs[i] := grown;
    first := last + 1;
  end loop;

  insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body)
  select append.tenant, append.owner, logs[line_logs[i]], seqs[i], kinds[i], keys[i], ats[i],
    parents[i], depths[i], append.nodes[i], turns[i], chains[i], batches[i], sums[i], bodies[i] from generate_series(1, last) i;

  if cardinality(act_ns) > 0 then
    insert into tidemark.act (tenant, node, boot, n, at, batch, sum, body)
    select append.tenant, act_nodes[i], act_boots[i], act_ns[i], act_ats[i], act_batches[i], act_sums[i], act_bodies[i]
    from generate_series(1, cardinality(act_ns)) i;
  end if;

  -- Whoever puts the record of a log takes its log after it, so nobody waits
  -- for the record here.
  for i in 1 .. cardinality(log_ids) loop
    perform from tidemark.record r
    where r.tenant = append.tenant and r.owner = append.owner and r.kind = log_kinds[i] and r.id = log_ids[i]
      and r.touched <> date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
    for no key update nowait;
    if found then
      update tidemark.record r set touched = date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
      where r.tenant = append.tenant and r.owner = append.owner and r.kind = log_kinds[i] and r.id = log_ids[i];
    end if;
  end loop;
  return true;
end $$;
-- +goose StatementEnd
