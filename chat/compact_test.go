package chat_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
)

func isSummary(q model.Request) bool { return strings.HasPrefix(q.Entries[0].Text(), compact.Tag) }

func TestACompactionSendsLessAndDestroysNothing(t *testing.T) {
	for _, strategy := range []string{compact.Simple, compact.CodeAware, compact.RoleBudget, compact.Model} {
		t.Run(strategy, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, b tidemark.Backend) {
				r := newRig(t, b, nil)
				usual := r.model.answer
				r.model.answer = func(q model.Request) reply {
					if q.System == compact.SummaryPrompt {
						return says("they said numbers")
					}
					return usual(q)
				}
				r.o.Compact = compact.Options{Strategy: strategy, MaxMessages: 100}
				c := r.new()
				r.many(c, 30)
				before, full := r.path(c.ID()), r.model.last(t)
				if err := c.Compact(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				same(t, r.notices(), []string{"[context compacted: 61 → 12 messages]"})
				r.send(c, "on")
				now := r.model.last(t)
				same(t, len(now.Entries), 12) // the summary, ten, and this one
				if !isSummary(now) || !strings.HasPrefix(now.Entries[1].Text(), "message 25 ") || now.System != full.System {
					t.Errorf("what is sent begins %q, %q", now.Entries[0].Text(), now.Entries[1].Text())
				}
				if strategy == compact.Model && !strings.Contains(now.Entries[0].Text(), "they said numbers") {
					t.Errorf("summary %q", now.Entries[0].Text())
				}
				valid(t, now)
				after := r.path(c.ID())
				same(t, after[:len(before)], before)
				r.close(c)
				goesOn(t, r, c.ID(), 0)
				// Before the compaction, the old context is sent in full again.
				r.model.requests = []model.Request{full}
				goesOn(t, r, c.ID(), before[len(before)-1].Seq)
				goesOn(t, r, c.ID(), 0)
			})
		})
	}
}

func TestFiftyMessagesOrThirtyTwoThousandBytesAreTooLong(t *testing.T) {
	t.Run("messages", func(t *testing.T) {
		r := newRig(t, memory.New(), nil)
		c := r.new()
		r.many(c, 24) // 48 messages and the system prompt, 49
		r.send(c, "the fiftieth")
		if len(r.notices()) > 0 {
			t.Errorf("too early: %q", r.notices())
		}
		r.send(c, "the fifty-second")
		same(t, r.notices(), []string{"[context compacted: 52 → 12 messages]"})
		if q := r.model.last(t); !isSummary(q) || q.Entries[len(q.Entries)-1].Text() != "the fifty-second" {
			t.Errorf("%d entries", len(q.Entries))
		}
		same(t, c.State().Limits, r.o.Limits)
	})
	t.Run("bytes", func(t *testing.T) {
		r := newRig(t, memory.New(), nil)
		c := r.new()
		for i := range 20 {
			r.send(c, fmt.Sprint(i, strings.Repeat(" word", 400)))
		}
		if !r.noticed("[context compacted: ") {
			t.Error("40,000 bytes were not compacted")
		}
	})
	t.Run("again and again", func(t *testing.T) {
		r := newRig(t, memory.New(), nil)
		c := r.new()
		r.many(c, 120)
		n := len(r.notices())
		if n < 4 {
			t.Errorf("%d compactions", n)
		}
		r.close(c)
		goesOn(t, r, c.ID(), 0)
	})
}

