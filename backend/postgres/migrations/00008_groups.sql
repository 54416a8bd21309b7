-- +goose Up
-- Lines of several users of one tenant in one commit. Each goes on with the log
-- of a session that knows its lease at the version given; what has to be looked
-- up first is not for a group. The transaction names its users, and the policies
-- "grouped" let it add lines for them, and find their logs by name: nothing that
-- somebody said can be read by it.
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
  ignored := set_config('tidemark.users', log_owners::text, true);
  ignored := set_config('lock_timeout', '10s', true);
  ignored := set_config('plan_cache_mode', 'force_generic_plan', true);
  if current_setting('synchronous_commit') = 'off' then
    ignored := set_config('synchronous_commit', 'on', true);
  end if;

  -- The list is the outer side of the join, so rows are locked in its order. Tenant and
  -- kind are parts of it: as constants they would promise so few rows, where nothing was
  -- analyzed yet, that the planner goes through all logs of the tenant.
  with a as materialized (select append_many.tenant, 'session' as kind, a.* from unnest(log_owners, log_ids, log_befores, log_lasts, log_ats, log_leases, log_records)
      with ordinality a(owner, id, before, last, at, lease, record, n)),
    g as (update tidemark.log l set length = seqs[a.last], updated = a.at, parent = parents[a.last], depth = depths[a.last],
        nodes = append_many.nodes[a.last], turn = turns[a.last], chain = chains[a.last],
        moved = date_bin('10 seconds', l.updated, timestamptz '0001-01-01 00:00:00+00') <> date_bin('10 seconds', a.at, timestamptz '0001-01-01 00:00:00+00')
      from a where l.tenant = a.tenant and l.owner = a.owner and l.kind = a.kind and l.id = a.id and l.length = a.before
        and l.lease = a.lease and (a.record is null or l.record = a.record)
      returning a.n, l.log, l.moved)
  select array_agg(g.log order by g.n), array_agg(g.moved order by g.n), count(*) into logs, begun, grown from g;
  if grown <> cardinality(log_ids) then
    raise exception using errcode = 'TM001', message = 'a log has another length, or another lease';
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
