package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Question is what to search for. Language is the caller's: words as the index
// has them, and Match for what only the text itself can tell.
type Question struct {
	All   [][]tidemark.Term         // as in tidemark.IndexQuery
	None  []tidemark.Term           //
	Match func(tidemark.Entry) bool // decides; All and None only lead to it

	Session tidemark.SessionID // "": all
	Role    string             // or another kind of entry: title, label, tag
	Agent   string
	Project string
	Since   time.Time
	Trash   bool // what is in the trash, instead of what is not
	Limit   int  // 0: DefaultHits
}

// Query is what somebody asked for in words; search.Query is one.
type Query interface {
	// Terms are what an index is asked for, as in Question.
	Terms() (all [][]tidemark.Term, none []tidemark.Term, verify bool)
	// MatchEntry decides whether an entry is meant.
	MatchEntry(tidemark.Entry) bool
}

// About is the same question about what a query says.
func (q Question) About(query Query) Question {
	q.All, q.None, _ = query.Terms()
	q.Match = query.MatchEntry
	return q
}

// maxOpened bounds how many lines that the index offers are opened, so
// that a frequent word costs no more than a rare one.
const maxOpened = 2000

// maxUnindexed bounds how many lines that are not indexed yet are read.
const maxUnindexed = 20_000

// Found is one hit of a search.
type Found struct {
	Info   Info           `json:"session"`
	Seq    int64          `json:"seq"` // of the entry; 0: the title, a tag
	Worker string         `json:"worker,omitempty"`
	At     time.Time      `json:"at"`
	Entry  tidemark.Entry `json:"entry"` // what was matched; a title or label as an entry of that kind
}

// Answer is what a search found, newest first, titles before all else.
type Answer struct {
	Found   []Found
	Cut     bool  // there may be more: bounds were reached
	Behind  int64 // lines that are not indexed yet and were not read either
	Scanned bool  // there is no index that could answer: everything was read
	Damage  error // the first thing that could not be read, and so not be searched
}

// check refuses a role that nothing has.
func (q Question) check() error {
	roles := []string{string(tidemark.System), string(tidemark.User), string(tidemark.Assistant), string(tidemark.Tool), noteTitle, noteLabel, noteTag}
	if q.Role != "" && !slices.Contains(roles, q.Role) {
		return tidemark.Invalidf("role %.40q: want one of %s", q.Role, strings.Join(roles, ", "))
	}
	return nil
}

// Search looks for lines: ErrInvalid for a role that nothing has. It never writes:
// what is not indexed yet is read.
func (s *Store) Search(ctx context.Context, q Question) (Answer, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultHits
	}
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	h := &hunt{s: s, q: q, infos: make(map[string]Info), seen: make(map[place]bool)}
	err := h.within(ctx)
	if err != nil {
		return h.answer, err
	}
	if h.places, err = s.placesOf(ctx, q.Project); err != nil {
		return h.answer, err
	}
	err = h.asIndexed(ctx)
	if errors.Is(err, tidemark.ErrUnsupported) {
		h.answer = Answer{Scanned: true, Damage: h.answer.Damage}
		clear(h.seen)
		err = h.scan(ctx)
	}
	h.sort()
	return h.answer, err
}

// place is what a hit is known by.
type place struct {
	session string
	worker  string
	seq     int64
	kind    string
}

// hunt is one search under way.
type hunt struct {
	s      *Store
	q      Question
	places []string // of the project that is asked for
	answer Answer
	infos  map[string]Info // by name
	seen   map[place]bool
	owner  string // of the one session that is asked for
}

// within finds out whose the session is that is asked for.
func (h *hunt) within(ctx context.Context) error {
	if h.q.Session == "" {
		return nil
	}
	i, err := h.s.Session(ctx, h.q.Session)
	if errors.Is(err, tidemark.ErrNotFound) || h.damaged(err) {
		return nil
	}
	h.owner = i.Owner
	return err
}

