package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// toolHome is the home of a tool that goes on with what it is given.
type toolHome struct {
	tool, dir string
	said      int
}

func newToolHome(t *testing.T, tool string) *toolHome {
	return &toolHome{tool: tool, dir: filepath.Join(t.TempDir(), map[string]string{"claude-code": ".claude", "codex": ".codex"}[tool])}
}

// file is the transcript of a session, "" if there is none, or if it is in several
// files: one for each branch, as Codex keeps them.
func (h *toolHome) file(t *testing.T, foreign string) (found string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(h.dir, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if base := filepath.Base(file); err == nil && d.Type().IsRegular() && strings.Contains(base, foreign) && filepath.Ext(base) == ".jsonl" {
			found = file
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files > 1 {
		return ""
	}
	return found
}

// goOn has the tool answer a prompt in a session, and returns what was said.
func (h *toolHome) goOn(t *testing.T, foreign string) []string {
	t.Helper()
	h.said++
	file := h.file(t, foreign)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prompt, answer := fmt.Sprintf("prompt %d in %s", h.said, h.tool), fmt.Sprintf("answer %d of %s", h.said, h.tool)
	at := time.Now().UTC().Add(time.Hour * time.Duration(h.said)).Format("2006-01-02T15:04:05.000Z")
	var more string
	if h.tool == "claude-code" {
		leaf := ""
		for line := range strings.Lines(string(data)) {
			var r struct {
				UUID, LeafUUID string
				Type           string
			}
			if json.Unmarshal([]byte(line), &r) == nil && r.UUID != "" {
				leaf = r.UUID
			} else if r.Type == "last-prompt" && r.LeafUUID != "" {
				leaf = r.LeafUUID
			}
		}
		one, two := string(tidemark.NewSessionID()), string(tidemark.NewSessionID())
		record := func(uuid, parent, rest string) string {
			up := `"` + parent + `"`
			if parent == "" {
				up = "null"
			}
			return fmt.Sprintf(`{"uuid":%q,"parentUuid":%s,"sessionId":%q,"timestamp":%q,"cwd":"/w","version":"2.1.325","isSidechain":false,%s}`+"\n", uuid, up, foreign, at, rest)
		}
		more = record(one, leaf, fmt.Sprintf(`"type":"user","message":{"role":"user","content":%q}`, prompt)) +
			record(two, one, fmt.Sprintf(`"type":"assistant","message":{"id":"msg_%d","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":%q}],"usage":{"input_tokens":1,"output_tokens":1}}`, h.said, answer)) +
			fmt.Sprintf(`{"type":"last-prompt","lastPrompt":%q,"leafUuid":%q,"sessionId":%q}`+"\n", prompt, two, foreign)
	} else {
		line := func(kind, payload string) string {
			return fmt.Sprintf(`{"timestamp":%q,"type":%q,"payload":%s}`+"\n", at, kind, payload)
		}
		more = line("event_msg", `{"type":"task_started"}`) +
			line("response_item", fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`, prompt)) +
			line("event_msg", fmt.Sprintf(`{"type":"user_message","message":%q}`, prompt)) +
			line("event_msg", fmt.Sprintf(`{"type":"agent_message","message":%q}`, answer)) +
			line("response_item", fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`, answer)) +
			line("event_msg", fmt.Sprintf(`{"type":"task_complete","last_agent_message":%q}`, answer))
	}
	if err := os.WriteFile(file, append(data, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"user " + prompt, "assistant " + answer}
}

// give hands a session over.
func (h *toolHome) give(ctx context.Context, s *store.Store, id tidemark.SessionID) (Handed, error) {
	v, err := s.View(ctx, id)
	if err != nil {
		return Handed{}, err
	}
	return h.giveAt(ctx, s, store.Point{View: v})
}

func (h *toolHome) giveAt(ctx context.Context, s *store.Store, p store.Point) (Handed, error) {
	tool, err := ToolNamed(h.tool)
	if err != nil {
		return Handed{}, err
	}
	out, err := OpenFolder(h.dir, nil)
	if err != nil {
		return Handed{}, err
	}
	defer out.Close()
	e := &ToolExport{Store: s, Tool: tool, Folder: out, HandOver: IsHome(ctx, tool, h.dir), Holder: store.Self("test")}
	if err := e.Session(ctx, p); err != nil {
		return Handed{}, err
	}
	return e.Handed[0], nil
}

// back imports the home.
func (h *toolHome) back(t *testing.T, s *store.Store) *Importer {
	t.Helper()
	i := &Importer{Opened: open.Around(s), Holder: store.Self("import"), Tool: h.tool}
	if err := i.Paths(t.Context(), h.dir); err != nil {
		t.Fatal(err)
	}
	return i
}

// branchOf is what was said on the branch that a session is on.
func branchOf(t *testing.T, s *store.Store, id tidemark.SessionID) (all []string) {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err == nil {
		v, err = v.WithDraft(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range v.Path(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(e.Role)+" "+e.Text()))
	}
	return all
}

func sessionsOf(t *testing.T, s *store.Store) (ids []tidemark.SessionID) {
	t.Helper()
	for i, err := range s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

func newTalk(t *testing.T, s *store.Store, texts ...string) tidemark.SessionID {
	t.Helper()
	w := s.Create(tidemark.Session{Title: "tea"}, store.Self("test"))
	for i, text := range texts {
		role := tidemark.User
		if i%2 == 1 {
			role = tidemark.Assistant
		}
		if _, err := w.Append(t.Context(), tidemark.Say(role, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

func TestASessionThatGoesThroughTwoToolsStaysOneWithOnlyWhatIsNew(t *testing.T) {
	s := store.New(memory.New(), nil)
	id := newTalk(t, s, "which tea?", "green", "how warm?", "80 degrees")
	want := branchOf(t, s, id)
	claude, codex := newToolHome(t, "claude-code"), newToolHome(t, "codex")
	for round, h := range []*toolHome{claude, codex, claude, codex} {
		handed, err := h.give(t.Context(), s, id)
		if err != nil || handed.Before {
			t.Fatalf("round %d: %+v, %v", round, handed, err)
		}
		if d := cmp.Diff(want, branchOf(t, s, id)); d != "" {
			t.Fatalf("round %d, given: %s", round, d)
		}
		for range 2 {
			want = append(want, h.goOn(t, handed.ForeignID)...)
			h.back(t, s)
			if d := cmp.Diff(want, branchOf(t, s, id)); d != "" {
				t.Fatalf("round %d: %s", round, d)
			}
		}
		claude.back(t, s)
		for _, r := range h.back(t, s).Results {
			if r.Entries != 0 {
				t.Errorf("round %d: %+v came again", round, r)
			}
		}
	}
	if d := cmp.Diff([]tidemark.SessionID{id}, sessionsOf(t, s)); d != "" {
		t.Error(d)
	}
	v, err := s.View(t.Context(), id)
	if err != nil || v.Tool != "" || v.Title != "tea" {
		t.Errorf("the session became %+v, %v", v.Session, err)
	}
	for e, err := range v.Log(t.Context()) {
		if err != nil || e.Kind == tidemark.KindBranch || e.Parent != e.Seq-1 {
			t.Errorf("entry %d is a %s that follows %d: %v", e.Seq, e.Kind, e.Parent, err)
		}
	}
}

func TestWhatToolsMadeOfTheirSamplesComesBackAsTheSameSessions(t *testing.T) {
	for tool, samples := range growing {
		if tool != "claude-code" && tool != "codex" {
			continue
		}
		if testing.Short() {
			samples = samples[:1]
		}
		for _, sample := range samples {
			t.Run(strings.ReplaceAll(sample, "/", " "), func(t *testing.T) {
				s := store.New(memory.New(), nil)
				from := &toolHome{tool: tool, dir: "../convert/testdata/" + sample}
				from.back(t, s)
				all := sessionsOf(t, s)
				homes, went := []*toolHome{newToolHome(t, "claude-code"), newToolHome(t, "codex")}, 0
				for _, h := range homes {
					want := make(map[tidemark.SessionID][]string)
					handed := make(map[tidemark.SessionID]string)
					for _, id := range all {
						given, err := h.give(t.Context(), s, id)
						if err != nil {
							t.Fatalf("%s: %v", id, err)
						}
						want[id], handed[id] = branchOf(t, s, id), given.ForeignID
					}
					h.back(t, s)
					for _, id := range all {
						if d := cmp.Diff(want[id], branchOf(t, s, id)); d != "" {
							t.Errorf("%s came back from %s: %s", id, h.tool, d)
						}
					}
					for _, id := range all {
						if h.file(t, handed[id]) != "" {
							want[id] = append(want[id], h.goOn(t, handed[id])...)
							went++
						}
					}
					h.back(t, s)
					for _, id := range all {
						if d := cmp.Diff(want[id], branchOf(t, s, id)); d != "" {
							t.Errorf("%s went on in %s: %s", id, h.tool, d)
						}
					}
				}
				if d := cmp.Diff(all, sessionsOf(t, s)); d != "" || went < len(all) {
					t.Errorf("%d of %d sessions went on: %s", went, len(all), d)
				}
			})
		}
	}
}

func TestWhatAToolAddsToASessionThatWentOnHereIsABranchNamedAfterIt(t *testing.T) {
	s := store.New(memory.New(), nil)
	id := newTalk(t, s, "which tea?", "green")
	h := newToolHome(t, "claude-code")
	handed, err := h.give(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	before := branchOf(t, s, id)
	w, err := s.Attach(t.Context(), id, store.Self("test"))
	if err == nil {
		_, err = w.Append(t.Context(), tidemark.Say(tidemark.User, "said here"))
	}
	if err == nil {
		err = w.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	here, there := append(slices.Clone(before), "user said here"), slices.Clone(before)
	for range 2 {
		there = append(there, h.goOn(t, handed.ForeignID)...)
		h.back(t, s)
		if d := cmp.Diff(here, branchOf(t, s, id)); d != "" {
			t.Fatalf("where it is: %s", d)
		}
		p, err := s.Resolve(t.Context(), string(id)+"@claude-code", "")
		if err != nil {
			t.Fatal(err)
		}
		var branch []string
		for e := range p.Path(t.Context(), p.Seq) {
			branch = append(branch, string(e.Role)+" "+e.Text())
		}
		if d := cmp.Diff(there, branch); d != "" {
			t.Fatalf("the branch: %s", d)
		}
	}
}

// cutOff is a Backend whose user is killed when a Handover was kept.
type cutOff struct {
	tidemark.Backend
	kill func()
}

func (c *cutOff) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	r, err := c.Backend.Commit(ctx, b)
	if slices.ContainsFunc(b.Puts, func(r tidemark.Record) bool { return r.Kind == "handover" }) {
		c.kill()
	}
	return r, err
}

func TestAHandoverThatIsKilledBeforeItsFileAppearsDoublesNothing(t *testing.T) {
	backend := memory.New()
	ctx, cancel := context.WithCancel(t.Context())
	s, dying := store.New(backend, nil), store.New(&cutOff{backend, cancel}, nil)
	id := newTalk(t, s, "which tea?", "green")
	h := newToolHome(t, "codex")
	if _, err := h.give(ctx, dying, id); err == nil {
		t.Fatal("it went on")
	}
	n := 0
	var was string
	for handed, err := range s.Handovers(t.Context(), id) {
		if err != nil || handed.Len() == 0 {
			t.Fatalf("%+v, %v", handed, err)
		}
		n, was = n+1, handed.ForeignID
	}
	if n != 1 || h.file(t, was) != "" {
		t.Fatalf("%d handovers; the file is %q", n, h.file(t, was))
	}
	handed, err := h.give(t.Context(), s, id)
	if err != nil || handed.ForeignID != was || handed.Before {
		t.Fatalf("again: %+v, %v; want %s", handed, err, was)
	}
	if again, err := h.give(t.Context(), s, id); err != nil || !again.Before || again.ForeignID != was {
		t.Errorf("and again: %+v, %v", again, err)
	}
	want := append(branchOf(t, s, id), h.goOn(t, was)...)
	h.back(t, s)
	if d := cmp.Diff(want, branchOf(t, s, id)); d != "" || len(sessionsOf(t, s)) != 1 {
		t.Errorf("%d sessions: %s", len(sessionsOf(t, s)), d)
	}
}

func TestALiveSessionOfAToolIsNeverReplaced(t *testing.T) {
	for tool, sample := range map[string]string{"claude-code": "claude-code/2.1.197/.claude", "codex": "codex/0.98.0/.codex"} {
		t.Run(tool, func(t *testing.T) {
			h := newToolHome(t, tool)
			if err := os.CopyFS(h.dir, os.DirFS("../convert/testdata/"+sample)); err != nil {
				t.Fatal(err)
			}
			read := func() map[string]string {
				all := make(map[string]string)
				err := filepath.WalkDir(h.dir, func(file string, d fs.DirEntry, err error) error {
					if err != nil || !d.Type().IsRegular() {
						return err
					}
					data, err := os.ReadFile(file)
					all[file] = string(data)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			s := store.New(memory.New(), nil)
			h.back(t, s)
			before, sessions := read(), sessionsOf(t, s)
			for _, id := range sessions {
				handed, err := h.give(t.Context(), s, id)
				if v, _ := s.View(t.Context(), id); err != nil || handed.ForeignID == v.ForeignID {
					t.Errorf("%s was given as %+v: %v", id, handed, err)
				}
			}
			after := read()
			for file, data := range before {
				if after[file] != data {
					t.Errorf("%s was changed", file)
				}
			}
			h.back(t, s)
			if d := cmp.Diff(sessions, sessionsOf(t, s)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestASessionThatIsOpenHereWaitsAndIsCounted(t *testing.T) {
	h := homeOf(t, "claude-code")
	first := h.read(t, false)
	id := first.Results[0].Session
	w, err := h.s.Attach(t.Context(), id, tidemark.Holder{Program: "chat", Host: "elsewhere", PID: 7})
	if err == nil {
		_, err = w.Append(t.Context(), tidemark.Say(tidemark.User, "said here"))
	}
	if err != nil {
		t.Fatal(err)
	}
	from := &toolHome{tool: "claude-code", dir: h.dir}
	v, err := h.s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	from.goOn(t, v.ForeignID)
	h.touch(t, from.file(t, v.ForeignID))
	for range 2 {
		i := h.read(t, false)
		if i.Waiting != 1 || i.Skipped != 0 {
			t.Fatalf("%d wait, %d were skipped: %+v", i.Waiting, i.Skipped, i.Results)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := h.read(t, false)
	if i.Waiting != 0 || len(i.Results) != 1 || i.Results[0].Session != id || i.Results[0].Entries == 0 {
		t.Errorf("then: %d wait, %+v", i.Waiting, i.Results)
	}
	if all := branchOf(t, h.s, id); all[len(all)-1] != "user said here" {
		t.Errorf("the tool moved the session to %q", all[len(all)-1])
	}
}

func TestAnotherToolIsNotToldWhatOneToldItsModel(t *testing.T) {
	s := store.New(memory.New(), nil)
	from := &toolHome{tool: "claude-code", dir: "../convert/testdata/claude-code/2.1.325"}
	from.back(t, s)
	other, own, context := newToolHome(t, "codex"), newToolHome(t, "claude-code"), 0
	for _, id := range sessionsOf(t, s) {
		v, err := s.View(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []*toolHome{other, own} {
			if _, err := h.give(t.Context(), s, id); err != nil {
				t.Fatal(err)
			}
		}
		for e := range v.Log(t.Context()) {
			if e.Context() {
				context++
			}
		}
	}
	count := func(h *toolHome) (n int) {
		there := store.New(memory.New(), nil)
		h.back(t, there)
		for _, id := range sessionsOf(t, there) {
			v, err := there.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for e := range v.Log(t.Context()) {
				if e.Context() {
					n++
				}
			}
		}
		return n
	}
	if got := count(other); context == 0 || got != 0 {
		t.Errorf("of %d texts for the model, %d went to another tool", context, got)
	}
	if got := count(own); got == 0 {
		t.Error("its own texts did not go back to it")
	}
}
