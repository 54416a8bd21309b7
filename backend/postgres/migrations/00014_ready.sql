-- +goose Up
-- Appends that make less ready. The functions are called as before, nothing is rewritten,
-- and servers of versions 8 to 13 go on. A policy of log changes with it, and the trigger
-- stays_trimmed, which looks at a row when it was changed: for one that comes before, the
-- database locks each row and writes that down, whatever the condition of the trigger says.

-- Whether one of the asker's scopes is meant: for policies. Written out there, each statement
-- that changes a row of log would make it ready four times, also where nothing is shared.
-- +goose StatementBegin
create or replace function tidemark.is_granted(scope uuid) returns boolean
language plpgsql stable cost 1 as $$
begin
  return is_granted.scope::text = any (
    string_to_array(btrim(current_setting('tidemark.workspaces', true), '{}'), ',') || current_setting('tidemark.tenant', true));
end $$;
-- +goose StatementEnd

-- Refuses where the tenant is at another database. Who calls it holds the tenant.
-- +goose StatementBegin
create or replace function tidemark.look_home(tenant uuid) returns void
language plpgsql as $$
declare
  home record;
begin
  select h.state, h.elsewhere into home from tidemark.home h
  where h.tenant in (look_home.tenant, '00000000-0000-0000-0000-000000000000') order by h.tenant desc limit 1;
  if home.state in ('arriving', 'moved') then
    raise exception using errcode = 'TM003', message = 'the tenant is at another database', detail = home.elsewhere;
  end if;
end $$;
-- +goose StatementEnd

-- What an append ends with that found no log to go on with: the batch takes the long way,
-- unless the tenant is at another database.
-- +goose StatementBegin
create or replace function tidemark.otherwise(tenant uuid, why text) returns void
language plpgsql as $$
begin
  perform tidemark.look_home(otherwise.tenant);
  raise exception using errcode = 'TM001', message = why;
end $$;
-- +goose StatementEnd