// sort puts titles first, then what is new, and cuts to the limit.
func (h *hunt) sort() {
	isTitle := func(f Found) int {
		if f.Entry.Kind == noteTitle {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(h.answer.Found, func(a, b Found) int {
		return cmp.Or(isTitle(a)-isTitle(b), b.At.Compare(a.At))
	})
	if len(h.answer.Found) > h.q.Limit {
		h.answer.Found, h.answer.Cut = h.answer.Found[:h.q.Limit], true
	}
}

func (h *hunt) enough() bool { return len(h.answer.Found) > h.q.Limit }

// asIndexed asks the index, after it read what the index does not have yet.
func (h *hunt) asIndexed(ctx context.Context) error {
	index := h.s.searcher()
	if index == nil || len(h.q.All) == 0 {
		return tidemark.Unsupportedf("no index can answer this")
	}
	if err := h.unindexed(ctx, index); err != nil {
		return err
	}
	opened := 0
	for hit, err := range index.Search(ctx, h.ask()) {
		if err != nil {
			return err
		}
		if h.enough() || opened == maxOpened {
			h.answer.Cut = true
			break
		}
		// The index is newest first to the minute or so.
		if hit.At.Before(h.q.Since.Add(-5 * time.Minute)) {
			break
		}
		opened++
		if err := h.open(ctx, hit.Owner, hit.Log, tidemark.Span{From: hit.Seq, To: hit.Seq}); err != nil {
			return err
		}
	}
	return nil
}

// ask adds the filters that the index has words for.
func (h *hunt) ask() tidemark.IndexQuery {
	a := tidemark.IndexQuery{All: slices.Clone(h.q.All), None: h.q.None}
	for class, values := range map[string][]string{filterRole: {h.q.Role}, filterAgent: {h.q.Agent}, filterProject: h.places} {
		var terms []tidemark.Term
		for _, value := range values {
			if value != "" {
				terms = append(terms, tidemark.Term{Word: filterWord(class, value)})
			}
		}
		if len(terms) > 0 {
			a.All = append(a.All, terms)
		}
	}
	return a
}

// unindexed reads what the index lacks, of each log the newest lines first.
func (h *hunt) unindexed(ctx context.Context, index tidemark.Searcher) error {
	left := int64(maxUnindexed)
	for lag, err := range index.Unindexed(ctx, searched...) {
		if err != nil {
			return err
		}
		n := min(lag.To-lag.From+1, left)
		h.answer.Behind += lag.To - lag.From + 1 - n
		if left -= n; n > 0 {
			if err := h.open(ctx, "", lag.Log, tidemark.Span{From: lag.From, To: lag.To, Newest: int(n), Backwards: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan reads the sessions, the newest first, until there is enough.
func (h *hunt) scan(ctx context.Context) error {
	f := Filter{Project: h.q.Project, Agent: h.q.Agent, Since: h.q.Since, Each: true}
	if h.q.Trash {
		f.State = Trash
	}
	for i, err := range h.s.Sessions(ctx, f) {
		if h.damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if h.q.Session != "" && (i.ID != h.q.Session || i.Owner != h.owner) {
			continue
		}
		h.infos[i.Name()] = i
		of, err := h.s.of(i.Owner)
		if err != nil {
			return err
		}
		for log, err := range of.logsOf(ctx, i.ID) {
			if err != nil {
				return err
			}
			if err := h.open(ctx, i.Owner, log, tidemark.Span{Backwards: true}); err != nil {
				return err
			}
		}
		if h.enough() {
			h.answer.Cut = true
			return nil
		}
	}
	return nil
}

// logsOf lists the logs of a session that can be searched.
func (s *Store) logsOf(ctx context.Context, id tidemark.SessionID) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for _, kind := range []string{kindNotes, kindSession, kindPast} {
			if !yield(keyOf(kind, id), nil) {
				return
			}
		}
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindWorker, Prefix: string(id) + ".", Order: tidemark.ByID}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				err = nil
			}
			if !yield(r.Key, err) || err != nil {
				return
			}
		}
	}
}

// open reads lines of a log of an owner and keeps those that match. Damaged ones
// do not.
func (h *hunt) open(ctx context.Context, owner string, log tidemark.Key, span tidemark.Span) error {
	id, worker := sessionOf(log)
	if h.q.Session != "" && (h.q.Session != id || h.owner != owner) {
		return nil
	}
	of, err := h.s.of(owner)
	if err != nil {
		return err
	}
	i, ok, err := h.info(ctx, of, owner, id)
	if err != nil || !ok {
		return err
	}
	offset := int64(0)
	if log.Kind == kindSession && i.Base != nil {
		offset = i.Base.Seq
	}
	m, err := of.marksOf(ctx, i, worker)
	if err != nil {
		return err
	}
	for l, err := range of.backend.Lines(ctx, log, span) {
		if h.damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if log.Kind == kindSession && l.Seq == 1 {
			h.title(i)
		}
		e, err := searchable(log, l)
		if h.damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if log.Kind != kindNotes {
			e.Seq += offset
			e = m.apply(of, e)
		}
		f := Found{Info: i, Seq: e.Seq, Worker: worker, At: l.At, Entry: e}
		switch {
		case log.Kind == kindNotes && e.Kind == noteTitle && e.Text() != i.Title:
			// It is called otherwise now.
		case h.fits(f, l.Kind):
			if err := h.keep(ctx, f); err != nil {
				return err
			}
		}
		if h.enough() {
			return nil
		}
	}
	return nil
}

// title keeps the title of a session when it matches.
func (h *hunt) title(i Info) {
	e := titleEntry(i.Title)
	f := Found{Info: i, At: i.UpdatedAt, Entry: e}
	if i.Title != "" && h.stateFits(i) && h.fits(f, noteTitle) {
		h.add(f)
	}
}

// fits reports whether a line of the given kind is what is searched for.
func (h *hunt) fits(f Found, kind string) bool {
	q := h.q
	return (q.Role == "" || q.Role == kind) && (q.Agent == "" || q.Agent == f.Info.Agent) &&
		(q.Project == "" || slices.Contains(h.places, f.Info.Project)) && !f.At.Before(q.Since) && q.Match(f.Entry)
}

func (h *hunt) stateFits(i Info) bool { return (i.State == Live) != h.q.Trash }

// keep adds a hit; one in a session that was removed counts for a fork that
// still shares the entry.
func (h *hunt) keep(ctx context.Context, f Found) error {
	if h.stateFits(f.Info) {
		h.add(f)
		return nil
	}
	if f.Worker != "" || f.Seq == 0 || h.q.Trash {
		return nil
	}
	of, err := h.s.of(f.Info.Owner)
	if err != nil {
		return err
	}
	for r, err := range of.backend.List(ctx, tidemark.Query{Kind: kindFork, Prefix: string(f.Info.ID) + ".", Order: tidemark.ByID}) {
		if err != nil {
			return err
		}
		_, fork := sessionOf(r.Key)
		i, ok, err := h.info(ctx, of, f.Info.Owner, tidemark.SessionID(fork))
		if err != nil {
			return err
		}
		if !ok || !h.stateFits(i) || i.Base == nil || i.Base.Seq < f.Seq {
			continue
		}
		v := &View{s: of, Info: i}
		if _, err := v.onPath(ctx, f.Seq); err != nil {
			continue
		}
		// The fork may have masked what it shares.
		m, err := of.marksOf(ctx, i, "")
		if err != nil {
			return err
		}
		if f.Info, f.Entry = i, m.apply(of, f.Entry); h.q.Match(f.Entry) {
			h.add(f)
			return nil
		}
	}
	return nil
}

func (h *hunt) add(f Found) {
	p := place{f.Info.Name(), f.Worker, f.Seq, f.Entry.Kind}
	if f.Entry.Kind == noteTitle {
		p.seq = 0
	}
	if !h.seen[p] {
		h.seen[p] = true
		h.answer.Found = append(h.answer.Found, f)
	}
}

// info returns a session of an owner, false when it is gone or cannot be read.
func (h *hunt) info(ctx context.Context, of *Store, owner string, id tidemark.SessionID) (Info, bool, error) {
	name := tidemark.SessionName(owner, id)
	if i, ok := h.infos[name]; ok {
		return i, i.ID != "", nil
	}
	i, err := of.Session(ctx, id)
	if errors.Is(err, tidemark.ErrNotFound) || h.damaged(err) {
		i, err = Info{}, nil
	}
	if err == nil {
		h.infos[name] = i
	}
	return i, i.ID != "", err
}

// damaged notes a damage that is passed over.
func (h *hunt) damaged(err error) bool {
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return false
	}
	if h.answer.Damage == nil {
		h.answer.Damage = err
	}
	return true
}

// Ref is how people refer to what was found: SESSION@12, SESSION alone for
// the session as a whole, OWNER:SESSION for another's.
func (f Found) Ref() string {
	var b strings.Builder
	b.WriteString(f.Info.Name())
	if f.Seq > 0 && f.Worker == "" {
		b.WriteString("@")
		b.WriteString(strconv.FormatInt(f.Seq, 10))
	}
	return b.String()
}