func TestAProviderThatFindsItTooLongIsAskedOnceMore(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	usual := r.model.answer
	most := 30
	r.model.answer = func(q model.Request) reply {
		if len(q.Entries) > most {
			return reply{err: &model.Error{Provider: "p", Status: 400, Message: "too long", Cause: model.ErrTooLong}}
		}
		return usual(q)
	}
	r.o.Compact.MaxMessages = -1
	c := r.new()
	r.many(c, 15)
	n := len(r.model.all())
	r.send(c, "too much")
	same(t, len(r.model.all()), n+2)
	same(t, r.notices(), []string{"[context compacted: 32 → 12 messages]"})
	// It stays too long: one more try, and then it is said.
	most = 0
	n = len(r.model.all())
	_, err := c.Send(t.Context(), tidemark.Text("hopeless"))
	if !errors.Is(err, model.ErrTooLong) {
		t.Errorf("Send: %v, want ErrTooLong", err)
	}
	if asked := len(r.model.all()) - n; asked > 2 {
		t.Errorf("asked %d times", asked)
	}
	// Of a first message there is nothing to leave out.
	fresh := r.new()
	if _, err := fresh.Send(t.Context(), tidemark.Text("hopeless")); !errors.Is(err, model.ErrTooLong) || errors.Is(err, compact.ErrNoGain) {
		t.Errorf("Send: %v, want ErrTooLong", err)
	}
}

func TestAModelThatDoesNotSummariseIsReplacedByTheSimpleWay(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	usual := r.model.answer
	r.model.answer = func(q model.Request) reply {
		if q.System == compact.SummaryPrompt {
			return reply{err: errors.New("not today")}
		}
		return usual(q)
	}
	c := r.new()
	r.many(c, 20)
	if err := c.Compact(t.Context(), "by magic"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an unknown strategy: %v, want ErrInvalid", err)
	}
	if err := c.Compact(t.Context(), compact.Model); err != nil {
		t.Fatal(err)
	}
	if !r.noticed("The model did not summarise: ") || !r.noticed("[context compacted: 41 → 12 messages]") {
		t.Errorf("notices %q", r.notices())
	}
}

func TestToolsAndTheirResultsAreNotPartedByACompaction(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	n := 0
	r.model.answer = func(q model.Request) reply {
		if n++; n%7 == 0 {
			return says("enough")
		}
		return calls(use(fmt.Sprint("a", n), "ls", `{}`), use(fmt.Sprint("b", n), "ls", `{}`))
	}
	c := r.new()
	for i := range 12 {
		r.send(c, fmt.Sprint("look ", i))
	}
	compacted := 0
	for _, q := range r.model.all() {
		valid(t, q)
		if isSummary(q) {
			compacted++
		}
	}
	if compacted == 0 {
		t.Error("nothing was compacted")
	}
	r.close(c)
	goesOn(t, r, c.ID(), 0)
}

func TestCoreMemoryIsToldAnewByACompactionAndNotBefore(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"learn": {calls(use("c", "remember", `{"key":"human","text":"Ada"}`))}})
	c := r.new()
	if err := c.SetMemory(t.Context(), "persona", "a pirate", false); err != nil {
		t.Fatal(err)
	}
	r.send(c, "hello")
	system := r.model.last(t).System
	if !strings.HasSuffix(system, "Core memory of this session:\n[persona]\na pirate") {
		t.Fatalf("system prompt %q", system)
	}
	r.send(c, "learn")
	r.many(c, 20)
	same(t, r.model.last(t).System, system)
	if err := c.Compact(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	r.send(c, "on")
	now := r.model.last(t).System
	want := strings.Replace(system, "session:\n", "session:\n[human]\nAda\n", 1)
	same(t, now, want)
	r.close(c)
	goesOn(t, r, c.ID(), 0)
	// Nothing changed since: the prompt is not written again.
	c = r.resume(c.ID())
	count := func() int {
		return len(slices.DeleteFunc(shape(r.path(c.ID())), func(s string) bool { return s != "system" }))
	}
	n := count()
	r.many(c, 30)
	same(t, count(), n)
	same(t, r.model.last(t).System, want)
}

