package hits_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(indexerURL) != "" {
		indexer()
	}
	os.Exit(pgtest.Main(m))
}

// unindexable is a Backend whose store keeps no index.
type unindexable struct{ tidemark.Backend }

// backends are the ways to keep a store.
var backends = map[string]func(t testing.TB) (tidemark.Backend, error){
	"memory":           func(testing.TB) (tidemark.Backend, error) { return memory.New(), nil },
	"without an index": func(testing.TB) (tidemark.Backend, error) { return unindexable{memory.New()}, nil },
	"sqlite": func(t testing.TB) (tidemark.Backend, error) {
		return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tidemark.db"), &sqlite.Options{Create: true})
	},
	"files": func(t testing.TB) (tidemark.Backend, error) {
		return files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
	},
	"postgres": func(t testing.TB) (tidemark.Backend, error) {
		db := pgtest.Start(t).Prepared(t, "", func(db *pgtest.Database) error {
			return postgres.Migrate(t.Context(), db.Owner, db.Role)
		})
		connected, err := postgres.Connect(t.Context(), db.Server, nil)
		if err != nil {
			return nil, err
		}
		t.Cleanup(connected.Close)
		return connected.For(tidemark.TenantOf(tidemark.NewBatchID(), "ada")), nil
	},
}

func made(t testing.TB, open func(testing.TB) (tidemark.Backend, error), sealed bool) tidemark.Backend {
	t.Helper()
	b, err := open(t)
	if err != nil {
		t.Fatal(err)
	}
	if sealed {
		slot, err := seal.FileSlot("test", seal.NewKeyFile())
		if err != nil {
			t.Fatal(err)
		}
		if b, err = seal.Create(t.Context(), b, slot); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// eachStore runs a test over every backend, plain and sealed.
func eachStore(t *testing.T, test func(*testing.T, tidemark.Backend)) {
	for name, open := range backends {
		for _, sealed := range []bool{false, true} {
			title := name
			if sealed {
				title += ", sealed"
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				if name == "postgres" && testing.Short() {
					t.Skip("make quick leaves out what needs PostgreSQL")
				}
				test(t, made(t, open, sealed))
			})
		}
	}
}

// world is a store that random things happen to.
type world struct {
	*testing.T
	rnd     *rand.Rand
	backend tidemark.Backend
	store   *store.Store
	who     tidemark.Holder
	writers []*store.Writer
	drafts  bool // other tools are writing, too
}

func newWorld(t *testing.T, b tidemark.Backend, seed uint64) *world {
	t.Logf("seed %d", seed)
	o := &store.Options{Places: search.EachWord}
	if _, without := b.(unindexable); without {
		o.Places = nil
	}
	return &world{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), backend: b, store: store.New(b, o), who: store.Self("test")}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) words() string {
	var b strings.Builder
	for range 1 + w.rnd.IntN(9) {
		b.WriteString([]string{"tide", "moon", "harbour", "in", "with", "as", "hälfte", "潮汐"}[w.rnd.IntN(8)] + []string{" ", " ", ", "}[w.rnd.IntN(3)])
	}
	return b.String()
}

// entry is of any kind. Many are of one minute, and some of one instant.
func (w *world) entry() tidemark.Entry {
	e := tidemark.Entry{Kind: tidemark.KindMessage, Blocks: []tidemark.Block{tidemark.Text(w.words())}}
	switch w.rnd.IntN(9) {
	case 0, 1:
		e.Role = tidemark.User
	case 2, 3:
		e.Role = tidemark.Assistant
	case 4:
		e.Role = tidemark.Tool
		e.Blocks = []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "1", Text: w.words(), IsError: w.rnd.IntN(2) == 0}}
	case 5:
		e.Role = tidemark.System
	case 6:
		e.Kind = []string{tidemark.KindContext, tidemark.KindCompaction, tidemark.KindCommand, tidemark.KindError, "notice"}[w.rnd.IntN(5)]
	case 7:
		e.Role = tidemark.User
		e.Blocks[0].Text = "<system-reminder>" + w.words() + "</system-reminder>" + w.words()
	case 8:
		e.Role = tidemark.User
		e.Blocks[0].Text = "<system-reminder>" + w.words() + "</system-reminder>"
	}
	e.At = time.Date(2026, 1, 1+w.rnd.IntN(2)*w.rnd.IntN(9), 12, 0, 0, w.rnd.IntN(200)*1e8, time.UTC)
	return e
}

