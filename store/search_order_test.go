package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestWhatWasSaidComesBeforeWhatToolsSaid(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		titled(t, s, tidemark.Session{Title: "a fish"}, user("first fish"), assistant("second fish"),
			tidemark.Say(tidemark.Tool, "third fish"), system("fourth fish"),
			tidemark.Entry{Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text("fifth fish")}},
			tidemark.Entry{Kind: tidemark.KindCompaction, Blocks: []tidemark.Block{tidemark.Text("sixth fish")}},
			user("<system-reminder>seventh fish </system-reminder>"),
			user("<system-reminder>no whale </system-reminder> eighth fish"),
			user("<system-reminder>no fish </system-reminder> ninth whale"))
	}, func(t *testing.T, s *store.Store) {
		seqs := func(role string) (seqs []int64, out store.Count) {
			q := lookFor("fish")
			q.Role = role
			a, err := s.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Found {
				seqs = append(seqs, f.Seq)
			}
			return seqs, a.LeftOut
		}
		for role, want := range map[string][]int64{
			"": {0, 8, 2, 1, 3}, "user": {8, 1}, "assistant": {2}, "tool": {3}, "system": {4}, "context": {9, 7, 5},
			"compaction": {6}, "any": {0, 8, 2, 1, 3, 9, 7, 6, 5, 4}, "title": {0},
		} {
			got, out := seqs(role)
			same(t, got, want)
			left := map[string]int64{"": 5, "user": 2}[role]
			same(t, out, store.Count{N: left})
		}
	})
}

func TestHitsOfASessionAboveTheCapAreCounted(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		titled(t, s, tidemark.Session{Title: "quiet"}, user("one fish"))
		var many []tidemark.Entry
		for n := range 30 {
			many = append(many, user(fmt.Sprint("fish ", n)))
		}
		titled(t, s, tidemark.Session{Title: "loud"}, many...)
	}, func(t *testing.T, s *store.Store) {
		q := lookFor("fish")
		q.PerSession, q.Limit = 3, 4
		a, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		same(t, hits(t, s, q), []string{"loud@30 fish 29", "loud@29 fish 28", "loud@28 fish 27", "quiet@1 one fish"})
		same(t, a.Next, "")
		same(t, []any{a.Sessions[0].Info.Title, a.Sessions[0].Listed, a.Sessions[0].More, a.Sessions[1].More}, []any{"loud", 3, store.Count{N: 27}, store.Count{}})

		q.Limit = 2
		a, err = s.Search(t.Context(), q)
		if err != nil || a.Next == "" || !a.Sessions[0].More.AtLeast {
			t.Errorf("%+v, next %q, %v: a number that may be too small says so", a.Sessions, a.Next, err)
		}
		q.Session, q.PerSession, q.Limit = a.Sessions[0].Info.ID, 0, 100
		same(t, len(hits(t, s, q)), 30)
	})
}

func TestFacetsCountAllHitsAlsoThoseOfLaterAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		failed := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "1", Text: "x", IsError: true}, tidemark.Text("a fish")}}
		titled(t, s, tidemark.Session{Title: "one", Agent: "ada", Project: "/p", Model: "m"}, user("fish"), assistant("fish"), failed, system("fish"),
			tidemark.Entry{Kind: "command_output", Blocks: []tidemark.Block{tidemark.Text("a fish")}}, tidemark.Entry{Kind: tidemark.KindCommand, Blocks: []tidemark.Block{tidemark.Text("fish")}})
		titled(t, s, tidemark.Session{Title: "two", Agent: "bob"}, user("fish"))
	}, func(t *testing.T, s *store.Store) {
		q := lookFor("fish")
		q.Facets, q.Limit = true, 1
		q.CostOf = func(i store.Info) string { return map[string]string{"one": "dear"}[i.Title] }
		a, err := s.Search(t.Context(), q)
		if err != nil || a.Next == "" || len(a.Found) != 1 {
			t.Fatalf("%d hits, next %q, %v", len(a.Found), a.Next, err)
		}
		got := make(map[string]string)
		for _, f := range a.Facets {
			got[f.Name] = fmt.Sprint(f.Values, f.AtLeast)
		}
		delete(got, store.FacetDay)
		same(t, got, map[string]string{
			"role": "[{user 2} {assistant 1} {command 1} {command_output 1} {tool 1}] false", "agent": "[{ada 5} {bob 1}] false", "project": "[{/p 5}] false",
			"tool": "[{tidemark 6}] false", "model": "[{m 5}] false", "error": "[{yes 1}] false", "cost": "[{dear 5}] false",
		})
		// Each leads to as many hits as it counts.
		for _, f := range a.Facets {
			for _, v := range f.Values {
				q := lookFor("fish")
				switch f.Name {
				case store.FacetCost:
					q.Cost, q.CostOf = v.Value, func(i store.Info) string { return map[string]string{"one": "dear"}[i.Title] }
				case store.FacetRole:
					q.Role = v.Value
				case store.FacetProject:
					q.Project = v.Value
				case store.FacetAgent:
					q.Agent = v.Value
				case store.FacetTool:
					q.Tool = v.Value
				case store.FacetModel:
					q.Model = v.Value
				case store.FacetTag:
					q.Tag = v.Value
				case store.FacetDay:
					day, err := time.Parse(time.DateOnly, v.Value)
					if err != nil {
						t.Fatal(err)
					}
					q.Since, q.Until = day, day.AddDate(0, 0, 1)
				case store.FacetError:
					q.Failed = true
				}
				if got := len(hits(t, s, q)); int64(got) != v.N {
					t.Errorf("%s %s: %d hits of %d", f.Name, v.Value, got, v.N)
				}
			}
		}
		q = lookFor("fish")
		q.Until = time.Now().AddDate(-1, 0, 0)
		if got := hits(t, s, q); len(got) > 0 {
			t.Errorf("a year ago there was %v", got)
		}
		q.After, q.Until = a.Next, time.Time{}
		q.Model = "m"
		if _, err := s.Search(t.Context(), q); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("a cursor of another question: %v", err)
		}
	})
}