-- The appends, as in version 13 but for where the tenant is: in most databases no tenant was
-- ever moved, and then the table that says it has no page. Its size is looked at when the
-- tenant is held, and who moves a tenant writes the row before giving that up.
-- +goose StatementBegin
create or replace function tidemark.append_leased(
  tenant uuid, owner uuid,
  need_kinds text[], need_ids text[], need_versions bigint[],
  log_kinds text[], log_ids text[], log_befores bigint[], log_lasts int[], log_ats timestamptz[],
  log_leases bigint[], log_records bigint[], log_checked boolean[],
  line_logs int[], seqs bigint[], kinds text[], keys text[], ats timestamptz[],
  parents bigint[], depths bigint[], nodes bigint[], turns bigint[], chains bytea[],
  batches text[], sums bigint[], bodies bytea[],
  act_nodes text[], act_boots text[], act_ns bigint[], act_ats timestamptz[], act_batches text[], act_sums bigint[], act_bodies bytea[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  ignored text := set_config('tidemark.tenant', append_leased.tenant::text, true);
  stands  bigint;
  last    int := log_lasts[1];
  grown   int := 0;
  begun   boolean;
  logs    uuid[];
begin
  ignored := set_config('tidemark.user', append_leased.owner::text, true) || set_config('lock_timeout', '10s', true);
  if current_setting('plan_cache_mode') <> 'force_generic_plan' or current_setting('synchronous_commit') = 'off' then
    ignored := set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true); -- a connection of a pooler; home may grow
    if current_setting('synchronous_commit') = 'off' then
      ignored := set_config('synchronous_commit', 'on', true);
    end if;
  end if;
  if pg_try_advisory_xact_lock_shared(hashtextextended('tidemark.home ' || append_leased.tenant, 0)) then
    ignored := set_config('tidemark.home', append_leased.tenant::text, true);
  end if;
  if pg_relation_size('tidemark.home') > 0 then
    perform tidemark.look_home(append_leased.tenant);
  end if;

  for i in 1 .. cardinality(need_ids) loop
    select r.version into stands from tidemark.record r
    where r.tenant = append_leased.tenant and r.owner = append_leased.owner and r.kind = need_kinds[i] and r.id = need_ids[i] for no key update;
    if stands is distinct from need_versions[i] then
      raise exception using errcode = 'TM001', message = 'a record does not stand';
    end if;
  end loop;

  if cardinality(log_ids) = 1 then
    update tidemark.log l set length = seqs[last], updated = log_ats[1], parent = parents[last], depth = depths[last],
      nodes = append_leased.nodes[last], turn = turns[last], chain = chains[last],
      lease = coalesce(log_leases[1], l.lease), record = coalesce(log_records[1], l.record),
      moved = date_bin('10 seconds', l.updated, timestamptz '0001-01-01 00:00:00+00') <> date_bin('10 seconds', log_ats[1], timestamptz '0001-01-01 00:00:00+00')
    where l.tenant = append_leased.tenant and l.owner = append_leased.owner and l.kind = log_kinds[1] and l.id = log_ids[1] and l.length = log_befores[1]
      and (log_checked[1] or (log_leases[1] is null or l.lease = log_leases[1]) and (log_records[1] is null or l.record = log_records[1]))
    returning array[l.log], l.moved into logs, begun;
    get diagnostics grown = row_count;
  else
    -- The list is the outer side of the join, so rows are locked in its order. With the
    -- tenant as a constant, or compared plainly, the planner would go through all logs where
    -- there were few at the last ANALYZE: what is compared with an array can be looked up in
    -- the index, and is of no use for joining in any other way.
    with a as materialized (select append_leased.tenant, append_leased.owner, a.* from unnest(log_kinds, log_ids, log_befores, log_lasts, log_ats, log_leases, log_records, log_checked)
        with ordinality a(kind, id, before, last, at, lease, record, checked, n)),
      g as (update tidemark.log l set length = seqs[a.last], updated = a.at, parent = parents[a.last], depth = depths[a.last],
          nodes = append_leased.nodes[a.last], turn = turns[a.last], chain = chains[a.last],
          lease = coalesce(a.lease, l.lease), record = coalesce(a.record, l.record),
          moved = date_bin('10 seconds', l.updated, timestamptz '0001-01-01 00:00:00+00') <> date_bin('10 seconds', a.at, timestamptz '0001-01-01 00:00:00+00')
        from a where l.tenant = any (array[a.tenant]) and l.owner = a.owner and l.kind = a.kind and l.id = a.id and l.length = a.before
          and (a.checked or (a.lease is null or l.lease = a.lease) and (a.record is null or l.record = a.record))
        returning a.n, l.log, l.moved)
    select array_agg(g.log order by g.n), count(*), bool_or(g.moved) into logs, grown, begun from g;
  end if;
  if grown <> cardinality(log_ids) then
    perform tidemark.otherwise(append_leased.tenant, 'a log has another length, or another lease');
  end if;

  insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body)
  select append_leased.tenant, append_leased.owner, logs[u.log], u.seq, u.kind, u.key, u.at, u.parent, u.depth, u.nodes, u.turn, u.chain, u.batch, u.sum, u.body
  from unnest(line_logs, seqs, kinds, keys, ats, parents, depths, append_leased.nodes, turns, chains, batches, sums, bodies)
    u(log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body);

  if cardinality(act_ns) > 0 then
    insert into tidemark.act (tenant, node, boot, n, at, batch, sum, body)
    select append_leased.tenant, u.* from unnest(act_nodes, act_boots, act_ns, act_ats, act_batches, act_sums, act_bodies) u;
  end if;

  -- A record is touched once in ten seconds. Whoever puts the record of a log
  -- takes its log after it, so nobody waits for the record here.
  if begun then
    for i in 1 .. cardinality(log_ids) loop
      perform from tidemark.record r
      where r.tenant = append_leased.tenant and r.owner = append_leased.owner and r.kind = log_kinds[i] and r.id = log_ids[i]
        and r.touched <> date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
      for no key update nowait;
      if found then
        update tidemark.record r set touched = date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
        where r.tenant = append_leased.tenant and r.owner = append_leased.owner and r.kind = log_kinds[i] and r.id = log_ids[i];
      end if;
    end loop;
  end if;
  return true;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function tidemark.append_one(
  tenant uuid, owner uuid, log_kind text, log_id text, log_before bigint, log_at timestamptz, log_lease bigint, log_record bigint,
  seq bigint, kind text, key text, at timestamptz, parent bigint, depth bigint, nodes bigint, turn bigint, chain bytea, batch text, sum bigint, body bytea,
  act_node text, act_boot text, act_n bigint, act_at timestamptz, act_sum bigint, act_body bytea) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  ignored text := set_config('tidemark.tenant', append_one.tenant::text, true);
  grown   uuid;
  begun   boolean;