// grow appends, labels, tags, renames.
func (w *world) grow() {
	ctx := w.Context()
	if len(w.writers) < 2 || w.rnd.IntN(4) == 0 {
		about := tidemark.Session{Title: w.words(), Agent: []string{"ada", "bob"}[w.rnd.IntN(2)], Project: []string{"", "/p"}[w.rnd.IntN(2)]}
		about.Tool = []string{"", "fake"}[w.rnd.IntN(2)]
		w.writers = append(w.writers, w.store.Create(about, w.who))
	}
	s := w.writers[w.rnd.IntN(len(w.writers))]
	if w.drafts && w.rnd.IntN(3) == 0 {
		w.must(s.KeepDraft(ctx, []string{"", "", "scout"}[w.rnd.IntN(3)], w.entry(), w.entry()))
	}
	if w.drafts && w.rnd.IntN(5) == 0 {
		return // of a new session there may be a draft and nothing else
	}
	var entries []tidemark.Entry
	for range 1 + w.rnd.IntN(30) {
		entries = append(entries, w.entry())
	}
	_, err := s.Append(ctx, entries...)
	w.must(err)
	if w.drafts && w.rnd.IntN(2) == 0 {
		w.must(s.KeepDraft(ctx, "", w.entry(), w.entry()))
	}
	if w.rnd.IntN(3) == 0 {
		_, err := s.AppendTo(ctx, "scout", w.entry())
		w.must(err)
	}
	for range w.rnd.IntN(3) {
		text := strings.TrimSpace(w.words())
		switch w.rnd.IntN(4) {
		case 0:
			w.must(w.store.Rename(ctx, s.ID(), text))
		case 1:
			w.must(w.store.Label(ctx, s.ID(), 1, text))
		case 2:
			w.must(w.store.Tag(ctx, s.ID(), []string{"tide", "moon"}, nil))
		case 3:
			w.must(w.store.Tag(ctx, s.ID(), nil, []string{"moon"}))
		}
	}
}

// trash removes a session of which there is a fork.
func (w *world) trash() {
	s, i := w.writers[0], store.Info{}
	for ; i.Entries == 0; w.writers = w.writers[1:] {
		var err error
		s = w.writers[0]
		if i, err = w.store.Session(w.Context(), s.ID()); !errors.Is(err, tidemark.ErrNotFound) {
			w.must(err)
		}
	}
	_, err := w.store.Fork(w.Context(), s.ID(), 1+w.rnd.Int64N(i.Entries), "a fork of the tide")
	w.must(err)
	w.must(s.Close(w.Context()))
	w.must(w.store.Trash(w.Context(), s.ID()))
}

// thing is something that a naive search finds, as it is known to users.
type thing struct {
	rank    int
	at      time.Time
	log     tidemark.Key
	line    int64
	session tidemark.SessionID
	worker  string
	seq     int64
	role    string
}

func (a thing) compare(b thing) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), b.at.Compare(a.at), cmp.Compare(b.log.Kind, a.log.Kind), cmp.Compare(b.log.ID, a.log.ID), cmp.Compare(b.line, a.line))
}

// shown is what of a thing an answer shows.
func (a thing) shown() string {
	return fmt.Sprintf("%s %s %d %s %s", a.session, a.worker, a.seq, a.role, a.at.Format(time.RFC3339Nano))
}

func shownHit(h hits.Hit) string {
	return thing{session: h.Session, worker: h.Worker, seq: h.Seq, role: h.Role, at: h.At}.shown()
}

// naive reads every line of every session, and sorts what matches.
func (w *world) naive(query search.Query, q store.Question) (all []string, leftOut int64) {
	w.Helper()
	var found []thing
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range w.store.Sessions(w.Context(), store.Filter{State: state}) {
			w.must(err)
			found = append(found, w.inSession(query, q, i)...)
		}
	}
	slices.SortFunc(found, thing.compare)
	for _, f := range found {
		if f.rank < 3 || q.Role == store.RoleAny {
			all = append(all, f.shown())
		} else {
			leftOut++
		}
	}
	return all, leftOut
}

