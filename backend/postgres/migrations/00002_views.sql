-- +goose Up
-- For people who ask with SQL. The views see what the asker may see. A body
-- that is sealed, damaged or no JSON is a null and not an error.

-- +goose StatementBegin
create function tidemark.object(body bytea) returns json
language plpgsql immutable parallel safe as $$
begin
  if length(body) = 0 or get_byte(body, 0) <> 123 then
    return null;
  end if;
  return convert_from(body, 'UTF8')::json;
exception when data_exception or character_not_in_repertoire or untranslatable_character then
  return null;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
create function tidemark.said(body json) returns text
language plpgsql immutable parallel safe as $$
begin
  if body is null then
    return null;
  elsif json_typeof(body -> 'blocks') is distinct from 'array' then
    return '';
  end if;
  return coalesce((select string_agg(b.block ->> 'text', E'\n' order by b.n)
    from json_array_elements(body -> 'blocks') with ordinality b(block, n)
    where json_typeof(b.block) = 'object' and b.block ->> 'type' = 'text'), '');
exception when data_exception or untranslatable_character then
  return null;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
create function tidemark.created(body json) returns timestamptz
language plpgsql stable parallel safe as $$
begin
  return (body ->> 'created_at')::timestamptz;
exception when data_exception or untranslatable_character then
  return null;
end $$;
-- +goose StatementEnd

create view tidemark.sessions with (security_invoker = true) as
select r.id,
       coalesce(tidemark.created(b.body), (select n.at from tidemark.line n
         where n.tenant = l.tenant and n.owner = l.owner and n.log = l.log and n.seq = 1), r.updated) as created_at,
       greatest(r.updated, l.updated) as updated_at,
       case when e.state = 'held' then tidemark.object(e.body) #>> '{holder,pid}' end as locked_by,
       b.body as metadata,
       r.owner
from tidemark.record r
cross join lateral (select tidemark.object(r.body) as body) b
left join tidemark.log l on l.tenant = r.tenant and l.owner = r.owner and l.kind = 'session' and l.id = r.id
left join tidemark.record e on e.tenant = r.tenant and e.owner = r.owner and e.kind = 'lease' and e.id = r.id
where r.kind = 'session' and r.state <> 'trash';

create view tidemark.messages with (security_invoker = true) as
select n.seq as id,
       l.id as session_id,
       case n.kind when 'tool' then 'tool_results' else n.kind end as role,
       case n.kind when 'user' then tidemark.said(b.body) else c.blocks end as content,
       n.at as created_at,
       n.owner
from tidemark.log l
join tidemark.line n on n.tenant = l.tenant and n.owner = l.owner and n.log = l.log
left join tidemark.record r on r.tenant = l.tenant and r.owner = l.owner and r.kind = 'session' and r.id = l.id
cross join lateral (select tidemark.object(n.body) as body) b
cross join lateral (select case when b.body is not null then coalesce((b.body -> 'blocks')::text, '[]') end as blocks) c
where l.kind = 'session' and n.kind in ('user', 'assistant', 'tool') and coalesce(r.state, '') <> 'trash';

create view tidemark.jobs with (security_invoker = true) as
select r.id,
       r."group" as agent,
       r.state as status,
       coalesce(tidemark.created(b.body), (select n.at from tidemark.line n
         where n.tenant = l.tenant and n.owner = l.owner and n.log = l.log and n.seq = 1), r.updated) as created_at,
       greatest(r.updated, l.updated) as updated_at,
       b.body as metadata,
       r.owner
from tidemark.record r
cross join lateral (select tidemark.object(r.body) as body) b
left join tidemark.log l on l.tenant = r.tenant and l.owner = r.owner and l.kind = 'job' and l.id = r.id
where r.kind = 'job';