func TestALongSessionThatWasNeverCompactedIsReadFromItsEnd(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	w := r.store.Create(tidemark.Session{}, r.o.Holder)
	var all []tidemark.Entry
	for i := range 3000 {
		all = append(all, tidemark.Say(tidemark.User, fmt.Sprint("q", i)), tidemark.Say(tidemark.Assistant, fmt.Sprint("a", i)))
	}
	if _, err := w.Append(t.Context(), append([]tidemark.Entry{tidemark.Say(tidemark.System, "Old rules.")}, all...)...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := r.resume(w.ID())
	r.send(c, "hello")
	q := r.model.last(t)
	if !isSummary(q) || q.System != "Old rules." {
		t.Errorf("%d entries, system prompt %q", len(q.Entries), q.System)
	}
	same(t, q.Entries[1].Text(), "a2995")
	r.close(c)
	goesOn(t, r, c.ID(), 0)
}

// Wherever the reading of a resumed session begins, the system prompt is the
// one that was sent last: also when it came with a summary that is the first
// thing that is read.
func TestASystemPromptThatCameWithASummaryStays(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.o.Compact = compact.Options{MaxMessages: 1000, MaxBytes: -1, Keep: 2}
	long := strings.Repeat("on and ", 60)
	c := r.new()
	r.many(c, 5)
	for i := range 4 {
		if err := c.SetMemory(t.Context(), "scratchpad", fmt.Sprint("step ", i), false); err != nil {
			t.Fatal(err)
		}
		if err := c.Compact(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r.send(c, long)
		}
		if err := c.Compact(t.Context(), ""); err != nil { // a summary of later, with nothing new to tell
			t.Fatal(err)
		}
		// Another entry, so that the steps of the reading fall elsewhere.
		for range i {
			r.close(c)
			r.o.FreshInterpreter = "as a test"
			c = r.resume(c.ID())
			r.o.FreshInterpreter = ""
		}
		for range 60 {
			r.send(c, long)
			system := r.model.last(t).System
			r.close(c)
			c = r.resume(c.ID())
			r.send(c, long)
			same(t, r.model.last(t).System, system)
		}
	}
	r.close(c)
}

// An instruction of the open turn is never summarised away, however much its
// tools put out; and few large messages are compacted like many small ones.
func TestTheOpenTurnIsSentWhole(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	large := strings.Repeat("large ", 2_000)
	rounds := 0
	r.model.answer = func(q model.Request) reply {
		if strings.Contains(q.Entries[len(q.Entries)-1].Text(), "before") {
			return says(large)
		}
		if rounds++; rounds%9 == 0 {
			return says("done")
		}
		return calls(use(fmt.Sprint("c", rounds), "bash", `{"command":"head -c 3000 /dev/zero | tr '\\0' x"}`))
	}
	c := r.new()
	for i := range 4 {
		r.send(c, fmt.Sprint("before ", i, " ", large))
	}
	if !r.noticed("[context compacted: ") {
		t.Error("few large messages were not compacted")
	}
	r.send(c, "Answer in French, whatever the tools say.")
	for _, q := range r.model.all()[4:] {
		valid(t, q)
		said := slices.ContainsFunc(q.Entries, func(e tidemark.Entry) bool { return e.Text() == "Answer in French, whatever the tools say." })
		if !said {
			t.Fatalf("the instruction is not among the %d entries that were sent", len(q.Entries))
		}
	}
	same(t, rounds, 9)
	r.close(c)
	goesOn(t, r, c.ID(), 0)
}

// Limits that nobody set are those of the model.
func TestTheLimitsComeFromTheModel(t *testing.T) {
	for name, want := range map[string]bool{"claude-sonnet-5": false, "unheard-of": true} {
		r := newRig(t, memory.New(), nil)
		r.o.Name, r.o.Compact = name, compact.Options{}
		c := r.new()
		for i := range 20 {
			r.send(c, fmt.Sprint(i, strings.Repeat(" word", 1_000)))
		}
		if got := r.noticed("[context compacted: "); got != want {
			t.Errorf("%s: 100,000 bytes were compacted: %v", name, got)
		}
	}
}