func (w *world) inSession(query search.Query, q store.Question, i store.Info) (found []thing) {
	if q.Agent != "" && q.Agent != i.Agent || q.Project != "" && q.Project != i.Project || q.Session != "" && q.Session != i.ID {
		return nil
	}
	offer := func(f thing, e tidemark.Entry) {
		as, upTo := i, int64(1<<62)
		if (i.State == store.Live) == q.Trash {
			if as, upTo = w.forkOf(i); q.Trash || as.ID == "" || f.worker != "" || f.log.Kind == "notes" && f.seq == 0 || f.seq > upTo || f.seq == 0 {
				return
			}
		}
		if f.session = as.ID; query.MatchEntry(e) && !f.at.Before(q.Since) && (q.Role == "" || q.Role == store.RoleAny || q.Role == f.role) {
			found = append(found, f)
		}
	}
	named := make(map[string]int64)
	logs := []tidemark.Key{{Kind: "notes", ID: string(i.ID)}, {Kind: "session", ID: string(i.ID)}, {Kind: "worker", ID: string(i.ID) + ".scout"}}
	for pass := range 2 {
		for _, log := range logs {
			for l, err := range w.backend.Lines(w.Context(), log) {
				w.must(err)
				f := thing{at: l.At, log: log, line: l.Seq}
				if log.Kind == "notes" {
					var n store.Note
					w.must(json.Unmarshal(l.Body, &n))
					switch {
					case pass == 0:
						named[n.Kind+" "+n.Text] = l.Seq
					case named[n.Kind+" "+n.Text] == l.Seq && !n.Remove && (n.Kind != "title" || n.Text == i.Title):
						f.seq, f.role, f.rank = n.Seq, n.Kind, 1
						if n.Kind == "title" {
							f.rank = 0
						}
						offer(f, tidemark.Entry{Blocks: []tidemark.Block{tidemark.Text(n.Text)}})
					}
					continue
				}
				if pass == 0 {
					continue
				}
				if log.Kind == "session" && l.Seq == 1 && named["title "+i.Title] == 0 {
					f.role = "title"
					offer(f, tidemark.Entry{Blocks: []tidemark.Block{tidemark.Text(i.Title)}})
				}
				e, err := tidemark.EntryOf(l)
				w.must(err)
				if log.Kind == "worker" {
					f.worker = "scout"
				}
				f.seq, f.role = e.Seq, cmp.Or(string(e.Role), e.Kind)
				if i.Base != nil && log.Kind == "session" {
					f.seq += i.Base.Seq
				}
				f.rank = naiveRank(query, e)
				offer(f, e)
			}
		}
	}
	return append(found, w.inDrafts(query, q, i, named["title "+i.Title] == 0)...)
}

// inDrafts looks at the drafts of a session, which are at the end of their logs.
func (w *world) inDrafts(query search.Query, q store.Question, i store.Info, untold bool) (found []thing) {
	if (i.State == store.Live) == q.Trash {
		return nil
	}
	offer := func(f thing, e tidemark.Entry) {
		if f.session = i.ID; query.MatchEntry(e) && !f.at.Before(q.Since) && (q.Role == "" || q.Role == store.RoleAny || q.Role == f.role) {
			found = append(found, f)
		}
	}
	for _, worker := range []string{"", "scout"} {
		v, err := w.store.View(w.Context(), i.ID)
		w.must(err)
		id := string(i.ID)
		if worker != "" {
			if v, err = v.Worker(w.Context(), worker); errors.Is(err, tidemark.ErrNotFound) {
				continue
			}
			w.must(err)
			id += "." + worker
		}
		drafts, err := v.Draft(w.Context())
		w.must(err)
		for n, e := range drafts {
			f := thing{at: e.At, log: tidemark.Key{Kind: "draft", ID: id}, line: v.Entries + int64(n) + 1, worker: worker}
			if f.line == 1 && worker == "" && untold {
				f.role = "title"
				offer(f, tidemark.Entry{Blocks: []tidemark.Block{tidemark.Text(i.Title)}})
			}
			f.seq, f.role, f.rank = f.line, cmp.Or(string(e.Role), e.Kind), naiveRank(query, e)
			offer(f, e)
		}
	}
	return found
}

func naiveRank(query search.Query, e tidemark.Entry) int {
	switch cmp.Or(string(e.Role), e.Kind) {
	case "user":
		said, _ := tidemark.Spoken(e.Text())
		if !query.MatchEntry(tidemark.Say(tidemark.User, said)) {
			return 3
		}
		return 1
	case "assistant", "command":
		return 1
	case "system", "context", "compaction":
		return 3
	}
	return 2
}

// forkOf returns the fork of a session, and up to where it shares entries.
func (w *world) forkOf(of store.Info) (store.Info, int64) {
	for i, err := range w.store.Sessions(w.Context(), store.Filter{}) {
		w.must(err)
		if i.Base != nil && i.Base.Session == of.ID {
			return i, i.Base.Seq
		}
	}
	return store.Info{}, 0
}

// questions are of all forms, also some that a sealed index cannot look up.
var questions = []string{"tide", "tide moon", `"in with as"`, "^har", "^h", "tide !moon", "moon | harbour", "潮", "halfte", "nowhere", "'as in"}

