package fleetrlm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Where local runs store their sessions, below their working folder.
const (
	sidecarFolder = ".data"
	sidecarName   = "local.db"
)

// sidecar is the database of local runs.
type sidecar struct {
	convert.SourceDatabase
	sessionColumns, turnColumns []string
}

// openSidecar opens a database and reads its columns, because they differ by
// version. One that is not fleet-rlm's is ErrInvalid.
func openSidecar(ctx context.Context, p convert.Source, name string) (*sidecar, error) {
	db := &sidecar{SourceDatabase: convert.SourceDatabase{Source: p, Name: name}}
	if err := db.Open(ctx); err != nil {
		return nil, err
	}
	columns, err := db.Columns(ctx, "chat_sessions", "chat_turns")
	db.sessionColumns, db.turnColumns = columns["chat_sessions"], columns["chat_turns"]
	if err == nil && !(hasAll(db.sessionColumns, "id", "title", "created_at") && hasAll(db.turnColumns, "id", "session_id", "turn_index", "user_message", "assistant_message")) {
		err = tidemark.Invalidf("its tables are not those of fleet-rlm")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func hasAll(columns []string, names ...string) bool {
	for _, name := range names {
		if !slices.Contains(columns, name) {
			return false
		}
	}
	return true
}

// row is a session of the database.
type row struct {
	key     int64
	columns map[string]any
}

func (r row) text(column string) string { return convert.CellText(r.columns[column]) }

// id is the id in the name of the session's manifest.
func (r row) id() string {
	if id := r.text("external_session_id"); id != "" {
		return safeName(id, "default-session")
	}
	return fmt.Sprintf("local-%d", r.key)
}

// owners are the possible owners of its manifest: as version 0.5.0 writes it,
// and as documented.
func (r row) owners() []owner {
	workspace := safeName(r.text("workspace_id"), "default")
	tenant, user := r.text("owner_tenant"), r.text("owner_user")
	documented := owner{workspace, safeName(user, "default")}
	if tenant == "" && user == "" {
		return []owner{documented}
	}
	sum := sha256.Sum256([]byte(tenant + "\x00" + user))
	return []owner{{hex.EncodeToString(sum[:]), workspace}, documented}
}

func (r row) object() object {
	o := object{}
	for k, v := range r.columns {
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		if v != nil {
			o.Set(k, v)
		}
	}
	return o
}

// sessions reads the rows of all sessions.
func (d *sidecar) sessions(ctx context.Context) (all []row, err error) {
	for cells, err := range d.Query(ctx, "SELECT id, "+convert.BoundedColumns(d.sessionColumns)+" FROM chat_sessions ORDER BY id") {
		if err != nil {
			return all, err
		}
		r := row{columns: map[string]any{}}
		r.key, _ = cells[0].(int64)
		for i, name := range d.sessionColumns {
			r.columns[name] = cells[i+1]
		}
		all = append(all, r)
	}
	return all, nil
}

// turns yields the turns of a session, in order.
func (d *sidecar) turns(ctx context.Context, key int64) iter.Seq2[turn, error] {
	var columns []string
	for _, name := range []string{"tokens_in", "tokens_out", "latency_ms", "created_at"} {
		if !hasAll(d.turnColumns, name) {
			name = "NULL"
		}
		columns = append(columns, name)
	}
	statement := `SELECT turn_index, octet_length(user_message) + coalesce(octet_length(assistant_message), 0) > ?1,
		CASE WHEN octet_length(user_message) <= ?1 THEN user_message END,
		CASE WHEN octet_length(assistant_message) <= ?1 THEN assistant_message END, ` + strings.Join(columns, ", ") + `
		FROM chat_turns WHERE session_id = ?2 ORDER BY turn_index, id`
	return func(yield func(turn, error) bool) {
		for cells, err := range d.Query(ctx, statement, int64(maxManifest), key) {
			if ctx.Err() != nil {
				yield(turn{}, ctx.Err())
				return
			}
			if err != nil {
				yield(turn{}, &convert.Skip{What: fmt.Sprintf("%s: session %d", d.Name, key), Why: err})
				return
			}
			t, why := readTurn(cells), error(nil)
			if cells[1] == int64(1) {
				why = convert.Skipf(fmt.Sprintf("%s: session %d: turn %s", d.Name, key, convert.CellText(cells[0])), "is longer than %d bytes", maxManifest)
			}
			if !yield(t, why) {
				return
			}
		}
	}
}

func readTurn(cells []any) turn {
	t := turn{request: valid(cells[2]), answer: valid(cells[3]), at: parseTime(convert.CellText(cells[7]))}
	in, _ := cells[4].(int64)
	out, _ := cells[5].(int64)
	if in > 0 || out > 0 {
		t.usage = &tidemark.Usage{InputTokens: max(in, 0), OutputTokens: max(out, 0)}
	}
	t.note.Latency, _ = cells[6].(int64)
	return t
}

// valid is a text that survives JSON unchanged.
func valid(cell any) string { return strings.ToValidUTF8(convert.CellText(cell), "\uFFFD") }

// describe fills in a session from its row. A manifest written by Tidemark takes
// precedence.
func (r row) describe(s *convert.Session) {
	if title := r.text("title"); s.Title == "" && title != r.text("external_session_id") && title != "New Session" {
		s.Title = strings.ToValidUTF8(title, "\uFFFD")
	}
	if s.Model == "" {
		s.Model = strings.ToValidUTF8(r.text("model_name"), "\uFFFD")
	}
	if strings.EqualFold(r.text("status"), "archived") && !slices.Contains(s.Tags, archivedTag) {
		s.Tags = append(s.Tags, archivedTag)
	}
	if created := parseTime(r.text("created_at")); !created.IsZero() {
		s.CreatedAt = created
	}
	if updated := parseTime(r.text("updated_at")); updated.After(s.UpdatedAt) {
		s.UpdatedAt = updated
	}
}

// archivedTag marks a session that was deleted in fleet-rlm, which keeps it.
const archivedTag = "archived"

// maxJoined bounds the turns of a database that are held in memory to be joined
// with those of a manifest.
const maxJoined = 64 << 20

// load reads the turns of a session, at most maxJoined bytes of them.
func (d *sidecar) load(ctx context.Context, key int64) (turns []turn, lost []string, err error) {
	held := 0
	for t, err := range d.turns(ctx, key) {
		switch {
		case convert.IsSkip(err):
			lost = append(lost, err.Error())
			continue
		case err != nil:
			return nil, nil, err
		}
		if held += len(t.request) + len(t.answer); held > maxJoined {
			return turns, append(lost, fmt.Sprintf("turns of the sidecar database after the first %d bytes", maxJoined)), nil
		}
		turns = append(turns, t)
	}
	return turns, lost, nil
}

// firstTime is the first known time.
func firstTime(all ...time.Time) time.Time {
	for _, t := range all {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