// ticking is a clock that goes on by a second at each look.
func ticking() func() time.Time {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func TestASearchThatTakesTooLongSaysWhereItStoppedAndGoesOnThere(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: plainPlaces, Now: ticking()})
	var many []tidemark.Entry
	for n := range 40 {
		many = append(many, user(fmt.Sprint("fish ", n%2)))
	}
	titled(t, s, tidemark.Session{Title: "one"}, many...)
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	q := lookFor("fish")
	q.Match = func(e tidemark.Entry) bool { return e.Text() == "fish 1" }
	q.Within, q.Limit = 10*time.Second, 100
	var all []int64
	stopped := 0
	for {
		a, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Found {
			all = append(all, f.Seq)
		}
		if a.Stopped {
			if stopped++; a.Next == "" || a.Until.IsZero() || !a.Cut() {
				t.Fatalf("stopped at %v, next %q", a.Until, a.Next)
			}
		}
		if q.After = a.Next; a.Next == "" {
			break
		}
	}
	var want []int64
	for n := int64(40); n > 0; n -= 2 {
		want = append(want, n)
	}
	same(t, all, want)
	if stopped < 2 {
		t.Errorf("it was stopped %d times: nothing was tried", stopped)
	}
}

func TestASearchThatHasNoTimeToReadWhatIsNotIndexedSaysHowMuch(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: plainPlaces, Now: ticking()})
	var many []tidemark.Entry
	for range 40 {
		many = append(many, user("fish"))
	}
	titled(t, s, tidemark.Session{Title: "one"}, many...)
	q := lookFor("fish")
	q.Within, q.Limit = 20*time.Second, 100
	a, err := s.Search(t.Context(), q)
	if err != nil || a.Behind == 0 || int64(len(a.Found)) > 40-a.Behind {
		t.Errorf("%d hits, %d behind, %v", len(a.Found), a.Behind, err)
	}
	q.Within = 0
	if a, err = s.Search(t.Context(), q); err != nil || a.Behind != 0 || len(a.Found) != 40 {
		t.Errorf("with time enough: %d hits, %d behind, %v", len(a.Found), a.Behind, err)
	}
}

func TestACursorLeadsThroughMoreThanIsKeptInMemory(t *testing.T) {
	s := store.New(bare{memory.New()}, nil)
	var many []tidemark.Entry
	for range 10_000 {
		many = append(many, user("fish"))
	}
	titled(t, s, tidemark.Session{Title: "one"}, many...)
	q := lookFor("fish")
	q.Limit = 3000
	for want := int64(10_000); want > 0; {
		a, err := s.Search(t.Context(), q)
		if err != nil || len(a.Found) == 0 {
			t.Fatalf("%d hits, %v", len(a.Found), err)
		}
		for _, f := range a.Found {
			if f.Seq != want {
				t.Fatalf("entry %d, want %d", f.Seq, want)
			}
			want--
		}
		q.After = a.Next
	}
	same(t, q.After, "")
}

// A session that showed as many hits as it may does not come again further down.
func TestASessionThatShowedItsHitsIsNotListedAgain(t *testing.T) {
	s := indexed()
	for _, title := range []string{"one", "two", "three"} {
		var said []tidemark.Entry
		for range 7 {
			said = append(said, user("fish"))
		}
		titled(t, s, tidemark.Session{Title: title}, said...)
	}
	listed := make(map[string]int)
	q := lookFor("fish")
	q.Limit, q.PerSession = 2, 2
	for range 10 {
		a, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Found {
			listed[f.Info.Title]++
		}
		if q.After = a.Next; a.Next == "" {
			break
		}
	}
	if q.After != "" || len(listed) != 3 || listed["one"] != 2 || listed["two"] != 2 || listed["three"] != 2 {
		t.Errorf("listed %v, with more behind %q", listed, q.After)
	}
}

