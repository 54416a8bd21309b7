package store

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Question is what to search for. Language is the caller's: words as the index
// has them, and Match for what only the text itself can tell.
type Question struct {
	Text string            // how somebody put it; binds a cursor to the question
	All  [][]tidemark.Term // every hit has a term of each group; at least one group
	None []tidemark.Term   // no hit has one of these, unless Match says so
	// Phrases are words that every hit has at these places.
	Phrases [][]tidemark.Step
	Match   func(tidemark.Entry) bool // decides; All and None only lead to it

	Session tidemark.SessionID // "": all
	Role    string             // one of Roles, or another kind of entry; "": everything but rankContext
	Agent   string
	Project string
	Tag     string // or a label of some entry of the session
	Tool    string // that the session came from; Native: begun here
	Model   string // of the entry, or else of its session
	Since   time.Time
	Until   time.Time // before this instant; zero: until now
	Failed  bool      // only what tells of an error
	Cost    string    // only sessions of this value of CostOf
	Trash   bool      // what is in the trash, instead of what is not

	Limit      int           // 0: DefaultHits
	PerSession int           // how many hits of one session are listed, the others are counted, also those of answers to After; 0: all
	After      string        // Answer.Next of the same question: go on behind it
	Within     time.Duration // look no longer than this, more or less; 0: until everything was looked at
	Facets     bool          // count all hits by what they have in common; not with After
	// CostOf, when it is not nil, is the range that what a session cost is in, "" when
	// that is not known: the store keeps no sums, but who asks may.
	CostOf func(Info) string
	// Progress, when it is not nil, is called as lines are read that are in no index,
	// with how many they are so far.
	Progress func(lines int64)
}

// Query is what somebody asked for in words; search.Query is one.
type Query interface {
	// String is the query as it was typed.
	String() string
	// Terms are what an index is asked for, as in Question.
	Terms() (all [][]tidemark.Term, none []tidemark.Term, verify bool)
	// Phrases are those that all hits have.
	Phrases() [][]tidemark.Step
	// MatchEntry decides whether an entry is meant.
	MatchEntry(tidemark.Entry) bool
}

// About is the same question about what a query says.
func (q Question) About(query Query) Question {
	q.All, q.None, _ = query.Terms()
	q.Phrases, q.Text, q.Match = query.Phrases(), query.String(), query.MatchEntry
	return q
}

// Found is one hit of a search.
type Found struct {
	Info   Info           `json:"session"`
	Seq    int64          `json:"seq"` // of the entry; 0: the title, a tag
	Worker string         `json:"worker,omitempty"`
	At     time.Time      `json:"at"`    // of the entry; of a title, label or tag when it was given
	Entry  tidemark.Entry `json:"entry"` // what was matched; a title or label as an entry of that kind; Draft: it may still change
}

// Answer is what a search found: titles first, then what people and models said,
// then the rest, and in each of these the newest first.
type Answer struct {
	Found    []Found
	Sessions []FoundIn // those of Found, in the order of their first hits
	Next     string    // there is more: the same question with this as After goes on; "": this was all
	LeftOut  Count     // hits that are context, which was not asked for; only without After
	Facets   []Facet   // with Question.Facets
	Stopped  bool      // Within was over before everything was looked at
	Until    time.Time // when Stopped: how far back it looked, in the rank that it had come to
	Behind   int64     // lines that are not indexed yet and, because Within was over, were not read either
	Waiting  int64     // lines that are not indexed yet, read or not
	Scanned  bool      // there is no index that could answer: everything was read
	Damage   error     // the first thing that could not be read, and so not be searched
}

// Cut reports whether there is, or may be, more than was found.
func (a Answer) Cut() bool { return a.Next != "" || a.Stopped }

// Count is a number of hits; AtLeast: there may be more.
type Count struct {
	N       int64 `json:"n"`
	AtLeast bool  `json:"at_least,omitempty"`
}

// FoundIn is a session with hits in an Answer.
type FoundIn struct {
	Info   Info
	Listed int   // how many of its hits are in Found
	More   Count // how many are not because of Question.PerSession; ask for the Session alone to have them
}

