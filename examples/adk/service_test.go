package adk_test

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/examples/adk"
	"github.com/tidemark-sessions/tidemark/store"
	"google.golang.org/adk/agent"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/session/sessiontestsuite"
	"google.golang.org/genai"
)

func holder(name string) tidemark.Holder { return tidemark.Holder{Program: name, PID: 1, Host: name} }

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	b, err := sqlite.Open(t.Context(), path, &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return store.New(b, nil)
}

// TestTheSuiteOfADK runs what ADK asks of every session service.
func TestTheSuiteOfADK(t *testing.T) {
	places := map[string]func(t *testing.T) *store.Store{
		"memory": func(*testing.T) *store.Store { return store.New(memory.New(), nil) },
		"sqlite": func(t *testing.T) *store.Store { return open(t, filepath.Join(t.TempDir(), "sessions.db")) },
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			sessiontestsuite.RunServiceTests(t, sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}, func(t *testing.T) session.Service {
				s := place(t)
				t.Cleanup(func() { s.Close() })
				return adk.New(s, holder("suite"))
			})
		})
	}
}

func create(t *testing.T, s session.Service) session.Session {
	t.Helper()
	made, err := s.Create(t.Context(), &session.CreateRequest{AppName: "harbour", UserID: "ada", SessionID: "s", State: map[string]any{"berth": "4"}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Session
}

func get(t *testing.T, s session.Service) session.Session {
	t.Helper()
	got, err := s.Get(t.Context(), &session.GetRequest{AppName: "harbour", UserID: "ada", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return got.Session
}

func event(id string, delta map[string]any) *session.Event {
	e := &session.Event{ID: id, Author: "user", Timestamp: time.Now(), Actions: session.EventActions{StateDelta: delta}}
	e.Content = genai.NewContentFromText(id, genai.RoleUser)
	return e
}

func ids(s session.Session) string {
	var found []string
	for e := range s.Events().All() {
		found = append(found, e.ID)
	}
	return strings.Join(found, " ")
}

func value(s session.Session, key string) any {
	v, err := s.State().Get(key)
	if err != nil {
		return err
	}
	return v
}

func TestAnEventThatIsAppendedAgainIsKeptOnceAndChangesNothing(t *testing.T) {
	s := adk.New(store.New(memory.New(), nil), holder("one"))
	cur := create(t, s)
	one := event("1", map[string]any{"berth": "5", "app:wind": "west"})
	for _, e := range []*session.Event{one, event("2", map[string]any{"berth": "6", "app:wind": "none"}), one, event("3", nil)} {
		if err := s.AppendEvent(t.Context(), cur, e); err != nil {
			t.Fatalf("event %s: %v", e.ID, err)
		}
	}
	for _, now := range []session.Session{cur, get(t, s)} {
		if ids(now) != "1 2 3" || value(now, "berth") != "6" || value(now, "app:wind") != "none" {
			t.Errorf("events %q, berth %v, wind %v", ids(now), value(now, "berth"), value(now, "app:wind"))
		}
	}
}

func TestWhoseSessionChangedMeanwhileIsTold(t *testing.T) {
	s := adk.New(store.New(memory.New(), nil), holder("one"))
	create(t, s)
	a, b := get(t, s), get(t, s)
	if err := s.AppendEvent(t.Context(), a, event("1", map[string]any{"berth": "5"})); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEvent(t.Context(), b, event("2", map[string]any{"app:wind": "none"})); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("an event of who did not read the one before: %v", err)
	}
	now := get(t, s)
	if ids(now) != "1" || value(now, "berth") != "5" {
		t.Errorf("events %q, berth %v", ids(now), value(now, "berth"))
	}
	if v := value(now, "app:wind"); !errors.Is(v.(error), session.ErrStateKeyNotExist) {
		t.Errorf("the refused event changed the state of the app: %v", v)
	}
}

func TestAnEventThatIsAppendedAgainIsKeptOnce(t *testing.T) {
	s := adk.New(store.New(memory.New(), nil), holder("one"))
	create(t, s)
	heard, unheard := get(t, s), get(t, s)
	e := event("1", map[string]any{"berth": "5", "user:name": "Ada"})
	for _, handle := range []session.Session{heard, unheard} {
		if err := s.AppendEvent(t.Context(), handle, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AppendEvent(t.Context(), unheard, event("2", nil)); err != nil {
		t.Error(err)
	}
	if now := get(t, s); ids(now) != "1 2" || value(now, "berth") != "5" || value(now, "user:name") != "Ada" {
		t.Errorf("events %q, berth %v", ids(now), value(now, "berth"))
	}
}

func TestTheSecondWriterIsToldWhoTheFirstIs(t *testing.T) {
	kept := store.New(memory.New(), nil)
	s := adk.New(kept, holder("one"))
	mine := create(t, s)
	for i, err := range kept.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		w, err := kept.Attach(t.Context(), i.ID, holder("the harbour master"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(t.Context())
	}
	err := s.AppendEvent(t.Context(), mine, event("1", nil))
	if !errors.Is(err, tidemark.ErrHeld) || !strings.Contains(err.Error(), "the harbour master") {
		t.Errorf("while another writes: %v", err)
	}
}

func TestWhatOthersWroteDoesNotHideTheState(t *testing.T) {
	kept := store.New(memory.New(), nil)
	s := adk.New(kept, holder("one"))
	if err := s.AppendEvent(t.Context(), create(t, s), event("1", map[string]any{"berth": "5", "temp:tide": "low"})); err != nil {
		t.Fatal(err)
	}
	for i, err := range kept.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		w, err := kept.Attach(t.Context(), i.ID, holder("a person"))
		if err == nil {
			_, err = w.Append(t.Context(), tidemark.Say(tidemark.User, "by hand"))
		}
		if err = errors.Join(err, w.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := s.List(t.Context(), &session.ListRequest{AppName: "harbour"})
	if err != nil || len(listed.Sessions) != 1 || value(listed.Sessions[0], "berth") != "5" {
		t.Errorf("listed: %v, %v", listed, err)
	}
	now := get(t, s)
	if err := s.AppendEvent(t.Context(), now, event("2", nil)); err != nil || ids(get(t, s)) != "1 2" || value(get(t, s), "berth") != "5" {
		t.Errorf("%v, events %q", err, ids(get(t, s)))
	}
}

func TestTheStateOfAnAppLosesNothingToThoseWhoChangeItAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	var wait sync.WaitGroup
	for p := range 4 {
		wait.Go(func() {
			kept := open(t, path)
			defer kept.Close()
			s := adk.New(kept, holder(fmt.Sprint("process ", p)))
			made, err := s.Create(t.Context(), &session.CreateRequest{AppName: "harbour", UserID: "ada"})
			for n := 0; n < 5 && err == nil; n++ {
				err = s.AppendEvent(t.Context(), made.Session, event(fmt.Sprint(n), map[string]any{fmt.Sprintf("app:%d-%d", p, n): "x"}))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	kept := open(t, path)
	defer kept.Close()
	n := 0
	for key := range create(t, adk.New(kept, holder("last"))).State().All() {
		if strings.HasPrefix(key, "app:") {
			n++
		}
	}
	if n != 20 {
		t.Errorf("%d of 20 values are there", n)
	}
}

// TestARunnerOfADKGoesOnInAnotherProcess runs an agent with ADK's own runner,
// and again with another Service over the same file.
func TestARunnerOfADKGoesOnInAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	ask := func(text string) (answers []string) {
		kept := open(t, path)
		defer kept.Close()
		counter, err := agent.New(agent.Config{Name: "counter", Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				e := session.NewEventWithContext(ctx, ctx.InvocationID())
				e.Author = "counter"
				e.Content = genai.NewContentFromText(fmt.Sprintf("%d events", ctx.Session().Events().Len()), genai.RoleModel)
				e.Actions.StateDelta["asked"] = text
				yield(e, nil)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := runner.New(runner.Config{AppName: "harbour", Agent: counter, SessionService: adk.New(kept, holder("runner")), AutoCreateSession: true})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range r.Run(t.Context(), "ada", "s", genai.NewContentFromText(text, genai.RoleUser), agent.RunConfig{}) {
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, e.Content.Parts[0].Text)
		}
		return answers
	}
	if got := fmt.Sprint(ask("first"), ask("second")); got != "[1 events] [3 events]" {
		t.Errorf("it says %s", got)
	}
	kept := open(t, path)
	defer kept.Close()
	if now := get(t, adk.New(kept, holder("reader"))); now.Events().Len() != 4 || value(now, "asked") != "second" {
		t.Errorf("%d events, asked %v", now.Events().Len(), value(now, "asked"))
	}
}
