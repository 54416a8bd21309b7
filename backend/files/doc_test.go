package files_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

const formatPage = "../../docs/formats/files.md"

// blocks returns the fenced blocks of the format page by what stands behind
// the fence.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+ [a-z ]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = m[2]
	}
	return all
}

// TestTheExamplesOfTheFormatPageAreReadAsTheyStand puts the files of the page
// into a store.
func TestTheExamplesOfTheFormatPageAreReadAsTheyStand(t *testing.T) {
	example := blocks(t)
	disk := crashfs.New()
	open(t, "store", &files.Options{FS: disk, Create: true}).Close()
	key := tidemark.Key{Kind: "session", ID: "7f3a"}
	for name, block := range map[string]string{
		"records/session/7f3a.json": "json record",
		"logs/session/7f3a.ndjson":  "json lines",
		"heads/session/7f3a.json":   "json head",
	} {
		text := example[block]
		if text == "" {
			t.Fatalf("the page has no block %q", block)
		}
		if block == "json head" {
			text = fmt.Sprintf("%-511s\n", strings.TrimSuffix(text, "\n"))
		}
		if err := durable.MkdirAll(disk, path.Dir(name)); err != nil {
			t.Fatal(err)
		}
		if err := durable.Create(disk, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, "store", &files.Options{FS: disk})
	r, err := b.Get(ctx, key)
	if err != nil || r.Version != 3 || string(r.Body) != `{"title":"Tides"}` || r.Head.Length != 3 {
		t.Errorf("Get = %+v, %v", r, err)
	}
	var got []string
	for l, err := range b.Lines(ctx, key) {
		got = append(got, fmt.Sprintf("%d %s %q %v", l.Seq, l.Kind, l.Body, err))
	}
	want := []string{`1 user "{\"blocks\":[{\"type\":\"text\",\"text\":\"When is high tide?\"}]}" <nil>`,
		`2 assistant "{\"blocks\":[{\"type\":\"text\",\"text\":\"At noon.\"}]}" <nil>`, `3 tool "\xff\n" <nil>`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	for err := range b.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
	if n := files.EntriesIn([]byte(example["json entry"])); n != 1 {
		t.Errorf("the journal of the page has %d entries", n)
	}
	keep(t, b, func() tidemark.Append {
		return tidemark.Append{Log: key, Lines: []tidemark.Line{backendtest.NewLine(key, 4, `{}`)}}
	}())
}

// tracer writes down every call that changes something.
type tracer struct {
	durable.FS
	calls *[]string
}

var drawn = regexp.MustCompile(`(tmp|intents)/[0-9a-f]{16}`)

func (t tracer) note(err error, format string, args ...any) error {
	if err == nil {
		*t.calls = append(*t.calls, drawn.ReplaceAllString(fmt.Sprintf(format, args...), "$1/*"))
	}
	return err
}

func (t tracer) OpenFile(name string, flag int) (durable.File, error) {
	_, serr := t.FS.Stat(name)
	f, err := t.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	if serr != nil {
		t.note(nil, "create   %s", name)
	}
	return tracedFile{f, t, name}, nil
}

func (t tracer) Mkdir(name string) error { return t.note(t.FS.Mkdir(name), "mkdir    %s", name) }
func (t tracer) Rename(from, to string) error {
	return t.note(t.FS.Rename(from, to), "rename   %s -> %s", from, to)
}
func (t tracer) Remove(name string) error { return t.note(t.FS.Remove(name), "remove   %s", name) }
func (t tracer) SyncDir(name string) error {
	return t.note(t.FS.SyncDir(name), "sync     %s/", name)
}

type tracedFile struct {
	durable.File
	t    tracer
	name string
}

func (f tracedFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	return n, f.t.note(err, "write    %s", f.name)
}
func (f tracedFile) Truncate(n int64) error {
	return f.t.note(f.File.Truncate(n), "truncate %s", f.name)
}
func (f tracedFile) Sync() error { return f.t.note(f.File.Sync(), "sync     %s", f.name) }

// operation is a commit that the page has the order of.
type operation struct {
	name  string
	parts []any
}

// TestTheOrderOfFileOperationsIsTheOneOnTheFormatPage compares what each kind
// of commit does with what the page says.
func TestTheOrderOfFileOperationsIsTheOneOnTheFormatPage(t *testing.T) {
	calls := new([]string)
	b := openTraced(t, calls, files.NeverJournals)
	inOrder(t, b, calls, []operation{
		{"new log", []any{run(sessB, 1, 1)}},
		{"append", []any{run(sessA, 2, 2)}},
		{"put", []any{backendtest.NewRecord(sessA, 2, `{}`)}},
		{"batch", []any{backendtest.NewRecord(sessA, 3, `{}`), run(sessA, 3, 4)}},
		{"delete", []any{tidemark.Precondition{Key: sessA, Version: 3}}},
		{"drop", []any{sessA}},
	})
	if _, err := b.Get(ctx, sessA); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

func TestTheOrderOfFileOperationsOfAJournalIsTheOneOnTheFormatPage(t *testing.T) {
	calls := new([]string)
	b := openTraced(t, calls, 0)
	inOrder(t, b, calls, []operation{
		{"journaled put", []any{backendtest.NewRecord(sessA, 2, `{}`)}},
		{"journaled batch", []any{backendtest.NewRecord(sessA, 3, `{}`), run(sessA, 2, 3)}},
	})
	*calls = nil
	if err := b.SyncBehind(ctx); err != nil {
		t.Fatal(err)
	}
	asOnThePage(t, "journal synced", *calls)
	inOrder(t, b, calls, []operation{{"first of a journal", []any{tidemark.Precondition{Key: sessA, Version: 3}}}})
}

// openTraced opens a store of two sessions, so that what is made once, when a kind or
// a lock is first used, is there.
func openTraced(t *testing.T, calls *[]string, journalFrom int64) *files.Backend {
	t.Helper()
	b, err := files.OpenJournaling("store", &files.Options{FS: tracer{crashfs.New(), calls}, Create: true}, journalFrom, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 1))
	keep(t, b, run(sessB, 1, 1))
	keep(t, b, sessB)
	keep(t, b, backendtest.NewRecord(tidemark.Key{Kind: "session", ID: "c"}, 1, `{}`))
	return b
}

// inOrder carries out operations and compares their calls with the page.
func inOrder(t *testing.T, b *files.Backend, calls *[]string, all []operation) {
	t.Helper()
	for _, c := range all {
		*calls = nil
		keep(t, b, c.parts...)
		asOnThePage(t, c.name, *calls)
	}
}

func asOnThePage(t *testing.T, name string, calls []string) {
	t.Helper()
	if d := cmp.Diff(blocks(t)["text "+name], strings.Join(calls, "\n")+"\n"); d != "" {
		t.Errorf("%s (-page +got):\n%s", name, d)
	}
}
