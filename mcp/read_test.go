package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// next is the call that an answer says goes on with it.
func next(t *testing.T, text string) map[string]any {
	t.Helper()
	m := regexp.MustCompile(`read_session (\{.*?\})`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%q names no call", text)
	}
	var args map[string]any
	if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
		t.Fatalf("%s: %v", m[1], err)
	}
	return args
}

func seqs(out readOut) (all []int64) {
	for _, e := range out.Entries {
		all = append(all, e.Seq)
	}
	return all
}

func TestALongEntryIsReadInPartsWithoutALoss(t *testing.T) {
	h := newHouse(t)
	long := strings.TrimSpace(strings.Repeat("Lüftung – ventilation 通風 ", 12_000))
	h.say("Long", "short", long, "short again")
	c := h.connect("stream", "")
	out, text := call[readOut](h, c, "read_session", map[string]any{"session": "last@2"})
	if len(text) > usualBytes+4096 || !strings.Contains(text, "[cut: ") {
		t.Errorf("%d bytes of text, want at most some %d and the word cut", len(text), usualBytes)
	}
	if got := seqs(out); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("entries %v", got)
	}
	got, e := "", out.Entries[1]
	for {
		if !utf8.ValidString(e.Text) {
			t.Fatal("a character was cut in two")
		}
		if got += e.Text; e.Cut == "" {
			break
		}
		out, _ = call[readOut](h, c, "read_session", next(t, e.Cut))
		if len(out.Entries) != 1 || len(out.Entries[0].Text) == 0 {
			t.Fatalf("going on with %s shows %v", e.Cut, seqs(out))
		}
		e = out.Entries[0]
	}
	if got != long {
		t.Errorf("read %d bytes of %d, or others", len(got), len(long))
	}
}

