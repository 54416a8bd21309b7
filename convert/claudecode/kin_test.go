package claudecode_test

import (
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// countingFS counts how often transcripts are opened.
type countingFS struct {
	fs.FS
	opened atomic.Int64
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.opened.Add(1)
	return c.FS.Open(name)
}

// ReadDir and Stat open nothing of a transcript.
func (c *countingFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }
func (c *countingFS) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(c.FS, name) }

// forkOf is the transcript of the n-th fork of one, which has two turns of it.
func forkOf(n int) (id string, data *fstest.MapFile) {
	id = fmt.Sprintf("%08d-1111-4111-8111-111111111111", n)
	return id, converttest.Lines(fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":"2026-01-02T03:%02d:00.000Z"}`, 10+n%40),
		line(id, "u1", "", 1, prompt("first")), line(id, "a1", "u1", 2, answer("m1", text("one"))),
		line(id, "u2", "a1", 3, prompt("second")), line(id, "a2", "u2", 4, answer("m2", text("two"))),
		line(id, fmt.Sprintf("own%d", n), "a2", 10+n%40, prompt("fork")))
}

// A script may fork one session again and again. Each fork is told from the others by
// a bounded number of readings, and one more costs as much among thousands.
func TestThousandsOfForksOfASessionAreReadOnceEach(t *testing.T) {
	const forks = 300
	note := `{"type":"mode","mode":"normal"}`
	files := fstest.MapFS{file(one): converttest.Lines(line(one, "u1", "", 1, prompt("first")), note, line(one, "a1", "u1", 2, answer("m1", text("one"))),
		line(one, "u2", "a1", 3, prompt("second")), line(one, "a2", "u2", 4, answer("m2", text("two"))), note, line(one, "u9", "a2", 50, prompt("goes on last")))}
	for n := range forks {
		id, data := forkOf(n)
		files[file(id)] = data
	}
	known := make(map[string][]byte) // what sessions left
	read := func() (sessions int, opened int64) {
		t.Helper()
		count := &countingFS{FS: files}
		p := convert.Source{FS: count, Path: ".", Known: func(unit string) ([]byte, bool) { state, ok := known[unit]; return state, ok }}
		for s, err := range claudecode.Tool().Import(t.Context(), p) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Unchanged {
				continue
			}
			sessions++
			want := one
			if s.ForeignID == one {
				want = ""
			}
			if s.Copied != want {
				t.Errorf("%s is a copy of %q, want %q", s.ForeignID, s.Copied, want)
			}
			known[s.Units[0].Name] = s.Units[0].State
		}
		return sessions, count.opened.Load()
	}
	if sessions, opened := read(); sessions != forks+1 || opened > 10*forks {
		t.Errorf("%d sessions with %d readings", sessions, opened)
	}
	if sessions, opened := read(); sessions != 0 || opened > 5 {
		t.Errorf("unchanged: %d sessions with %d readings", sessions, opened)
	}
	id, data := forkOf(forks)
	files[file(id)] = data
	if sessions, opened := read(); sessions != 1 || opened > 2*convert.MaxKin {
		t.Errorf("one more: %d sessions with %d readings", sessions, opened)
	}
}

// What a fork goes on with does not have its original read again, and an original that
// its tool deleted meanwhile is still where the fork came from.
func TestAForkThatGoesOnStaysWhereItIs(t *testing.T) {
	id, data := forkOf(1)
	original := converttest.Lines(line(one, "u1", "", 1, prompt("first")), `{"type":"mode","mode":"normal"}`, line(one, "a1", "u1", 2, answer("m1", text("one"))),
		line(one, "u2", "a1", 3, prompt("second")), line(one, "a2", "u2", 4, answer("m2", text("two"))))
	files := fstest.MapFS{file(one): original, file(id): data}
	known, marks := make(map[string][]byte), make(map[string]convert.Bookmark)
	grown := ""
	read := func() (all []string) {
		t.Helper()
		p := convert.Source{FS: files, Path: ".", Known: func(unit string) ([]byte, bool) { state, ok := known[unit]; return state, ok && unit != grown },
			Growth: func(unit string) (convert.Growth, bool) {
				at, ok := marks[unit]
				return convert.Growth{Bookmark: at, Known: known[unit]}, ok && unit == grown
			}}
		for s, err := range claudecode.Tool().Import(t.Context(), p) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Unchanged {
				continue
			}
			for _, err := range s.Entries {
				if err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, fmt.Sprintf("%.4s of %.4s at %d, goes on: %v", s.ForeignID, s.Copied, s.CreatedAt.Minute(), s.From != nil))
			u := s.Units[0]
			known[u.Name] = u.State
			if at, ok := u.Bookmark(); ok {
				marks[u.Name] = at
			}
		}
		return all
	}
	if got := fmt.Sprint(read()); got != "[aaaa of  at 1, goes on: false 0000 of aaaa at 11, goes on: false]" {
		t.Error("at first", got)
	}
	grown = file(id)
	more := append(data.Data, converttest.Lines(line(id, "b1", "own1", 12, answer("m3", text("three"))), line(id, "c1", "b1", 13, prompt("more"))).Data...)
	files[file(id)] = &fstest.MapFile{Data: more}
	if got := fmt.Sprint(read()); got != "[0000 of aaaa at 11, goes on: true]" {
		t.Error("grown", got)
	}
	delete(files, file(one))
	more = append(more, converttest.Lines(line(id, "d1", "c1", 14, prompt("and more"))).Data...)
	files[file(id)] = &fstest.MapFile{Data: more}
	if got := fmt.Sprint(read()); got != "[0000 of aaaa at 11, goes on: true]" {
		t.Error("alone", got)
	}
}