// Search looks for lines. It never writes: what is not indexed yet is read.
//
// An answer is exact: with the ones that its Next leads to, it has every hit that
// was there when the first was asked for, and none twice. With PerSession, a session
// that had as many listed as it may is not listed again by the answers that follow (a
// cursor knows the last 240 of them). What is appended, renamed,
// purged or restored meanwhile may be found or not. When Within is over, it says so,
// and Next goes on where it stopped; lines that are Behind, and those of a store
// without an index that it had not come to, are found by asking anew.
//
// ErrInvalid: a role that is not of Roles and that nothing found has; an After that is not of this question.
func (s *Store) Search(ctx context.Context, q Question) (Answer, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultHits
	}
	h := &hunt{s: s, q: q, began: s.k.Clock(), infos: make(map[string]Info), marks: make(map[string]marks), notes: make(map[string]map[noteName]int64)}
	if err := h.prepare(ctx); err != nil {
		return h.answer, err
	}
	before := *h
	err := h.lookUp(ctx)
	for try := 1; try < searchTries && errors.Is(err, tidemark.ErrConflict); try++ {
		*h = before
		err = h.lookUp(ctx)
	}
	// What is wrong with the index is said, and everything is read.
	if damage := errors.Is(err, tidemark.ErrCorrupt); damage || errors.Is(err, tidemark.ErrUnsupported) || errors.Is(err, tidemark.ErrConflict) {
		*h = before
		if damage {
			h.answer.Damage = err
		}
		err = h.scanned(ctx)
	}
	if err == nil {
		err = h.checkRole()
	}
	return h.answer, err
}

// searchTries is how often an index is searched that lines are taken out of meanwhile,
// before everything is read instead.
const searchTries = 3

// lookUp asks the index, where there is one for the question. ErrConflict: lines were
// taken out of it meanwhile.
func (h *hunt) lookUp(ctx context.Context) error {
	h.seen, h.groups = make(map[seenHit]bool), make(map[string]int)
	var index *finder
	err := inParts(h.s.index != nil && h.s.isFar(ctx), func() (err error) {
		index, err = h.s.finder(ctx)
		return err
	}, func() error { return h.gatherDrafts(ctx) })
	switch {
	case err != nil:
		return err
	case index == nil || len(h.q.All) == 0:
		return h.scan(ctx)
	}
	return h.indexed(ctx, index)
}

// hunt is one search under way.
type hunt struct {
	s        *Store
	q        Question
	began    time.Time
	from     place           // the cursor
	full     []string        // sessions that had PerSession hits listed, here or before, as a cursor knows them
	before   map[string]bool // those of them that had them before
	places   []string        // of the project that is asked for
	labelled map[string]bool // sessions with the label that is asked for
	owner    string          // of the one session that is asked for

	infos map[string]Info               // by name
	marks map[string]marks              // by name and worker
	notes map[string]map[noteName]int64 // by name: the newest note of each title, label and tag

	fetched map[spot]fetched // lines that are looked at next

	read   gathered // hits in lines that are not indexed
	passed int64    // such lines, with hits or without
	last   place    // what was looked at last
	looked bool     // there was something
	seen   map[seenHit]bool
	groups map[string]int // by name: the session in the answer
	answer Answer

	tally     tally
	uncounted bool // there are hits that tally does not have
}

// seenHit is an entry that was found. While the past of a fork is being copied,
// it is kept twice.
type seenHit struct {
	session, worker string
	seq             int64
}

// prepare checks the question and looks up what its filters mean.
func (h *hunt) prepare(ctx context.Context) (err error) {
	if h.from, h.full, err = h.q.goOn(); err != nil {
		return err
	}
	h.before = make(map[string]bool, len(h.full))
	for _, s := range h.full {
		h.before[s] = true
	}
	if h.places, err = h.s.placesOf(ctx, h.q.Project); err != nil {
		return err
	}
	if h.labelled, err = h.s.labelled(ctx, h.q.Tag, true); err != nil || h.q.Session == "" {
		return err
	}
	i, err := h.s.Session(ctx, h.q.Session)
	if errors.Is(err, tidemark.ErrNotFound) || h.damaged(err) {
		return nil
	}
	h.owner = i.Owner
	return err
}

// isBehind reports whether a place comes behind the cursor.
func (h *hunt) isBehind(p place) bool { return h.from.spot.Seq == 0 || h.from.compare(p) < 0 }

// late reports whether a part of the time is over.
func (h *hunt) late(part time.Duration) bool {
	return part > 0 && h.s.k.Clock().Sub(h.began) >= part
}

