package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// newIndex returns a search index that is kept in a Backend.
func (s *Store) newIndex(b tidemark.Backend, o index.Options) *index.Index {
	k := records.New(b, records.Options{Now: s.o.Now, Dead: s.o.Dead, Lease: s.o.Lease})
	o.Holder = process.Self("search index")
	return index.New(k, o)
}

// datedBack adds a note to a batch of an import.
func (s *Store) datedBack(b *tidemark.Batch) {
	if s.index == nil || errors.Is(s.mayIndex(context.Background()), tidemark.ErrUnsupported) {
		return
	}
	noted := make(map[tidemark.SessionID]bool)
	for _, a := range b.Appends {
		id, _ := sessionOf(a.Log)
		if noted[id] || !slices.Contains(searched, a.Log.Kind) {
			continue
		}
		noted[id] = true
		note := tidemark.NoteUnindexed(id)
		b.Puts = append(b.Puts, note)
		s.beside.Load().expect(note.Key)
	}
}

// source tells the index of sessions and their words.
type source struct {
	s *Store
	// others says that the logs of others are told of, too, named with their owners.
	others bool
	// me, for who keeps the index of a scope, is the scope itself: its own logs are
	// named, too.
	me string
	// told, if noted, are the notes that there are. A search reads them before it looks
	// at an index: one that is deleted between the two is of what the index has.
	told  []tidemark.Record
	noted bool
}

// whose returns the owner that a log is named with, and whether it is told of.
func (x source) whose(owner string) (named string, tell bool) {
	if owner == "" {
		owner = x.me
	}
	return owner, owner == "" || x.others
}

// of returns the part of the store that an owner keeps.
func (x source) of(owner string) (*Store, error) { return x.s.of(owner) }

// newestFirst and newestNext are how many records are listed before all are: mostly
// few have changed since everything was looked at, and a backend reads as many as it
// is asked for, also when the first is old enough.
const (
	newestFirst = 4
	newestNext  = 64
)

// Touched implements index.Source.
func (x source) Touched(ctx context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		t := &telling{x: x, ctx: ctx, since: since, yield: yield, seen: make(map[tidemark.Key]bool)}
		if !t.noted() {
			return
		}
		for _, of := range []struct {
			kind string
			look func(*Store, string, tidemark.Record) bool
		}{
			{kindSession, func(s *Store, owner string, r tidemark.Record) bool {
				return t.tell(owner, r.Key, r.Head.Length) && t.session(s, owner, tidemark.SessionID(r.ID))
			}},
			{kindWorker, func(_ *Store, owner string, r tidemark.Record) bool {
				return t.tell(owner, r.Key, r.Head.Length)
			}},
			// A label touches nothing but its name.
			{kindName, func(s *Store, owner string, r tidemark.Record) bool {
				id, _ := sessionOf(r.Key)
				return t.session(s, owner, id)
			}},
		} {
			if of.kind == kindName && since.IsZero() {
				continue // all sessions were listed
			}
			if !t.list(of.kind, of.look) {
				return
			}
		}
	}
}

// telling is one call of Touched.
type telling struct {
	x     source
	ctx   context.Context
	since time.Time
	yield func(index.Log, error) bool
	seen  map[tidemark.Key]bool // logs and sessions
	ahead map[tidemark.Key]got  // by the names that logs have in an index
}

// got is a record that was read, or why it was not.
type got struct {
	r   tidemark.Record
	err error
}

// tell yields a log, once, if there is one.
func (t *telling) tell(owner string, key tidemark.Key, length int64) bool {
	key = index.WithOwner(key, owner)
	if t.seen[key] || length == 0 {
		return true
	}
	t.seen[key] = true
	return t.yield(index.Log{Key: key, Length: length}, nil)
}

// failed yields an error, and reports whether to go on.
func (t *telling) failed(err error) bool {
	return t.yield(index.Log{}, err) && errors.Is(err, tidemark.ErrCorrupt)
}

