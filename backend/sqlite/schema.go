package sqlite

import (
	_ "embed"
	"fmt"
	"strings"
)

// applicationID marks a database as ours: "tide" in ASCII. It is written when
// the store is made and never changes.
const applicationID = 0x74696465

//go:embed schema.sql
var tables string // versions 1 and 3

//go:embed schema2.sql
var schema2 string // what version 2 had beside them

//go:embed schema3.sql
var schema3 string

// seqBits is how many bits of a line's id are its seq; the rest is the number of
// its log. One integer key keeps the lines of a log together and needs no second
// index.
const seqBits = 32

// The most lines that a log, and logs that a store, can hold.
const (
	maxSeq    = 1<<seqBits - 1
	maxNumber = 1<<31 - 1
)

// views are for people who query with SQL. They use nothing that an sqlite3
// shell of 2020 lacks. JSON functions see only bodies that are json_valid, so
// that a sealed or damaged one is NULL and not an error.
func views() string {
	return strings.NewReplacer(
		"{created}", created("r.body", "(SELECT f.at FROM line f WHERE f.id = (l.number << 32) + 1)", "r.updated"),
		"{updated}", rfc3339("max(r.updated, ifnull(l.updated, r.updated))"),
		"{at}", rfc3339("n.at"),
		"{metadata}", whenJSON("r.body", "r.body"),
		"{pid}", whenJSON("e.body", "json_extract(e.body, '$.holder.pid')"),
		"{said}", whenJSON("n.body", `ifnull((SELECT group_concat(json_extract(b.value, '$.text'), char(10))
              FROM json_each(n.body, '$.blocks') b
              WHERE b.type = 'object' AND json_extract(b.value, '$.type') = 'text'), '')`),
		"{blocks}", whenJSON("n.body", "ifnull(json_extract(n.body, '$.blocks'), '[]')"),
		"{now}", "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000",
	).Replace(viewsTemplate)
}

// whenJSON guards expr, which parses body.
func whenJSON(body, expr string) string {
	return fmt.Sprintf("CASE WHEN typeof(%s) = 'text' AND json_valid(%s) THEN %s END", body, body, expr)
}

// rfc3339 writes microseconds as text of one width, so that it sorts like the
// time.
func rfc3339(micros string) string {
	return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%S', (%[1]s - (%[1]s %% 1000000 + 1000000) %% 1000000) / 1000000, 'unixepoch')"+
		" || printf('.%%06dZ', (%[1]s %% 1000000 + 1000000) %% 1000000)", micros)
}

// created is created_at of the body in the same format, or else the first of the
// given times that is known.
func created(body string, else1, else2 string) string {
	said := whenJSON(body, fmt.Sprintf("json_extract(%s, '$.created_at')", body))
	fraction := fmt.Sprintf("CASE WHEN substr(%[1]s, 20, 1) = '.' THEN rtrim(substr(%[1]s, 21), 'Z') ELSE '' END", said)
	whole := fmt.Sprintf("CASE WHEN (%[1]s) LIKE '____-__-__T__:__:__%%Z' THEN substr(%[1]s, 1, 19) || '.' || substr(%[2]s || '000000', 1, 6) || 'Z' END", said, fraction)
	return fmt.Sprintf("ifnull(%s, %s)", whole, rfc3339(fmt.Sprintf("ifnull(%s, %s)", else1, else2)))
}

const viewsTemplate = `
CREATE VIEW sessions (id, created_at, updated_at, locked_by, metadata) AS
SELECT r.id,
       {created},
       {updated},
       CASE WHEN e.state = 'held' THEN CAST({pid} AS TEXT) END,
       {metadata}
FROM record r
LEFT JOIN log l ON l.kind = 'session' AND l.id = r.id
LEFT JOIN record e ON e.kind = 'lease' AND e.id = r.id
WHERE r.kind = 'session' AND r.state <> 'trash';

CREATE VIEW messages (id, session_id, role, content, created_at) AS
SELECT n.id,
       l.id,
       CASE n.kind WHEN 'tool' THEN 'tool_results' ELSE n.kind END,
       CASE n.kind WHEN 'user' THEN {said} ELSE {blocks} END,
       {at}
FROM log l
JOIN line n ON n.id > (l.number << 32) AND n.id < ((l.number + 1) << 32)
LEFT JOIN record r ON r.kind = 'session' AND r.id = l.id
WHERE l.kind = 'session' AND n.kind IN ('user', 'assistant', 'tool') AND ifnull(r.state, '') <> 'trash';

CREATE VIEW jobs (id, agent, status, created_at, updated_at, metadata) AS
SELECT r.id,
       r."group",
       r.state,
       {created},
       {updated},
       {metadata}
FROM record r
LEFT JOIN log l ON l.kind = 'job' AND l.id = r.id
WHERE r.kind = 'job';

CREATE TRIGGER sessions_delete INSTEAD OF DELETE ON sessions BEGIN
  UPDATE record
  SET state = 'trash', version = version + 1, batch = 'sql', updated = {now},
      touched = max({now}, ifnull((SELECT l.updated FROM log l WHERE l.kind = 'session' AND l.id = old.id), {now}))
  WHERE kind = 'session' AND id = old.id AND state <> 'trash';
END;

CREATE TRIGGER messages_delete INSTEAD OF DELETE ON messages BEGIN
  UPDATE record
  SET state = 'trash', version = version + 1, batch = 'sql', updated = {now},
      touched = max({now}, ifnull((SELECT l.updated FROM log l WHERE l.kind = 'session' AND l.id = old.session_id), {now}))
  WHERE kind = 'session' AND id = old.session_id AND state <> 'trash';
END;
`