func (w *world) question() (search.Query, store.Question) {
	query, err := search.Parse(questions[w.rnd.IntN(len(questions))])
	w.must(err)
	q := store.Question{Limit: []int{1, 7, 1 << 20}[w.rnd.IntN(3)]}
	switch w.rnd.IntN(8) {
	case 0:
		q.Agent = "ada"
	case 1:
		q.Project = "/p"
	case 2:
		q.Role = []string{"user", "tool", "assistant", "title", "label"}[w.rnd.IntN(5)]
	case 3:
		q.Role = store.RoleAny
	case 4:
		q.Since = time.Date(2026, 1, 1, 12, 0, 10, 0, time.UTC)
	case 5:
		q.Trash = true
	case 6:
		q.Session = w.writers[0].ID()
	}
	return query, q
}

// pages asks until there is no more, and does something between two answers.
func (w *world) pages(query search.Query, q store.Question, between func()) (all []string, first hits.Answer) {
	w.Helper()
	for n := 0; ; n++ {
		a, err := hits.Search(w.Context(), w.store, query, q, hits.Width)
		w.must(err)
		w.must(a.Damage)
		if n == 0 {
			first = a
		}
		if len(a.Hits) > q.Limit || a.Next == "" && a.Cut || a.Behind > 0 {
			w.Fatalf("an answer with %d hits of %d, next %q, cut %v, behind %d", len(a.Hits), q.Limit, a.Next, a.Cut, a.Behind)
		}
		for _, h := range a.Hits {
			all = append(all, shownHit(h))
		}
		if q.After = a.Next; a.Next == "" {
			return all, first
		}
		between()
	}
}

// rounds is how many questions are asked of one store.
func (w *world) rounds() int {
	if testing.Short() || strings.Contains(w.Name(), "postgres") {
		return 12
	}
	return 40
}

func TestAnswersAreThoseOfANaiveSearch(t *testing.T) {
	eachStore(t, func(t *testing.T, b tidemark.Backend) {
		w := newWorld(t, b, rand.Uint64())
		w.drafts = true
		for range 8 {
			w.grow()
		}
		w.trash()
		for range w.rounds() {
			switch w.rnd.IntN(6) {
			case 0:
				w.grow()
			case 1:
				w.catchUp()
			}
			query, q := w.question()
			want, leftOut := w.naive(query, q)
			// A page of one hit is tried on short answers: each page of some stores
			// is a reading of everything.
			q.Limit = max(q.Limit, len(want)/20)
			got, first := w.pages(query, q, w.catchUp)
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("%s, %+v (-want +got):\n%s", query, q, d)
			}
			if n := first.LeftOut; q.Role == "" && (n.N > leftOut || n.N < leftOut && !n.AtLeast) {
				t.Fatalf("%s, %+v: %+v left out, want %d", query, q, n, leftOut)
			}
		}
	})
}

func (w *world) catchUp() {
	if _, err := w.store.CatchUp(w.Context(), nil); !errors.Is(err, tidemark.ErrUnsupported) {
		w.must(err)
	}
}

func TestNothingIsMissedAndNothingFoundTwiceWhileEntriesAreAppended(t *testing.T) {
	eachStore(t, func(t *testing.T, b tidemark.Backend) {
		w := newWorld(t, b, rand.Uint64())
		for range 6 {
			w.grow()
		}
		for range w.rounds() / 4 {
			query, q := w.question()
			q.Limit, q.Role = 5, ""
			before, _ := w.naive(query, q)
			turns := 0
			got, _ := w.pages(query, q, func() {
				if turns++; turns > 8 {
					return
				}
				s := w.writers[w.rnd.IntN(len(w.writers))]
				_, err := s.Append(t.Context(), w.entry(), w.entry())
				w.must(err)
				if w.rnd.IntN(2) == 0 {
					w.catchUp()
				}
			})
			after, _ := w.naive(query, q)
			counted := make(map[string]int)
			for _, hit := range got {
				if counted[hit]++; counted[hit] > 1 && !sameInstant(after, hit) || !slices.Contains(after, hit) {
					t.Fatalf("%s, %+v: found %d times: %s", query, q, counted[hit], hit)
				}
			}
			at := 0
			for _, want := range before {
				next := slices.Index(got[at:], want)
				if next < 0 {
					t.Fatalf("%s, %+v: %s is missed, or not in its place", query, q, want)
				}
				at += next + 1
			}
		}
	})
}

// sameInstant reports whether two things look alike, so that being shown twice is
// right.
func sameInstant(all []string, hit string) bool {
	n := 0
	for _, a := range all {
		if a == hit {
			n++
		}
	}
	return n > 1
}