// list looks at the records of a kind that were touched since the time.
func (t *telling) list(kind string, look func(*Store, string, tidemark.Record) bool) bool {
	q := tidemark.Query{Kind: kind, Each: t.x.others}
	if !t.since.IsZero() {
		q.Limit = newestFirst
	}
	for {
		n, over := 0, false
		var some []tidemark.Record
		for r, err := range t.x.s.backend.List(t.ctx, q) {
			if n++; err != nil {
				if !t.failed(err) {
					return false
				}
				continue
			}
			if over = r.Touched().Before(t.since); over {
				break
			}
			if _, tell := t.x.whose(r.Owner); !tell {
				continue
			}
			if some = append(some, r); len(some) < newestNext {
				continue
			}
			if !t.lookAt(some, look) {
				return false
			}
			some = some[:0]
		}
		if !t.lookAt(some, look) {
			return false
		}
		if over {
			return true
		}
		if q.Limit == 0 || n < q.Limit {
			return true
		}
		// What is touched meanwhile moves, so it begins again.
		if q.Limit == newestFirst {
			q.Limit = newestNext
		} else {
			q.Limit = 0
		}
	}
}

// lookAt looks at records. Where each call takes a round trip, what these lead to is
// read beside each other before.
func (t *telling) lookAt(some []tidemark.Record, look func(*Store, string, tidemark.Record) bool) bool {
	t.ahead = nil
	if len(some) > 1 && t.x.s.isFar(t.ctx) && some[0].Kind != kindWorker {
		if err := t.readAhead(some); err != nil {
			return t.failed(err)
		}
	}
	for _, r := range some {
		owner, _ := t.x.whose(r.Owner)
		s, err := t.x.of(owner)
		if err != nil {
			return t.failed(err)
		}
		if !look(s, owner, r) {
			return false
		}
	}
	return true
}

// readAhead reads the records of the logs of the sessions of some records.
func (t *telling) readAhead(some []tidemark.Record) error {
	type one struct {
		s         *Store
		key, name tidemark.Key
		got
	}
	var all []*one
	for _, r := range some {
		owner, _ := t.x.whose(r.Owner)
		s, err := t.x.of(owner)
		if err != nil {
			return err
		}
		id, _ := sessionOf(r.Key)
		for _, kind := range logsOfSession {
			key := keyOf(kind, id)
			if name := index.WithOwner(key, owner); !t.seen[name] && key != r.Key {
				all = append(all, &one{s: s, key: key, name: name})
			}
		}
	}
	_ = sideBySide(len(all), readsBeside, func(i int) error {
		o := all[i]
		o.r, o.err = o.s.backend.Get(t.ctx, o.key)
		return nil
	})
	t.ahead = make(map[tidemark.Key]got, len(all))
	for _, o := range all {
		t.ahead[o.name] = o.got
	}
	return nil
}

// get reads the record of a log of an owner, unless that was done.
func (t *telling) get(s *Store, owner string, key tidemark.Key) (tidemark.Record, error) {
	if g, ok := t.ahead[index.WithOwner(key, owner)]; ok {
		return g.r, g.err
	}
	return s.backend.Get(t.ctx, key)
}

// logsOfSession are the kinds of logs that a session has beside those of its workers.
var logsOfSession = []string{kindSession, kindNotes, kindPast}

// session yields the logs that a session has beside those of its workers.
func (t *telling) session(s *Store, owner string, id tidemark.SessionID) bool {
	if name := (tidemark.Key{ID: tidemark.SessionName(owner, id)}); t.seen[name] {
		return true
	} else {
		t.seen[name] = true
	}
	for _, kind := range logsOfSession {
		key := keyOf(kind, id)
		if t.seen[index.WithOwner(key, owner)] {
			continue
		}
		r, err := t.get(s, owner, key)
		switch {
		case errors.Is(err, tidemark.ErrNotFound):
		case err != nil:
			if !t.failed(err) {
				return false
			}
		case owner == "" && r.Owner != "": // another's, that has the same id
		case !t.tell(owner, key, r.Head.Length):
			return false
		}
	}
	return true
}

// workers yields the logs of the workers of a session.
func (t *telling) workers(s *Store, owner string, id tidemark.SessionID) bool {
	for r, err := range s.backend.List(t.ctx, tidemark.Query{Kind: kindWorker, Prefix: string(id) + ".", Order: tidemark.ByID}) {
		if err != nil {
			if !t.failed(err) {
				return false
			}
		} else if !t.tell(owner, r.Key, r.Head.Length) {
			return false
		}
	}
	return true
}

// noted yields the logs of sessions that notes name, and the notes.
func (t *telling) noted() bool {
	if t.x.noted {
		return !slices.ContainsFunc(t.x.told, func(r tidemark.Record) bool { return !t.note(r) })
	}
	for r, err := range t.x.s.unindexed(t.ctx, false) {
		if err == nil && !t.note(r) || err != nil && !t.failed(err) {
			return false
		}
	}
	return true
}

