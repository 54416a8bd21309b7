package transfer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestASessionHasTheSameIDOnEveryMachine(t *testing.T) {
	fork := said("fork", 2)
	fork.Fork = &convert.Fork{Session: "one", Entry: "one-0"}
	var ids [2][]tidemark.SessionID
	for n := range ids {
		i, told, err := importInto(t.Context(), memory.New(), toolOf(said("one", 2), said("two", 1), fork))
		if err != nil || len(i.Results) != 3 {
			t.Fatalf("%v, told %q", err, told)
		}
		for _, r := range i.Results {
			ids[n] = append(ids[n], r.Session)
		}
	}
	if a, b := fmt.Sprint(ids[0]), fmt.Sprint(ids[1]); a != b || ids[0][0] == ids[0][1] || !ids[0][2].Derived() {
		t.Errorf("%s, and on another machine %s", a, b)
	}
}

func TestASessionThatHasAnIDKeepsIt(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := s.Create(tidemark.Session{Tool: "fake", ForeignID: "one"}, store.Self("test")) // as earlier versions kept it
	e := tidemark.Say(tidemark.User, "text 0")
	e.Key = "fake:one-0"
	if _, err := w.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	i, told, err := importInto(t.Context(), b, toolOf(said("one", 2)))
	if err != nil || len(i.Results) != 1 || i.Results[0].Session != w.ID() {
		t.Errorf("%+v, %v, told %q", i.Results, err, told)
	}
}

func TestAnIDThatAnotherSessionHasIsRefused(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	taken := tidemark.DerivedSessionID("import", "fake", "one")
	w := s.Create(tidemark.Session{ID: taken, Title: "mine"}, store.Self("import"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hello")); err != nil {
		t.Fatal(err)
	}
	fork := said("fork", 2)
	fork.Fork = &convert.Fork{Session: "one", Entry: "one-0"}
	_, told, err := importInto(t.Context(), b, toolOf(said("one", 2), fork, said("two", 1)))
	if err != nil || !strings.Contains(told[len(told)-1], "new two") || !strings.Contains(strings.Join(told, "\n"), "one: its id here would be "+string(taken)) {
		t.Errorf("%v, told %q", err, told)
	}
	if i, err := s.Session(t.Context(), taken); err != nil || i.Title != "mine" || i.Entries != 1 {
		t.Errorf("what had the id is %+v, %v", i, err)
	}
}

// A tool that counts its sessions has the same id on two machines for two of them.
func TestIDsThatAToolCountsAreOfOneFolder(t *testing.T) {
	header := `{"description":"%s","working_dir":"/p","message_count":1}` + "\n" + `{"id":"m","role":"user","created":1767225600,"content":[{"type":"text","text":"%s"}]}` + "\n"
	home := func(text string) string {
		dir := filepath.Join(t.TempDir(), "goose", "sessions")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "20260101_1.jsonl"), fmt.Appendf(nil, header, text, text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	one, two := home("one"), home("two")
	s := store.New(memory.New(), nil)
	read := func(path, machine string) tidemark.SessionID {
		t.Helper()
		who := store.Self("import")
		who.Machine = machine
		results, err := Import(t.Context(), s, path, &Importer{Tool: "goose", Holder: who, Again: true})
		if err != nil || len(results) != 1 || results[0].Session == "" {
			t.Fatalf("%s: %+v, %v", path, results, err)
		}
		return results[0].Session
	}
	first := read(one, "a")
	if first == read(two, "a") || first == read(one, "b") {
		t.Error("two sessions became one")
	}
	for _, again := range []string{filepath.Dir(one), one, filepath.Join(one, "20260101_1.jsonl")} {
		if got := read(again, "a"); got != first {
			t.Errorf("%s: one session became two", again)
		}
	}
}

// A session that comes back after a purge has the logs that it had.
func TestASessionThatComesBackIsFoundOnce(t *testing.T) {
	for name, o := range map[string]*store.Options{"no index": {}, "an index": {Places: search.EachWord}} {
		b, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), &sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		s := store.New(b, o)
		read := func(entries int) Result {
			t.Helper()
			i := Importer{Opened: open.Around(s), Holder: store.Self("import"), Again: true}
			err := newToolImport(&i, toolOf(said("one", entries), said("two", 2))).all(t.Context(), convert.Source{}, "here")
			if err == nil {
				err = i.Index(t.Context())
			}
			if err != nil || len(i.Results) != 2 {
				t.Fatal(i.Results, err)
			}
			return i.Results[0]
		}
		finds := func(when string, want int) {
			t.Helper()
			query, err := search.Parse("text")
			if err != nil {
				t.Fatal(err)
			}
			a, err := s.Search(t.Context(), store.Question{Limit: 100}.About(query))
			if err != nil || a.Damage != nil || len(a.Found) != want {
				t.Errorf("%s, %s: found %d, want %d; %v, %v", name, when, len(a.Found), want, err, a.Damage)
			}
		}
		first := read(5)
		finds("at first", 7)
		if err := s.Destroy(t.Context(), first.Session, store.Self("test")); err != nil {
			t.Fatal(err)
		}
		finds("purged", 2)
		if again := read(4); again.Session != first.Session || again.State != "new" {
			t.Errorf("%s: came back as %+v", name, again)
		}
		finds("back", 6)
		read(8)
		finds("grown", 10)
		if err := s.RewriteIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		finds("after the index was rewritten", 10)
		var buf bytes.Buffer
		for r, err := range s.Sessions(t.Context(), store.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&buf, r.ID)
		}
		if strings.Count(buf.String(), "\n") != 2 {
			t.Errorf("%s: the sessions are\n%s", name, buf.String())
		}
	}
}