func TestReadingGoesOnBothWaysUntilTheEnds(t *testing.T) {
	h := newHouse(t)
	var texts []string
	var want []int64
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("%d %s", i, strings.Repeat("words ", 100)))
		want = append(want, int64(i+1))
	}
	h.say("Long", texts...)
	c := h.connect("http", "")
	out, _ := call[readOut](h, c, "read_session", map[string]any{"session": "last@100", "n": 50, "max_bytes": 8 << 10})
	got := seqs(out)
	for page := out; page.Earlier != ""; {
		page, _ = call[readOut](h, c, "read_session", next(t, page.Earlier))
		got = append(seqs(page), got...)
	}
	for page := out; page.Later != ""; {
		page, _ = call[readOut](h, c, "read_session", next(t, page.Later))
		got = append(got, seqs(page)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAnEntryTheNewestAreShown(t *testing.T) {
	h := newHouse(t)
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = fmt.Sprint("entry ", i+1)
	}
	h.say("Long", texts...)
	c := h.connect("stream", "")
	out, _ := call[readOut](h, c, "read_session", map[string]any{"session": "last"})
	if got := seqs(out); got[len(got)-1] != 40 || len(got) != usualAside+1 || out.Later != "" {
		t.Errorf("entries %v, later %q", got, out.Later)
	}
	for where, want := range map[string][]int64{"only": {20}, "before": {18, 19, 20}, "after": {20, 21, 22}, "around": {18, 19, 20, 21, 22}} {
		out, _ = call[readOut](h, c, "read_session", map[string]any{"session": "last", "entry": 20, "where": where, "n": 2})
		if got := seqs(out); !slices.Equal(got, want) {
			t.Errorf("%s: entries %v, want %v", where, got, want)
		}
	}
}

func TestABranchIsReadAsItWent(t *testing.T) {
	h := newHouse(t)
	id := h.say("Two ways", "one", "two", "three", "four")
	w, err := h.s.Attach(t.Context(), id, tidemark.Holder{Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	other := tidemark.Say(tidemark.User, "another three")
	other.Parent = 2
	if _, err := w.Append(t.Context(), other, tidemark.Say(tidemark.Assistant, "another four")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := h.connect("stream", "")
	for entry, want := range map[int][]int64{1: {1, 2, 5, 6}, 3: {1, 2, 3, 4}, 5: {1, 2, 5, 6}} {
		out, _ := call[readOut](h, c, "read_session", map[string]any{"session": "last", "entry": entry})
		if got := seqs(out); !slices.Equal(got, want) {
			t.Errorf("around %d: entries %v, want %v", entry, got, want)
		}
	}
	// Far from the head it is what followed first.
	w, err = h.s.Attach(t.Context(), id, tidemark.Holder{Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for range nearHead {
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "on and on")); err != nil {
			t.Fatal(err)
		}
	}
	for entry, want := range map[int][]int64{1: {1, 2, 3, 4}, 5: {1, 2, 5, 6, 7, 8, 9, 10}} {
		out, _ := call[readOut](h, c, "read_session", map[string]any{"session": "last", "entry": entry})
		if got := seqs(out); !slices.Equal(got, want) {
			t.Errorf("around %d, far from the head: entries %v, want %v", entry, got, want)
		}
	}
}

func TestAWorkerIsFoundAndReadInItsOwnLog(t *testing.T) {
	h := newHouse(t)
	w := h.s.Create(tidemark.Session{Title: "With a helper", Project: here}, tidemark.Holder{Program: "test"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "look around")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.AppendTo(t.Context(), "scout", tidemark.Say(tidemark.User, "go"), tidemark.Say(tidemark.Assistant, "the lighthouse is dark")); err != nil {
		t.Fatal(err)
	}
	c := h.connect("http", "")
	found, text := call[searchOut](h, c, "search_sessions", map[string]any{"query": "lighthouse"})
	if len(found.Hits) != 1 || found.Hits[0].Worker != "scout" || !strings.Contains(text, "worker scout entry 2") {
		t.Fatalf("found %+v\n%s", found, text)
	}
	hit := found.Hits[0]
	out, text := call[readOut](h, c, "read_session", map[string]any{"session": hit.Ref, "worker": hit.Worker, "entry": hit.Seq})
	if got := seqs(out); !slices.Equal(got, []int64{1, 2}) || !strings.Contains(text, "worker scout") {
		t.Errorf("entries %v\n%s", got, text)
	}
	if out, _ = call[readOut](h, c, "read_session", map[string]any{"session": "last"}); out.OpenIn == "" {
		t.Error("nothing says that the session is open")
	}
}

// FuzzRead asks for anything anywhere: whatever is asked, the answer stays
// within its bounds and is made of whole characters.
func FuzzRead(f *testing.F) {
	f.Add("last", int64(0), "", "", 0, 0, 0)
	f.Add("last@2", int64(2), "only", "scout", 3, 7, 1024)
	f.Add("@-1~1", int64(-5), "after", "../x", -1, -9, -1)
	f.Add("Long", int64(1)<<62, "around", "", 1<<30, 1<<30, 1<<30)
	h := newHouse(f)
	w := h.s.Create(tidemark.Session{Title: "Long", Project: here}, tidemark.Holder{Program: "test"})
	if _, err := w.Append(f.Context(), tidemark.Say(tidemark.User, "short"), tidemark.Say(tidemark.Assistant, strings.Repeat("\x1b通", 90_000)), tidemark.Say(tidemark.User, "end")); err != nil {
		f.Fatal(err)
	}
	r := &room{h.o}
	f.Fuzz(func(t *testing.T, ref string, entry int64, where, worker string, n, offset, most int) {
		out, err := r.read(t.Context(), nil, readIn{Session: ref, Entry: entry, Where: where, Worker: worker, N: n, Offset: offset, MaxBytes: most})
		if err != nil {
			if text := r.tell(t.Context(), err).Error(); strings.ContainsRune(text, '\x1b') || len(text) > 8<<10 {
				t.Errorf("the error of %d bytes: %.200q", len(text), text)
			}
			return
		}
		size := 0
		for _, e := range out.Entries {
			if size += len(e.Text); !utf8.ValidString(e.Text) || strings.ContainsRune(e.Text, '\x1b') {
				t.Errorf("entry %d: %.100q", e.Seq, e.Text)
			}
		}
		if size > max(minBytes, min(max(most, 0), maxBytes)) && (most != 0 || size > usualBytes) {
			t.Errorf("%d bytes, and %d were asked for", size, most)
		}
	})
}

func FuzzMarksLeadWhereTheyWereMade(f *testing.F) {
	f.Add("7f3a0000-0000-4000-8000-000000000000:1763219362000000000")
	f.Add(":")
	f.Add("7f3a0000-0000-4000-8000-000000000000:-1")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := parseMark(text)
		if err != nil {
			return
		}
		again, err := parseMark(mark(*i))
		if err != nil || again.ID != i.ID || !again.UpdatedAt.Equal(i.UpdatedAt) {
			t.Errorf("%q is %v, and that is %v, %v", text, i, again, err)
		}
	})
}

func TestMemoryIsWrittenFoundReplacedAndRemoved(t *testing.T) {
	h := newHouse(t)
	var wrote []string
	h.o.Write = true
	h.o.Wrote = func(_ context.Context, tool, thing string, err error) {
		wrote = append(wrote, fmt.Sprint(tool, " ", err == nil))
	}
	h.say("Lamp", "dark")
	c := h.connect("stream", "")
	first, _ := call[writeMemoryOut](h, c, "write_memory", map[string]any{"text": "Lamps come from Oslo.", "session": "last"})
	again, text := call[writeMemoryOut](h, c, "write_memory", map[string]any{"text": "lamps come from oslo."})
	if !again.Known || again.Memory.ID != first.Memory.ID || !strings.Contains(text, "known already") {
		t.Errorf("the same again: %+v", again)
	}
	elsewhere, _ := call[writeMemoryOut](h, c, "write_memory", map[string]any{"text": "Boats leave at six.", "project": "/harbour"})
	listed, _ := call[listMemoryOut](h, c, "list_memory", nil)
	if len(listed.Memories) != 1 || listed.Memories[0].Project != here || listed.Memories[0].Session == "" {
		t.Errorf("listed %+v", listed)
	}
	if all, _ := call[listMemoryOut](h, c, "list_memory", map[string]any{"everywhere": true, "query": "boats"}); len(all.Memories) != 1 || all.Memories[0].ID != elsewhere.Memory.ID {
		t.Errorf("found %+v", all)
	}
	read, _ := call[learned](h, c, "read_memory", map[string]any{"id": first.Memory.ID[:5]})
	changed, _ := call[writeMemoryOut](h, c, "write_memory", map[string]any{"id": read.ID, "version": read.Version, "text": "Lamps come from Bergen."})
	if m := changed.Memory; m.Version != read.Version+1 || m.Text != "Lamps come from Bergen." || m.Project != here || m.Session != read.Session {
		t.Errorf("changed to %+v", changed)
	}
	for _, args := range []map[string]any{
		{"id": read.ID, "version": read.Version, "text": "late"},
		{"id": "none", "text": "x"},
		{"text": " "},
		{"text": strings.Repeat("x", maxMemoryBytes+1)},
	} {
		h.refused(c, "write_memory", args)
	}
	h.refused(c, "remove_memory", map[string]any{"id": read.ID, "version": read.Version})
	call[removeMemoryOut](h, c, "remove_memory", map[string]any{"id": read.ID})
	h.refused(c, "remove_memory", map[string]any{"id": read.ID})
	h.refused(c, "read_memory", map[string]any{"id": read.ID})
	want := []string{"write_memory true", "write_memory true", "write_memory true", "write_memory true", "write_memory false", "write_memory false", "write_memory false",
		"write_memory false", "remove_memory false", "remove_memory true", "remove_memory false"}
	if diff := cmp.Diff(want, wrote); diff != "" {
		t.Errorf("told of\n%s", diff)
	}
}

func TestASessionIsHandedOverToWhoeverComesNext(t *testing.T) {
	h := newHouse(t)
	h.o.Write = true
	w := h.s.Create(tidemark.Session{Title: "Lamp", Project: here}, tidemark.Holder{Program: "tidemark chat"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "dark")); err != nil {
		t.Fatal(err)
	}
	asked := make(chan store.HandoverRequest, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go w.KeepAlive(ctx, func(a store.HandoverRequest) { asked <- a })
	c := h.connect("stream", "")
	out, text := call[handOverOut](h, c, "hand_over", map[string]any{"session": "last@1", "note": "The lamp is ordered.", "to": "Jo", "keep_open": true})
	if out.Asked != "" {
		t.Errorf("kept open, and asked %s", out.Asked)
	}
	for out.Asked == "" || len(asked) == 0 { // whoever holds it looks now and then, and may not have begun
		out, text = call[handOverOut](h, c, "hand_over", map[string]any{"session": "last@1", "note": "The lamp is ordered.", "to": "Jo"})
	}
	if a := <-asked; a.From.Program != "tidemark mcp" || !strings.Contains(text, "asked to let it go") {
		t.Errorf("asked by %v\n%s", a.From, text)
	}
	told, _ := call[listMemoryOut](h, c, "list_memory", nil)
	if len(told.Memories) != 1 || told.Memories[0].ID != out.Memory || told.Memories[0].Session != string(w.ID()) {
		t.Fatalf("told %+v", told)
	}
	for _, want := range []string{string(w.ID()) + "@1 (Lamp)", "to Jo by test client", "The lamp is ordered.", "tidemark chat --resume " + string(w.ID())} {
		if !strings.Contains(told.Memories[0].Text, want) {
			t.Errorf("%q is not in\n%s", want, told.Memories[0].Text)
		}
	}
	for _, args := range []map[string]any{{"session": "last", "note": " "}, {"session": "last", "note": strings.Repeat("x", maxMemoryBytes+1)}, {"session": "none", "note": "x"},
		{"session": "last", "note": "x", "to": "jo", "agent": "helper"}, {"session": "last", "note": "x", "agent": "nobody"},
		{"session": "last", "note": "x", "in": "; rm -rf ~"}, {"session": "last", "note": "x", "in": "codex", "agent": "helper"}} {
		h.refused(c, "hand_over", args)
	}
	if out, _ := call[handOverOut](h, c, "hand_over", map[string]any{"session": "last", "note": "x", "in": "codex", "keep_open": true}); out.Resume != "tidemark resume "+string(w.ID())+" --in codex" {
		t.Errorf("it goes on with %q", out.Resume)
	}
}

func TestASessionIsHandedOverToAnAgentOfTheFleet(t *testing.T) {
	h := newHouse(t)
	h.o.Write = true
	keepers := fleet.Over(newHouse(t).s)
	h.o.Fleet = func(context.Context) (*fleet.Store, error) { return keepers, nil }
	h.say("Lamp", "dark")
	if _, err := keepers.PutAgent(t.Context(), tidemark.Agent{Name: "keeper"}); err != nil {
		t.Fatal(err)
	}
	c := h.connect("http", "")
	if said := h.refused(c, "hand_over", map[string]any{"session": "last", "note": "x", "agent": "keeper"}); !strings.Contains(said, "no schedule of type chat") {
		t.Error(said)
	}
	if _, err := keepers.PutSchedule(t.Context(), tidemark.Schedule{Agent: "keeper", Name: "inbox", Type: "chat", Prompt: "You keep lamps."}); err != nil {
		t.Fatal(err)
	}
	out, text := call[handOverOut](h, c, "hand_over", map[string]any{"session": "last", "note": "Order a lamp.", "agent": "keeper"})
	job, err := keepers.Job(t.Context(), out.Job)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"You keep lamps.", out.Session, "to keeper by test client", "Order a lamp."} {
		if !strings.Contains(job.Prompt, want) {
			t.Errorf("%q is not in\n%s", want, job.Prompt)
		}
	}
	if out.Memory != "" || !strings.Contains(text, "job "+out.Job) {
		t.Errorf("%+v\n%s", out, text)
	}
}

func TestAPromptPutsTheEndOfASessionBeforeAModel(t *testing.T) {
	h := newHouse(t)
	id := h.say("Lamp", "Why is it dark?", "The lamp is broken.")
	h.say("Other", "hello")
	c := h.connect("stream", "")
	for _, ref := range []string{"Lamp", string(id)} {
		got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "resume_session", Arguments: map[string]string{"session": ref}})
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Messages[0].Content.(*sdk.TextContent).Text; !strings.Contains(text, "The lamp is broken.") || strings.Contains(text, "hello") {
			t.Errorf("%s: %s", ref, text)
		}
	}
	if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "resume_session", Arguments: map[string]string{"session": "none"}}); err == nil {
		t.Error("a session that is not there can be resumed")
	}
}