func TestACursorIsForItsQuestionAlone(t *testing.T) {
	s := indexed()
	titled(t, s, tidemark.Session{Title: "one"}, user("fish"), user("fish"), user("bird"))
	q := lookFor("fish")
	q.Limit, q.Since = 1, time.Now().Add(-time.Hour)
	a, err := s.Search(t.Context(), q)
	if err != nil || a.Next == "" {
		t.Fatalf("next %q, %v", a.Next, err)
	}
	q.After = a.Next
	later := q
	later.Since = q.Since.Add(time.Minute)
	same(t, hits(t, s, later), []string{"one@1 fish"})
	for _, change := range []func(*store.Question){
		func(q *store.Question) { q.Role = "user" },
		func(q *store.Question) { q.Since = time.Time{} },
		func(q *store.Question) { q.Text = "other" },
		func(q *store.Question) { q.All = [][]tidemark.Term{{{Word: "bird"}}} },
		func(q *store.Question) { q.Tag = "x" },
		func(q *store.Question) { q.After = strings.ToUpper(q.After) },
		func(q *store.Question) { q.After = "e30" },
		func(q *store.Question) { q.After = strings.Repeat("A", 10_000) },
	} {
		other := q
		change(&other)
		_, err := s.Search(t.Context(), other)
		wants(t, err, tidemark.ErrInvalid)
	}
}

func TestALabelThatMovedAndATagThatIsGoneAreNotFoundWhereTheyWere(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		w := titled(t, s, tidemark.Session{Title: "one"}, user("a"), user("b"))
		for _, err := range []error{
			s.Label(t.Context(), w.ID(), 1, "fish"), s.Label(t.Context(), w.ID(), 2, "fish"),
			s.Tag(t.Context(), w.ID(), []string{"bird", "whale"}, nil), s.Tag(t.Context(), w.ID(), nil, []string{"bird"}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}, func(t *testing.T, s *store.Store) {
		same(t, hits(t, s, lookFor("fish")), []string{"one@2 fish"})
		same(t, len(hits(t, s, lookFor("bird"))), 0)
		same(t, hits(t, s, lookFor("whale")), []string{"one whale"})
	})
}

func TestSearchKeepsToATag(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		for _, tag := range []string{"kept", "lost"} {
			w := titled(t, s, tidemark.Session{Title: tag}, user("fish"))
			if err := s.Tag(t.Context(), w.ID(), []string{tag}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}, func(t *testing.T, s *store.Store) {
		q := lookFor("fish")
		q.Tag = "kept"
		got := hits(t, s, q)
		slices.Sort(got)
		same(t, got, []string{"kept@1 fish"})
	})
}

// What was said and what tools said are found by one search, unless tools said it so often
// that what was said is looked for by itself.
func TestAPhraseIsFoundByRanksHoweverOftenToolsSaidIt(t *testing.T) {
	for _, tools := range []int{5, 5000} {
		eachWay(t, func(t *testing.T, s *store.Store) {
			entries := []tidemark.Entry{user("a quick fish"), assistant("fish, quick"), system("a quick fish"), assistant("the quick fish")}
			for range tools {
				entries = append(entries, tidemark.Say(tidemark.Tool, "one quick fish"))
			}
			titled(t, s, tidemark.Session{Title: "all quick fish"}, append(entries, tidemark.Entry{Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text("quick fish")}}, user("quick fish"))...)
		}, func(t *testing.T, s *store.Store) {
			newest := int64(tools) + 4
			for role, want := range map[string][]int64{"": {0, newest + 2, 4, 1, newest, newest - 1, newest - 2}, "any": {0, newest + 2, 4, 1, newest, newest - 1, newest - 2}, "assistant": {4}} {
				for _, limit := range []int{2, 3, 7} {
					q := store.Question{
						All:     [][]tidemark.Term{{{Word: "quick"}}, {{Word: "fish"}}},
						Phrases: [][]tidemark.Step{{{Term: tidemark.Term{Word: "quick"}}, {Term: tidemark.Term{Word: "fish"}, Place: 1}}},
						Match: func(e tidemark.Entry) bool {
							return strings.Contains(strings.Join(plainWords(e), " ")+" ", "quick fish ")
						},
						Role: role, Limit: limit,
					}
					var got []int64
					for more := true; more && len(got) < len(want); {
						a, err := s.Search(t.Context(), q)
						if err != nil {
							t.Fatal(err)
						}
						for _, f := range a.Found {
							got = append(got, f.Seq)
						}
						q.After, more = a.Next, a.Next != ""
					}
					same(t, got[:min(len(got), len(want))], want)
				}
			}
		})
	}
}
