package converttest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Check imports the sample twice and compares: each expected session is there
// once, and no other except those in Unnoted; every prompt, fixed reply and tool
// call is there as often as it occurred, no other text passes for the user's,
// forks name their source, projects and titles are right, and the second import
// is equal to the first.
//
// names maps each neutral tool (read, edit, write, bash, todo, task, wait) to
// the tool's own tools. nil means that the tool lacks it, and it is not counted;
// a missing key is an error.
func (s Sample) Check(t *testing.T, tool convert.Tool, names map[string][]string) Taken {
	t.Helper()
	if !tool.Detect(t.Context(), s.Source) {
		t.Errorf("%s does not detect its own store", tool.Name)
	}
	got := Read(t, tool, s.Source)
	for _, skip := range got.Skips {
		t.Errorf("skipped: %s", skip)
	}
	if got.Dump(t) != Read(t, tool, s.Source).Dump(t) {
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
			one = got.unnamed(w.Project, w.prompts(s.Want), claimed)
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
		switch _, listed := s.Unnoted[one.ForeignID]; {
		case !claimed[one.ForeignID] && !listed:
			t.Errorf("session %s (%q) came in, but its doing was not noted", one.ForeignID, one.Title)
		case claimed[one.ForeignID] && listed:
			t.Errorf("session %s was noted, and is in Unnoted as well", one.ForeignID)
		}
	}
	for id := range s.Unnoted {
		if got.Find(id) == nil {
			t.Errorf("session %s did not come in", id)
		}
	}
	return got
}

// unnamed finds a session that was killed before it printed its id.
func (got Taken) unnamed(project string, prompts []string, claimed map[string]bool) *Session {
	for i, s := range got.Sessions {
		if !claimed[s.ForeignID] && s.Project == project && len(prompts) > 0 &&
			slices.Contains(Texts(s.Entries, tidemark.User), prompts[0]) {
			return &got.Sessions[i]
		}
	}
	return nil
}

// refused reports whether a session without an id had no turn that was begun.
func (w Want) refused() bool {
	for _, turn := range w.Turns {
		if turn.Exit != 1 {
			return false
		}
	}
	return w.Session == ""
}

// prompts are all prompts that were given. A fork with nothing else in it is
// where its source was.
func (w Want) prompts(all []Want) []string {
	texts := slices.Concat(w.Inherited, w.Live, w.Abandoned)
	for _, turn := range w.Turns {
		texts = append(texts, turn.Prompt)
	}
	for _, other := range all {
		if len(texts) == 0 && w.Source != "" && other.Session == w.Source {
			texts = slices.Clone(other.Live)
		}
	}
	return slices.DeleteFunc(texts, func(p string) bool {
		return slices.Contains(w.NotOnDisk, p) || strings.HasPrefix(p, summary)
	})
}

// summary precedes a prompt of which only a summary is left. A tool may keep the
// prompt itself as well.
const summary = "(summary of: "

func (w Want) summed(text string) bool {
	return slices.Contains(w.Live, summary+text+")")
}

// turns are the session's own, and those that it inherited.
func (w Want) turns(all []Want) (turns []Turn) {
	for _, other := range all {
		for _, turn := range other.Turns {
			own := other.Session == w.Session && other.Label == w.Label
			inherited := w.Source != "" && other.Session == w.Source && slices.Contains(w.Inherited, turn.Prompt)
			if own || inherited {
				turns = append(turns, turn)
			}
		}
	}
	return turns
}

// replies are the fixed replies of turns that ended well.
func (w Want) replies(all []Want) (texts []string) {
	for _, turn := range w.turns(all) {
		if turn.Exit == 0 && turn.Reply != "" && !slices.Contains(w.NotOnDisk, turn.Prompt) {
			texts = append(texts, strings.TrimSpace(turn.Reply))
		}
	}
	return texts
}

func (w Want) check(t *testing.T, got Taken, s *Session, all []Want, names map[string][]string) {
	t.Helper()
	entries := got.Whole(s)
	said, want := count(Texts(entries, tidemark.User)), count(w.prompts(all))
	for text, n := range want {
		if said[text] != n {
			t.Errorf("%s (%s): prompt %.60q is there %d times, want %d", w.Label, s.ForeignID, text, said[text], n)
		}
	}
	for text := range said {
		command := w.Interactive && strings.HasPrefix(text, "/")
		if want[text] == 0 && !command && !(w.summed(text) && said[text] == 1) {
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
	if !w.Interactive { // what was done there is described in words only
		w.checkTools(t, s, entries, all, names)
	}
	checkResults(t, s.ForeignID, entries)
	for _, worker := range s.Workers {
		checkResults(t, s.ForeignID+" worker "+worker.Name, worker.Entries)
	}
}

// checkTools counts calls. Two neutral tools that are the same tool here are
// counted together. A killed turn may have died before it recorded its calls.
func (w Want) checkTools(t *testing.T, s *Session, entries []convert.Entry, all []Want, names map[string][]string) {
	t.Helper()
	group := map[string]string{}
	for _, neutral := range names {
		for _, name := range neutral {
			group[name] = neutral[0]
		}
	}
	want, lost := map[string]int{}, map[string]int{}
	for _, turn := range w.turns(all) {
		for _, neutral := range turn.Tools {
			own, known := names[neutral]
			if !known {
				t.Errorf("%s: the tool %s has no name here", w.Label, neutral)
			}
			if len(own) > 0 {
				want[group[own[0]]]++
			}
			if len(own) > 0 && turn.Exit != 0 {
				lost[group[own[0]]]++
			}
		}
	}
	called := map[string]int{}
	for _, e := range entries {
		for _, b := range e.Blocks {
			if g := group[b.Name]; b.Type == tidemark.BlockToolUse && g != "" {
				called[g]++
			}
		}
	}
	for _, g := range group {
		if called[g] > want[g] || called[g] < want[g]-lost[g] {
			t.Errorf("%s (%s): %s is called %d times, want %d", w.Label, s.ForeignID, g, called[g], want[g])
		}
	}
}

// checkResults reports duplicate calls and results, and results without a call.
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

// Dump is everything that was imported, as text to compare.
func (got Taken) Dump(t testing.TB) string {
	t.Helper()
	type session struct {
		convert.Session
		Entries []convert.Entry
		Workers []Worker
	}
	var all []session
	for _, s := range got.Sessions {
		one := session{*s.Session, s.Entries, s.Workers}
		one.Units = nil // where it was read
		all = append(all, one)
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