// indexed reads what the index lacks, then walks through what it offers.
func (h *hunt) indexed(ctx context.Context, index *finder) error {
	for lag, err := range index.behind(ctx) {
		if isOfSession(err) && h.damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		left, err := h.gather(ctx, lag.owner, lag.log, tidemark.Span{From: lag.from, To: lag.to, Backwards: true}, h.q.Within/2)
		if err != nil {
			return err
		}
		h.answer.Behind += left
		h.answer.Waiting += lag.to - lag.from + 1
	}
	var two *twoRanks
	if h.inOneGo() {
		two = h.findTwo(ctx, index)
		defer two.stop()
	}
	return h.walkAll(ctx, func(r rank) iter.Seq2[spot, error] {
		switch {
		case two != nil && r == rankSaid:
			return two.said
		case two != nil && r == rankOther:
			return two.other
		}
		in, notIn := h.q.kinds(r)
		if r == rankContext && h.q.Role == "" { // messages of users are counted among what was said
			in = contextKinds
		}
		return h.find(ctx, index, r, in, notIn)
	})
}

// isOfSession reports whether an error is damage of a session, and not of the index.
func isOfSession(err error) bool {
	var d *tidemark.Damage
	return errors.As(err, &d) && !d.Key.Derived()
}

// scanned reads everything.
func (h *hunt) scanned(ctx context.Context) error {
	h.seen, h.groups = make(map[seenHit]bool), make(map[string]int)
	if err := h.gatherDrafts(ctx); err != nil {
		return err
	}
	return h.scan(ctx)
}

// scan reads everything but the drafts.
func (h *hunt) scan(ctx context.Context) error {
	h.answer.Scanned = true
	if err := h.gatherAll(ctx); err != nil {
		return err
	}
	return h.walkAll(ctx, func(rank) iter.Seq2[spot, error] { return func(func(spot, error) bool) {} })
}

// walkAll goes through the ranks.
func (h *hunt) walkAll(ctx context.Context, find func(rank) iter.Seq2[spot, error]) error {
	h.read.settle()
	for _, r := range h.q.ranks() {
		if h.from.spot.Seq > 0 && r < h.from.rank {
			continue
		}
		if more, err := h.walk(ctx, r, h.read.with(r, find(r))); err != nil || !more {
			h.finish()
			return err
		}
	}
	var err error
	if h.q.Role == "" && h.q.After == "" && h.answer.Next == "" {
		err = h.countLeftOut(ctx, find(rankContext))
	}
	h.finish()
	return err
}

// walk looks at the spots of a rank, some at a time. It reports whether to go on with
// the next rank.
func (h *hunt) walk(ctx context.Context, r rank, spots iter.Seq2[spot, error]) (more bool, err error) {
	var next []spot
	over := false
	for s, wrong := range spots {
		if wrong != nil {
			return false, wrong
		}
		if next = append(next, s); len(next) < h.atOnce() {
			continue
		}
		if over, more, err = h.lookAt(ctx, r, next); err != nil || over {
			break
		}
		next = next[:0]
	}
	if !over && err == nil {
		over, more, err = h.lookAt(ctx, r, next)
	}
	if err != nil || over && !more {
		return false, err
	}
	if h.read.end != nil && h.read.end.rank == r { // hits behind it were not kept
		h.goesOnBehind(*h.read.end)
		h.uncounted = true
		return false, nil
	}
	return true, nil
}

// maxAtOnce and maxAtOnceBytes bound the lines that are read at once, and so the memory.
const (
	maxAtOnce      = 64
	maxAtOnceBytes = 8 << 20
)

// atOnce is how many lines are worth to be read at once: mostly each is a hit.
func (h *hunt) atOnce() int {
	return min(max(h.q.Limit-len(h.answer.Found)+1, 1), maxAtOnce)
}

// lookAt looks at spots of a rank. It reports whether that was the last of them, and
// if so whether to go on with the next rank.
func (h *hunt) lookAt(ctx context.Context, r rank, spots []spot) (over, more bool, err error) {
	if err := h.fetch(ctx, spots); err != nil {
		return true, false, err
	}
	for _, s := range spots {
		here := place{r, s}
		if h.read.end != nil && h.read.end.compare(here) < 0 {
			return true, true, nil
		}
		if h.looked && h.late(h.q.Within) {
			h.answer.Stopped, h.answer.Until = true, h.last.spot.At
			h.goesOnBehind(h.last)
			return true, false, nil
		}
		found, err := h.look(ctx, here)
		if err != nil {
			return true, false, err
		}
		if found != nil && !h.take(*found) {
			return true, false, nil
		}
		h.last, h.looked = here, true
	}
	return false, true, nil
}

