package agsh_test

import (
	"context"
	"io/fs"
	"iter"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// FuzzRows feeds rows of any role and content to the reader, as one session of
// a database that answers with them.
func FuzzRows(f *testing.F) {
	f.Add("user", "hi", "assistant", `[{"type":"text","text":"x"}]`, "2026-03-01T10:00:00.5+00:00")
	f.Add("compact_boundary", `{"CompactBoundary":{"summary":{"role":"user","content":[]},"replaced_count":9}}`,
		"repair", `{"Repair":{"replaced_count":1,"messages":[{"role":"user","content":[{"type":"image"}]}]}}`, "")
	f.Add("tool_results", `[{"type":"tool_result","content":[{"type":"tool_result","content":[]}]}]`, "user_blocks", `[null]`, "x")
	f.Add("user", "<context>\n</context>\nhi", "assistant", `[{"type":"new"}]`, "9999-12-31T23:59:59+00:00")
	f.Fuzz(func(t *testing.T, role1, content1, role2, content2, at string) {
		db := answers{{int64(1), role1, content1, at}, {int64(2), role2, content2, at}, {int64(3), "user", "last", at}}
		p := convert.Source{FS: fstest.MapFS{"sessions.db": {Data: []byte("SQLite format 3\x00")}}, Path: ".",
			SQL: func(context.Context, string) (convert.Database, error) { return db, nil }}
		got := converttest.Read(t, agsh.Tool(), p)
		if len(got.Sessions) != 1 {
			t.Fatalf("%d sessions", len(got.Sessions))
		}
		for _, s := range got.Sessions {
			if _, err := agsh.Tool().Export(t.Context(), discard{}, s.Session); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzEnvelope reads any bytes as an exported file.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"format_version":1,"meka_version":"1","sessions":[{"id":"a","parent_id":"a","events":[]}]}`))
	f.Add([]byte(`{"format_version":1,"meka_version":"1","sessions":[{"id":"a","events":[{"at":"","event":{"Append":{"role":"user","content":[]}}},{"event":{"Repair":{}}}],"tool_outputs":{"..":"x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := convert.Source{FS: fstest.MapFS{"a.json": {Data: data}}, Path: "a.json"}
		converttest.Read(t, agsh.Tool(), p)
	})
}

// answers is a database of agsh 0.1 with one session, whose messages it is.
type answers [][]any

func (a answers) Close() error                               { return nil }
func (a answers) Exec(context.Context, string, ...any) error { return tidemark.ErrUnsupported }
func (a answers) Query(_ context.Context, statement string, _ ...any) iter.Seq2[[]any, error] {
	rows := [][]any{{"11111111-1111-4111-8111-111111111111", "", "", nil, nil}}
	switch statement[:12] {
	case "SELECT t.nam":
		rows = nil
		for _, c := range []string{"id", "created_at", "updated_at", "locked_by", "metadata"} {
			rows = append(rows, []any{"sessions", c})
		}
		for _, c := range []string{"id", "session_id", "role", "content", "created_at"} {
			rows = append(rows, []any{"messages", c})
		}
	case "SELECT id, r":
		rows = a
	case "SELECT 1 FRO":
		rows = [][]any{{int64(1)}}
	}
	return func(yield func([]any, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// discard is a folder whose databases forget everything.
type discard struct{ out }

func (discard) There() fs.FS                                          { return nil }
func (discard) SQL(context.Context, string) (convert.Database, error) { return forgetful{}, nil }

type forgetful struct{}

func (forgetful) Close() error                               { return nil }
func (forgetful) Exec(context.Context, string, ...any) error { return nil }
func (forgetful) Query(context.Context, string, ...any) iter.Seq2[[]any, error] {
	return func(func([]any, error) bool) {}
}