// note yields the logs of the session that a note names, and the note, which is
// deleted when they are indexed.
func (t *telling) note(r tidemark.Record) bool {
	id, _ := sessionOf(r.Key)
	s, err := t.x.of(r.Group)
	if err != nil {
		return t.failed(err)
	}
	return t.session(s, r.Group, id) && t.workers(s, r.Group, id) &&
		t.yield(index.Log{Key: tidemark.Key{Kind: kindSession, ID: r.ID}, Note: tidemark.Precondition{Key: r.Key, Version: r.Version}}, nil)
}

// unindexed yields the notes of sessions that have to be looked at for an index: the
// own one, or that of a scope. The tenant itself has both.
func (s *Store) unindexed(ctx context.Context, shared bool) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: tidemark.KindUnindexed, Order: tidemark.ByID}) {
			if (err != nil || shared == (r.Group != "")) && !yield(r, err) {
				return
			}
		}
	}
}

// Length implements index.Source.
func (x source) Length(ctx context.Context, log tidemark.Key) (int64, error) {
	owner, log := index.CutOwner(log)
	s, err := x.of(owner)
	if err != nil {
		return 0, err
	}
	r, err := s.backend.Get(ctx, log)
	return r.Head.Length, err
}

// Lines implements index.Source.
func (x source) Lines(ctx context.Context, log tidemark.Key, span tidemark.Span) iter.Seq2[tidemark.Line, error] {
	owner, log := index.CutOwner(log)
	s, err := x.of(owner)
	if err != nil {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, err) }
	}
	return s.backend.Lines(ctx, log, span)
}

// Words implements index.Source.
func (x source) Words(ctx context.Context, log tidemark.Key) (index.Words, error) {
	owner, log := index.CutOwner(log)
	s, err := x.of(owner)
	if err != nil {
		return nil, err
	}
	about, err := s.about(ctx, log)
	if err != nil {
		return nil, err
	}
	return s.wordsOf(ctx, log, about)
}

// wordsOf returns a function that says which words a line of a log has.
func (s *Store) wordsOf(ctx context.Context, log tidemark.Key, about Info) (index.Words, error) {
	_, worker := sessionOf(log)
	m, err := s.marksOf(ctx, about, worker)
	if err != nil {
		return nil, err
	}
	offset := int64(0)
	if log.Kind == kindSession && about.Base != nil {
		offset = about.Base.Seq
	}
	return func(l tidemark.Line, put func([]byte, int)) {
		e, err := searchable(log, l)
		if err != nil || structural(e) && l.Seq != 1 {
			return
		}
		if log.Kind != kindNotes {
			e.Seq += offset
			e = m.apply(s, e)
		}
		s.placeWords(about.Session, log, l, e, put)
	}, nil
}

// filterOverflow is the class of the filter word of an entry of which not all words are
// indexed.
const filterOverflow = "o"

// placeWords puts the words of a line with their places. Those of a title stand
// behind those of the entry that it is found by.
func (s *Store) placeWords(about tidemark.Session, log tidemark.Key, l tidemark.Line, e tidemark.Entry, put func([]byte, int)) {
	next, behind := 0, 0
	words := func(e tidemark.Entry) {
		all := s.o.Places(e, func(word []byte, place int) {
			if place >= 0 {
				place += behind
				next = max(next, place+2)
			}
			put(word, place)
		})
		if behind = next; !all {
			put([]byte(filterWord(filterOverflow, "")), -1)
		}
	}
	filter := func(class, value string) {
		if value != "" {
			put([]byte(segmentWord(filterWord(class, value))), -1)
		}
	}
	words(e)
	filter(filterRole, l.Kind)
	if log.Kind == kindSession && l.Seq == 1 && about.Title != "" {
		words(titleEntry(about.Title))
		filter(filterRole, noteTitle)
	}
	filter(filterAgent, about.Agent)
	filter(filterProject, about.Project)
}

// segmentWord returns a filter word that is no longer than a segment allows: of a
// long one, such as the path of a project, the beginning and a hash.
func segmentWord(word string) string {
	if len(word) <= index.MaxWordBytes {
		return word
	}
	sum := sha256.Sum256([]byte(word))
	return word[:index.MaxWordBytes-32] + hex.EncodeToString(sum[:16])
}

func segmentTerms(terms []tidemark.Term) []tidemark.Term {
	terms = slices.Clone(terms)
	for i := range terms {
		terms[i].Word = segmentWord(terms[i].Word)
	}
	return terms
}

