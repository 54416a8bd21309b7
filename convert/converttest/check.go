package converttest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Check imports the sample twice and compares: every prompt and every fixed
// reply is there as often as it was given, no other text passes for the
// user's, forks name their source, projects and titles are right, and the
// second import is equal to the first. Sessions that nobody noted are logged.
//
// names says which of the tool's own tools a neutral one (read, edit, write,
// bash, todo, task, wait) is. What it does not name is not counted.
func (s Sample) Check(t *testing.T, tool convert.Tool, names map[string][]string) Taken {
	t.Helper()
	if !tool.Detect(t.Context(), s.Place) {
		t.Errorf("%s does not detect its own store", tool.Name)
	}
	got := Read(t, tool, s.Place)
	for _, skip := range got.Skips {
		t.Errorf("skipped: %s", skip)
	}
	if got.Dump(t) != Read(t, tool, s.Place).Dump(t) {
		t.Error("a second import is not equal to the first")
	}
	claimed := map[string]bool{}
	for _, w := range s.Want {
		claimed[w.Session] = true
	}
	for _, w := range s.Want {
		if w.OnDisk != nil && !*w.OnDisk {
			continue
		}
		one := got.Find(w.Session)
		if w.Session == "" {
			one = got.unnamed(w, claimed)
		}
		if one == nil && w.refused() {
			t.Logf("%s: the tool refused it and kept nothing", w.Label)
			continue
		}
		if one == nil {
			t.Errorf("%s: session %q did not come in", w.Label, w.Session)
			continue
		}
		claimed[one.ForeignID] = true
		w.check(t, got, one, s.Want, names)
	}
	for _, one := range got.Sessions {
		if !claimed[one.ForeignID] {
			t.Logf("session %s (%q) is on disk, but its doing was not noted", one.ForeignID, one.Title)
		}
	}
	return got
}

// unnamed finds a session that was killed before it printed its id.
func (got Taken) unnamed(w Want, claimed map[string]bool) *Session {
	for i, s := range got.Sessions {
		prompts := w.prompts()
		if !claimed[s.ForeignID] && s.Project == w.Project && len(prompts) > 0 &&
			slices.Contains(Texts(s.Entries, tidemark.User), prompts[0]) {
			return &got.Sessions[i]
		}
	}
	return nil
}

// refused says that a session without an id had no turn that was begun.
func (w Want) refused() bool {
	for _, turn := range w.Turns {
		if turn.Exit != 1 {
			return false
		}
	}
	return w.Session == ""
}

func (w Want) prompts() []string {
	all := slices.Concat(w.Inherited, w.Live, w.Abandoned)
	for _, turn := range w.Turns {
		all = append(all, turn.Prompt)
	}
	return slices.DeleteFunc(all, func(p string) bool {
		return slices.Contains(w.NotOnDisk, p) || strings.HasPrefix(p, "(summary of:")
	})
}

// replies are the fixed ones of the session's own turns, and of those it
// inherited.
func (w Want) replies(all []Want) []string {
	var texts []string
	for _, other := range all {
		for _, turn := range other.Turns {
			own := other.Session == w.Session && other.Label == w.Label
			inherited := w.Source != "" && other.Session == w.Source && slices.Contains(w.Inherited, turn.Prompt)
			kept := turn.Exit == 0 && turn.Reply != "" && !slices.Contains(w.NotOnDisk, turn.Prompt)
			if (own || inherited) && kept {
				texts = append(texts, strings.TrimSpace(turn.Reply))
			}
		}
	}
	return texts
}

func (w Want) check(t *testing.T, got Taken, s *Session, all []Want, names map[string][]string) {
	t.Helper()
	entries := got.Whole(s)
	said, want := count(Texts(entries, tidemark.User)), count(w.prompts())
	for text, n := range want {
		if said[text] != n {
			t.Errorf("%s (%s): prompt %.60q is there %d times, want %d", w.Label, s.ForeignID, text, said[text], n)
		}
	}
	for text := range said {
		if want[text] == 0 && !w.Interactive {
			t.Errorf("%s (%s): %.80q is not the user's", w.Label, s.ForeignID, text)
		}
	}
	answered := count(Texts(entries, tidemark.Assistant))
	for text, n := range count(w.replies(all)) {
		if answered[text] != n {
			t.Errorf("%s (%s): reply %.60q is there %d times, want %d", w.Label, s.ForeignID, text, answered[text], n)
		}
	}
	if w.Source != "" && s.Copied != w.Source && (s.Fork == nil || s.Fork.Session != w.Source) {
		t.Errorf("%s (%s): is not linked to its source %s", w.Label, s.ForeignID, w.Source)
	}
	if w.Source == "" && (s.Copied != "" || s.Fork != nil) {
		t.Errorf("%s (%s): is no fork", w.Label, s.ForeignID)
	}
	if w.Project != "" && s.Project != w.Project {
		t.Errorf("%s (%s): project %q, want %q", w.Label, s.ForeignID, s.Project, w.Project)
	}
	if w.Title != "" && s.Title != w.Title {
		t.Errorf("%s (%s): title %q, want %q", w.Label, s.ForeignID, s.Title, w.Title)
	}
	if len(w.Inherited) == 0 && !w.Interactive {
		w.checkTools(t, s, entries, names)
	}
	checkResults(t, s.ForeignID, entries)
	for _, worker := range s.Workers {
		checkResults(t, s.ForeignID+" worker "+worker.Name, worker.Entries)
	}
}

// checkTools counts calls. Two neutral tools that are one tool there are
// counted together.
func (w Want) checkTools(t *testing.T, s *Session, entries []convert.Entry, names map[string][]string) {
	t.Helper()
	group := map[string]string{}
	for _, neutral := range names {
		for _, name := range neutral {
			group[name] = neutral[0]
		}
	}
	var want, called []string
	for _, turn := range w.Turns {
		for _, neutral := range turn.Tools {
			if len(names[neutral]) > 0 {
				want = append(want, group[names[neutral][0]])
			}
		}
	}
	for _, e := range entries {
		for _, b := range e.Blocks {
			if g := group[b.Name]; b.Type == tidemark.BlockToolUse && g != "" {
				called = append(called, g)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(called)
	if !slices.Equal(want, called) {
		t.Errorf("%s (%s): tools %v, want %v", w.Label, s.ForeignID, called, want)
	}
}

// checkResults tells a call or a result that is there twice, and a result
// that answers nothing.
func checkResults(t *testing.T, what string, entries []convert.Entry) {
	t.Helper()
	calls, results := map[string]int{}, map[string]int{}
	for _, e := range entries {
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockToolUse:
				calls[b.ID]++
			case tidemark.BlockToolResult:
				results[b.ToolUseID]++
			}
		}
	}
	for id, n := range calls {
		if n > 1 {
			t.Errorf("%s: call %s is there %d times", what, id, n)
		}
	}
	for id, n := range results {
		if n > 1 || calls[id] == 0 {
			t.Errorf("%s: %d results of call %s, which is there %d times", what, n, id, calls[id])
		}
	}
}

func count(texts []string) map[string]int {
	n := map[string]int{}
	for _, text := range texts {
		n[strings.TrimSpace(text)]++
	}
	return n
}

// Dump is everything that was taken, as text to compare.
func (got Taken) Dump(t testing.TB) string {
	t.Helper()
	type session struct {
		convert.Session
		Entries []convert.Entry
		Workers []Worker
	}
	var all []session
	for _, s := range got.Sessions {
		all = append(all, session{*s.Session, s.Entries, s.Workers})
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
