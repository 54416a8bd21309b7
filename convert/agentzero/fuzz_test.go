package agentzero

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// FuzzImport reads any three files of a session, writes what came in, and
// expects the same back. It goes around the encryption, which is slow on
// purpose.
func FuzzImport(f *testing.F) {
	const session = `{"message_count":2,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":{}}}]},
		{"role":"tool","content":"Error: no"},{"role":"x"},{"role":"system","content":"[COMPACTION SUMMARY]"}],"mode":"local-only","model":"m","session_id":"s"}`
	f.Add(session, session, `{"nodes":[{"id":"n0","messages":[{"role":"user"}]},{"id":"n1","parent":"n0","keeps":0,"messages":[{"role":"user","content":"b"}]}]}`)
	f.Add("{", `{"messages":[{"role":"tool","content":7}],"config":[]}`, `{"nodes":{"n0":{"keeps":-4,"messages":[{"role":"user","tidemark":[]}]}}}`)
	f.Add(session, "", `[{"id":0,"parent":0,"children":[{"children":[]}]}]`)
	f.Add(session, "", `{"current":"n1","nodes":[{"id":"n0","message_count":2},{"id":"n1","parent":"n0","message_count":4,"label":"idea"},{"id":"n2","parent":"n0"}]}`)
	f.Fuzz(func(t *testing.T, plain, check, tree string) {
		files := fstest.MapFS{"s.json": {Data: []byte(plain)}, "s.checkpoint.json": {Data: []byte(check)}, "s.tree.json": {Data: []byte(tree)}}
		for _, s := range converttest.Read(t, Tool(), convert.Source{FS: files, Path: "."}).Sessions {
			again := *s.Session
			again.Entries = convert.All(s.Entries)
			written, err := filesOf(context.Background(), &again, "s", convert.Losses{})
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{}
			for _, f := range written[1:] {
				b, err := pretty(f.fields)
				if err != nil {
					t.Fatal(err)
				}
				files["s"+f.end] = &fstest.MapFile{Data: b}
			}
			back := converttest.Read(t, Tool(), convert.Source{FS: files, Path: "."})
			if len(back.Sessions) != 1 || len(back.Skips) > 0 {
				t.Fatalf("what was written is not read: %q", back.Skips)
			}
			if d := cmp.Diff(entries(s), entries(back.Sessions[0])); d != "" {
				t.Error(d)
			}
		}
	})
}

// entries returns what was said, without times: a file may have none.
func entries(s converttest.Session) []convert.Entry {
	var all []convert.Entry
	for _, e := range s.Entries {
		e.At = time.Time{}
		all = append(all, e)
	}
	return all
}

func FuzzOpen(f *testing.F) {
	sealed, err := seal("p", []byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("AAAA"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys := newPassphrases(func(name string) string { return map[string]string{"AZ_PASSPHRASE": "p"}[name] })
		if _, err := keys.open(b); err == nil && string(b) != string(sealed) {
			t.Log("opened something else, which differs in what base64 does not say")
		}
	})
}