begin
  ignored := set_config('tidemark.user', append_one.owner::text, true) || set_config('lock_timeout', '10s', true);
  if current_setting('plan_cache_mode') <> 'force_generic_plan' or current_setting('synchronous_commit') = 'off' then
    ignored := set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true); -- a connection of a pooler; home may grow
    if current_setting('synchronous_commit') = 'off' then
      ignored := set_config('synchronous_commit', 'on', true);
    end if;
  end if;
  if pg_try_advisory_xact_lock_shared(hashtextextended('tidemark.home ' || append_one.tenant, 0)) then
    ignored := set_config('tidemark.home', append_one.tenant::text, true);
  end if;
  if pg_relation_size('tidemark.home') > 0 then
    perform tidemark.look_home(append_one.tenant);
  end if;

  update tidemark.log l set length = append_one.seq, updated = log_at, parent = append_one.parent, depth = append_one.depth,
    nodes = append_one.nodes, turn = append_one.turn, chain = append_one.chain,
    moved = date_bin('10 seconds', l.updated, timestamptz '0001-01-01 00:00:00+00') <> date_bin('10 seconds', log_at, timestamptz '0001-01-01 00:00:00+00')
  where l.tenant = append_one.tenant and l.owner = append_one.owner and l.kind = log_kind and l.id = log_id and l.length = log_before
    and (log_lease is null or l.lease = log_lease) and (log_record is null or l.record = log_record)
  returning l.log, l.moved into grown, begun;
  if not found then
    perform tidemark.otherwise(append_one.tenant, 'a log has another length, or another lease');
  end if;

  insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body)
  values (append_one.tenant, append_one.owner, grown, append_one.seq, append_one.kind, append_one.key, append_one.at, append_one.parent, append_one.depth,
    append_one.nodes, append_one.turn, append_one.chain, append_one.batch, append_one.sum, append_one.body);

  if act_n is not null then
    insert into tidemark.act (tenant, node, boot, n, at, batch, sum, body)
    values (append_one.tenant, act_node, act_boot, act_n, act_at, append_one.batch, act_sum, act_body);
  end if;

  if begun then
    perform from tidemark.record r
    where r.tenant = append_one.tenant and r.owner = append_one.owner and r.kind = log_kind and r.id = log_id
      and r.touched <> date_bin('10 seconds', greatest(r.updated, log_at), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
    for no key update nowait;
    if found then
      update tidemark.record r set touched = date_bin('10 seconds', greatest(r.updated, log_at), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
      where r.tenant = append_one.tenant and r.owner = append_one.owner and r.kind = log_kind and r.id = log_id;
    end if;
  end if;
  return true;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function tidemark.append_many(
  tenant uuid,
  log_owners uuid[], log_ids text[], log_befores bigint[], log_lasts int[], log_ats timestamptz[], log_leases bigint[], log_records bigint[],
  line_logs int[], seqs bigint[], kinds text[], keys text[], ats timestamptz[],
  parents bigint[], depths bigint[], nodes bigint[], turns bigint[], chains bytea[],
  batches text[], sums bigint[], bodies bytea[],
  act_nodes text[], act_boots text[], act_ns bigint[], act_ats timestamptz[], act_batches text[], act_sums bigint[], act_bodies bytea[]) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  ignored text := set_config('tidemark.tenant', append_many.tenant::text, true);
  grown   int;
  begun   boolean[];
  logs    uuid[];
begin
  ignored := set_config('tidemark.users', log_owners::text, true) || set_config('lock_timeout', '10s', true);
  if current_setting('plan_cache_mode') <> 'force_generic_plan' or current_setting('synchronous_commit') = 'off' then
    ignored := set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true); -- a connection of a pooler; home may grow
    if current_setting('synchronous_commit') = 'off' then
      ignored := set_config('synchronous_commit', 'on', true);
    end if;
  end if;
  if pg_try_advisory_xact_lock_shared(hashtextextended('tidemark.home ' || append_many.tenant, 0)) then
    ignored := set_config('tidemark.home', append_many.tenant::text, true);
  end if;
  if pg_relation_size('tidemark.home') > 0 then
    perform tidemark.look_home(append_many.tenant);
  end if;

  -- The list is the outer side of the join, as in append_leased.
  with a as materialized (select append_many.tenant, 'session' as kind, a.* from unnest(log_owners, log_ids, log_befores, log_lasts, log_ats, log_leases, log_records)
      with ordinality a(owner, id, before, last, at, lease, record, n)),
    g as (update tidemark.log l set length = seqs[a.last], updated = a.at, parent = parents[a.last], depth = depths[a.last],
        nodes = append_many.nodes[a.last], turn = turns[a.last], chain = chains[a.last],
        moved = date_bin('10 seconds', l.updated, timestamptz '0001-01-01 00:00:00+00') <> date_bin('10 seconds', a.at, timestamptz '0001-01-01 00:00:00+00')
      from a where l.tenant = any (array[a.tenant]) and l.owner = a.owner and l.kind = a.kind and l.id = a.id and l.length = a.before
        and l.lease = a.lease and (a.record is null or l.record = a.record)
      returning a.n, l.log, l.moved)
  select array_agg(g.log order by g.n), array_agg(g.moved order by g.n), count(*) into logs, begun, grown from g;
  if grown <> cardinality(log_ids) then
    perform tidemark.otherwise(append_many.tenant, 'a log has another length, or another lease');
  end if;

  insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body)
  select append_many.tenant, log_owners[u.log], logs[u.log], u.seq, u.kind, u.key, u.at, u.parent, u.depth, u.nodes, u.turn, u.chain, u.batch, u.sum, u.body
  from unnest(line_logs, seqs, kinds, keys, ats, parents, depths, append_many.nodes, turns, chains, batches, sums, bodies)
    u(log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body);

  if cardinality(act_ns) > 0 then
    insert into tidemark.act (tenant, node, boot, n, at, batch, sum, body)
    select append_many.tenant, u.* from unnest(act_nodes, act_boots, act_ns, act_ats, act_batches, act_sums, act_bodies) u;
  end if;

  -- A record is touched once in ten seconds, in the name of its owner. Whoever
  -- puts the record of a log takes its log after it, so nobody waits for the
  -- record here.
  for i in 1 .. cardinality(log_ids) loop
    if begun[i] then
      ignored := set_config('tidemark.user', log_owners[i]::text, true);
      perform from tidemark.record r
      where r.tenant = append_many.tenant and r.owner = log_owners[i] and r.kind = 'session' and r.id = log_ids[i]
        and r.touched <> date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
      for no key update nowait;
      if found then
        update tidemark.record r set touched = date_bin('10 seconds', greatest(r.updated, log_ats[i]), timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'
        where r.tenant = append_many.tenant and r.owner = log_owners[i] and r.kind = 'session' and r.id = log_ids[i];
      end if;
    end if;
  end loop;
  return true;
end $$;
-- +goose StatementEnd
