// Package converttest checks what a converter imports against what was really
// done in the other tool. It reads the samples in convert/testdata, and knows no
// tool. Only tests use it.
//
//	for _, s := range converttest.Samples(t, os.DirFS("../testdata/codex")) {
//		t.Run(s.Name, func(t *testing.T) { s.Check(t, codex.Tool(), map[string][]string{"bash": {"shell"}}) })
//	}
package converttest

import (
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Sample is a home folder as a tool left it, and what was done in it. Set
// Source.SQL before Check for a tool that needs it.
type Sample struct {
	Name   string
	Source convert.Source
	Want   []Want
	// Unnoted are sessions in the sample that expected.json does not mention, by
	// their id, each with the reason.
	Unnoted map[string]string
}

// Want is what was done in one session.
type Want struct {
	Session     string   `json:"session"`          // "": the tool did not say it
	InFiles     string   `json:"session_in_files"` // then it may have been found later
	Label       string   `json:"label"`
	Project     string   `json:"project"`
	Title       string   `json:"title"`
	Source      string   `json:"forked_from"`
	Inherited   []string `json:"inherited_prompts"`
	Turns       []Turn   `json:"turns"`
	Interactive bool     `json:"interactive"`
	Live        []string `json:"live_branch_prompts"`
	Abandoned   []string `json:"abandoned_branch_prompts"`
	OnDisk      *bool    `json:"on_disk"`
	NotOnDisk   []string `json:"prompts_not_on_disk"`
}

// Turn is a prompt and what the model was told to do about it.
type Turn struct {
	Prompt string   `json:"prompt"`
	Exit   int      `json:"exit"`
	Reply  string   `json:"reply"` // "": not fixed
	Tools  []string `json:"neutral_tools"`
}

// Samples returns the samples of one tool: the folders of root that hold an
// expected.json. There has to be one.
func Samples(t testing.TB, root fs.FS) []Sample {
	t.Helper()
	names, err := fs.Glob(root, "*/expected.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	var all []Sample
	for _, name := range names {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Sessions []Want }
		if err := json.Unmarshal(b, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, w := range file.Sessions {
			file.Sessions[i].Session = cmp.Or(w.Session, w.InFiles)
		}
		sub, err := fs.Sub(root, path.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Sample{path.Dir(name), convert.Source{FS: sub, Path: "."}, file.Sessions, nil})
	}
	return all
}

// Taken is what one import yielded, read to its end.
type Taken struct {
	Sessions []Session
	Skips    []string
}

// Session is a session with its entries in memory.
type Session struct {
	*convert.Session
	Entries []convert.Entry
	Workers []Worker
}

// Worker is a worker with its entries in memory.
type Worker struct {
	Name, Call string
	Entries    []convert.Entry
}

// Read imports a Source and checks what holds for every tool: originals come
// before their forks, ids are unique, parents come first, and the store would
// keep each entry unchanged.
func Read(t testing.TB, tool convert.Tool, p convert.Source) Taken {
	t.Helper()
	p, check := watched(t, tool, p)
	defer check()
	var got Taken
	seen := map[string]bool{}
	for s, err := range tool.Import(context.Background(), p) {
		if convert.IsSkip(err) {
			got.Skips = append(got.Skips, err.Error())
			continue
		}
		if err != nil {
			t.Fatalf("import: %v", err)
		}
		if s.ForeignID == "" || seen[s.ForeignID] {
			t.Errorf("session %q: its id is empty or there twice", s.ForeignID)
		}
		seen[s.ForeignID] = true
		if s.Fork != nil && !seen[s.Fork.Session] {
			t.Errorf("session %s: its source %s did not come before it", s.ForeignID, s.Fork.Session)
		}
		yielded := *s
		one := Session{Session: s, Entries: got.entries(t, s.ForeignID, s)}
		for _, w := range s.Workers {
			worker := &convert.Session{Entries: w.Entries}
			one.Workers = append(one.Workers, Worker{w.Name, w.Call, got.entries(t, s.ForeignID+" worker "+w.Name, worker)})
		}
		now := *s
		yielded.Entries, now.Entries = nil, nil // functions are never equal
		if !reflect.DeepEqual(yielded, now) {
			t.Errorf("session %s was changed after it was yielded", s.ForeignID)
		}
		got.Sessions = append(got.Sessions, one)
	}
	return got
}

func (got *Taken) entries(t testing.TB, what string, s *convert.Session) []convert.Entry {
	t.Helper()
	var all []convert.Entry
	seen := map[string]bool{}
	for e, err := range s.Entries {
		if convert.IsSkip(err) {
			got.Skips = append(got.Skips, err.Error())
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if e.ID == "" || seen[e.ID] {
			t.Errorf("%s: entry %q: its id is empty or there twice", what, e.ID)
		}
		fromSource := s.Fork != nil && e.Parent == s.Fork.Entry
		if e.Parent != "" && e.Parent != convert.Root && !seen[e.Parent] && !fromSource {
			t.Errorf("%s: entry %s: its parent %s did not come before it", what, e.ID, e.Parent)
		}
		if _, err := e.Line(); err != nil {
			t.Errorf("%s: entry %s: %v", what, e.ID, err)
		}
		seen[e.ID] = true
		all = append(all, e)
	}
	if s.Head != "" && s.Head != convert.Root && !seen[s.Head] {
		t.Errorf("%s: its head %s is not one of its entries", what, s.Head)
	}
	return all
}

// Find returns the session with an id, or nil.
func (got Taken) Find(id string) *Session {
	for i, s := range got.Sessions {
		if s.ForeignID == id {
			return &got.Sessions[i]
		}
	}
	return nil
}

// Whole returns the entries of a session, those it shares with its source
// before its own.
func (got Taken) Whole(s *Session) []convert.Entry {
	if s.Fork == nil {
		return s.Entries
	}
	source := got.Find(s.Fork.Session)
	if source == nil || source == s {
		return s.Entries
	}
	return append(Path(got.Whole(source), s.Fork.Entry), s.Entries...)
}

// Path returns the entries from the root to the one with an id, or to the
// last one for "".
func Path(entries []convert.Entry, id string) []convert.Entry {
	at := len(entries) - 1
	index := map[string]int{}
	for i, e := range entries {
		index[e.ID] = i
		if e.ID == id {
			at = i
		}
	}
	var back []convert.Entry
	for at >= 0 {
		e := entries[at]
		back = append(back, e)
		next, known := index[e.Parent]
		switch {
		case e.Parent == convert.Root:
			at = -1
		case e.Parent == "" || !known || next >= at:
			at--
		default:
			at = next
		}
	}
	slices.Reverse(back)
	return back
}

// Texts returns the texts of the messages of one role.
func Texts(entries []convert.Entry, role tidemark.Role) []string {
	var all []string
	for _, e := range entries {
		if text := strings.TrimSpace(e.Text()); e.Role == role && text != "" {
			all = append(all, text)
		}
	}
	return all
}

// ReadWhole is Read of a Source in which nothing is wrong.
func ReadWhole(t testing.TB, tool convert.Tool, p convert.Source) Taken {
	t.Helper()
	got := Read(t, tool, p)
	for _, skip := range got.Skips {
		t.Errorf("skipped: %s", skip)
	}
	return got
}