// RewriteIndex takes what was destroyed or masked out of the search index that is
// kept in the store, with the keys of the parts that held it. Nobody finds it
// before that either. On a full disk, which has no room for the rest of what these
// parts hold, the whole index goes, and is made anew when there is room. Without such
// an index there is nothing to do. The indexes of what is shared are rewritten, too,
// where this process may do that; elsewhere the server does it with the change.
func (s *Store) RewriteIndex(ctx context.Context) error {
	if s.index == nil {
		return nil
	}
	err := s.index.Rewrite(ctx)
	if err == nil {
		err = s.index.DropUnfinished(ctx)
	}
	if errors.Is(err, tidemark.ErrStorage) && s.index.Reset(ctx) == nil {
		err = nil
	}
	return errors.Join(err, s.o.Scopes.Settle(ctx, s.backend))
}

// Adopting says that sessions are about to be copied into the store past its rules,
// as an archive is. The caller calls done in the end, whatever came of it: the search
// index has to be looked through, because what was copied looks as old as it is.
func (s *Store) Adopting(ctx context.Context) (done func(context.Context) error, err error) {
	if s.index == nil {
		return func(context.Context) error { return nil }, nil
	}
	id, err := s.index.Adopting(ctx)
	return func(ctx context.Context) error { return s.index.Adopted(ctx, id) }, err
}

// ResetIndex empties the search index that is kept in the store, for callers that
// take logs away past the rules of the store. Without such an index there is nothing
// to do.
func (s *Store) ResetIndex(ctx context.Context) error {
	if s.index == nil {
		return nil
	}
	return s.index.Reset(ctx)
}

// VerifyIndex reads the whole search index that is kept in the store, changes nothing,
// and returns what is wrong with it. ErrUnsupported: there is none.
func (s *Store) VerifyIndex(ctx context.Context) (wrong []error, err error) {
	if s.index == nil {
		return nil, tidemark.Unsupportedf("this store does not keep its search index itself")
	}
	if err := s.mayIndex(ctx); err != nil {
		return nil, err
	}
	wrong, err = s.index.Verify(ctx)
	if errors.Is(err, tidemark.ErrCorrupt) {
		wrong, err = append(wrong, err), nil
	}
	return wrong, err
}

// leave has a batch that removes logs of a session hide them from the index.
func (s *Store) leave(ctx context.Context, b *tidemark.Batch) error {
	if s.index == nil {
		return nil
	}
	var lines []index.Lines
	for _, log := range b.Drops {
		if slices.Contains(searched, log.Kind) {
			lines = append(lines, index.Lines{Log: log, From: 1})
		}
	}
	r, err := s.index.Leave(ctx, lines...)
	b.Puts = append(b.Puts, r)
	return err
}

// renew has a batch that masks an entry take its words out of the index.
func (v *View) renew(ctx context.Context, b *tidemark.Batch, seq int64) error {
	log := keyOf(kindSession, v.ID)
	switch {
	case v.s.index == nil:
		return nil
	case v.worker != "":
		log = keyOf(kindWorker, v.ID, v.worker)
	case v.Base != nil && seq > v.Base.Seq:
		seq -= v.Base.Seq
	case v.Base != nil && v.Base.Owned:
		log = keyOf(kindPast, v.ID)
	case v.Base != nil:
		return nil // the entry is another session's, which shows it as it is
	}
	if _, scopes := v.s.audience(); len(scopes) > 0 { // others may have an index of it
		b.Puts = append(b.Puts, tidemark.NoteUnindexed(v.ID, tidemark.ChangedLines{Log: log, From: seq, To: seq}))
	}
	r, err := v.s.index.Renew(ctx, index.Lines{Log: log, From: seq, To: seq})
	b.Puts = append(b.Puts, r)
	return err
}

// renewAll has a batch that changes what a session is filtered by have all its lines
// indexed again.
func (s *Store) renewAll(ctx context.Context, b *tidemark.Batch, id tidemark.SessionID) error {
	if s.index == nil {
		return nil
	}
	var lines []index.Lines
	var changed []tidemark.ChangedLines
	for log, err := range s.logsOf(ctx, id) {
		if err != nil {
			return err
		}
		lines = append(lines, index.Lines{Log: log, From: 1})
		changed = append(changed, tidemark.ChangedLines{Log: log, From: 1})
	}
	if _, scopes := s.audience(); len(scopes) > 0 { // others may have an index of it
		b.Puts = append(b.Puts, tidemark.NoteUnindexed(id, changed...))
	}
	r, err := s.index.Renew(ctx, lines...)
	b.Puts = append(b.Puts, r)
	return err
}