// goesOnBehind sets where the next answer begins, unless that is known already.
func (h *hunt) goesOnBehind(p place) {
	if h.answer.Next == "" {
		h.answer.Next = h.q.cursor(p, h.full)
	}
}

// take lists or counts a hit, and reports whether to look for more.
func (h *hunt) take(f Found) bool {
	if key := (seenHit{f.Info.Name(), f.Worker, f.Seq}); !isNote(f.Entry) {
		if h.seen[key] {
			return true
		}
		h.seen[key] = true
	}
	at, known := h.groups[f.Info.Name()]
	switch {
	case len(h.before) > 0 && !known && h.before[shown(f.Info.Name())]: // an answer before listed and counted it
	case h.q.PerSession > 0 && known && h.answer.Sessions[at].Listed == h.q.PerSession:
		if h.answer.Next == "" { // else the next answer counts it
			h.answer.Sessions[at].More.N++
		}
	case h.answer.Next != "" || len(h.answer.Found) == h.q.Limit:
		if h.goesOnBehind(h.last); !h.counts() {
			return false
		}
	default:
		if !known {
			at = len(h.answer.Sessions)
			h.groups[f.Info.Name()] = at
			h.answer.Sessions = append(h.answer.Sessions, FoundIn{Info: f.Info})
		}
		if h.answer.Sessions[at].Listed++; h.answer.Sessions[at].Listed == h.q.PerSession {
			h.full = append(h.full, shown(f.Info.Name()))
		}
		h.answer.Found = append(h.answer.Found, f)
	}
	if h.counts() {
		h.tally.add(f, h.q.CostOf)
	}
	return true
}

// counts reports whether all hits are counted, also those of later answers.
func (h *hunt) counts() bool { return h.q.Facets && h.q.After == "" }

// isNote reports whether a hit is a title, label or tag.
func isNote(e tidemark.Entry) bool {
	return e.Kind == noteTitle || e.Kind == NoteLabel || e.Kind == noteTag
}

// maxLeftOut bounds how many lines are opened to count what is left out: it is
// for telling people that there is something.
const maxLeftOut = 200

// countLeftOut counts hits that are context, in addition to those that were met.
func (h *hunt) countLeftOut(ctx context.Context, spots iter.Seq2[spot, error]) error {
	opened := 0
	var next []spot
	look := func() error {
		err := h.fetch(ctx, next)
		for _, s := range next {
			if err == nil { // what is not wanted is counted where it is looked at
				_, err = h.look(ctx, place{rankContext, s})
			}
		}
		next = next[:0]
		return err
	}
	for s, err := range spots {
		if err != nil {
			return err
		}
		if opened == maxLeftOut || h.late(h.q.Within) {
			h.answer.LeftOut.AtLeast = true
			break
		}
		opened++
		if next = append(next, s); len(next) < maxAtOnce {
			continue
		}
		if err := look(); err != nil {
			return err
		}
	}
	return look()
}

// finish says which numbers are exact.
func (h *hunt) finish() {
	cut := h.answer.Cut() || h.answer.Behind > 0
	for i := range h.answer.Sessions {
		h.answer.Sessions[i].More.AtLeast = cut || h.q.After != ""
	}
	h.answer.LeftOut.AtLeast = h.answer.LeftOut.AtLeast || cut
	if h.q.After != "" {
		h.answer.LeftOut = Count{}
	}
	if h.counts() {
		h.answer.Facets = h.tally.facets(h.answer.Stopped || h.answer.Behind > 0 || h.uncounted)
	}
}

// Role is who said what was found; of anything else than a message, its kind.
func (f Found) Role() string {
	if f.Entry.Role != "" {
		return string(f.Entry.Role)
	}
	return f.Entry.Kind
}

// Ref is how people refer to what was found: SESSION@12, SESSION alone for
// the session as a whole and for a draft, which may be another one by then,
// OWNER:SESSION for another's.
func (f Found) Ref() string {
	var b strings.Builder
	b.WriteString(f.Info.Name())
	if f.Seq > 0 && f.Worker == "" && !f.Entry.Draft {
		b.WriteString("@")
		b.WriteString(strconv.FormatInt(f.Seq, 10))
	}
	return b.String()
}