// What a client calls an id is not kept whole by whoever writes down what was
// done.
func TestWhatIsToldOfACallIsNoLongerThanAnID(t *testing.T) {
	h := newHouse(t)
	h.o.Write = true
	longest := 0
	h.o.Wrote = func(_ context.Context, _, thing string, _ error) { longest = max(longest, len(thing)) }
	c := h.connect("http", "")
	long := strings.Repeat("x", 1<<16)
	h.refused(c, "remove_memory", map[string]any{"id": long})
	h.refused(c, "write_memory", map[string]any{"id": long, "text": "x"})
	h.refused(c, "hand_over", map[string]any{"session": long, "note": "x"})
	if longest > tidemark.MaxIDBytes {
		t.Errorf("%d bytes are told", longest)
	}
}

func TestWhatAToolIsStillWritingIsFoundAndRead(t *testing.T) {
	h := newHouse(t)
	w := h.s.Create(tidemark.Session{Title: "Tides", Project: here, Tool: "fake", ForeignID: "f"}, tidemark.Holder{Program: "import"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "when?")); err != nil {
		t.Fatal(err)
	}
	if err := w.KeepDraft(t.Context(), "", tidemark.Say(tidemark.Assistant, "at noon")); err != nil {
		t.Fatal(err)
	}
	c := h.connect("stream", "")
	found, text := call[searchOut](h, c, "search_sessions", map[string]any{"query": "noon"})
	if len(found.Hits) != 1 || !found.Hits[0].Draft || !strings.Contains(text, "assistant (draft)") {
		t.Fatalf("found %+v:\n%s", found.Hits, text)
	}
	for _, args := range []map[string]any{{"session": found.Hits[0].Ref}, {"session": found.Hits[0].Ref, "entry": 2}} {
		out, text := call[readOut](h, c, "read_session", args)
		if n := len(out.Entries); n != 2 || out.Entries[0].Draft || !out.Entries[1].Draft || !strings.Contains(text, "· draft\n  at noon") {
			t.Errorf("%v: %+v\n%s", args, out.Entries, text)
		}
	}
}
