package main

import (
	"fmt"
	"slices"
	"sync"
)

// book is the oracle: what was sent, what was acknowledged, and therefore
// what must, may and must not be in the store. It learns only from what
// writers printed and, after each blow, from what a fresh process reads:
// whatever that sees once has to stay.
type book struct {
	mu       sync.Mutex
	shut     bool // what is read from now on does not count: the power is about to go
	sessions []*session
	names    int // for unique texts and titles

	acknowledged                   int
	lost, doubled, unreadable, aid int
	leftovers                      int // how often verify reported something that the next writer repaired
	say                            func(format string, args ...any)
}

// session is one conversation as it should be.
type session struct {
	id     string // "" as long as it is unknown
	base   int64  // up to where a fork shares its past; 0 for no fork
	past   map[int64]string
	sent   []*promise
	title  fact
	state  fact // live, trash or gone
	point  fact // the checkpoint: its version and a word of its body
	labels []label

	branches, maybeBranches int
	busy                    bool // in exclusive use
	touched                 bool // since the last check
	errand                  bool // an errand besides the writer
}

// promise is one entry that was sent.
type promise struct {
	text, key string
	seq       int64 // 0: not acknowledged, and not seen
	told      bool  // acknowledged to its sender
}

// label is a name that was given to an entry.
type label struct {
	text  string
	seq   int64
	acked bool
}

// fact is something that has one value and may be changing to another.
type fact struct {
	now   string
	maybe []string
}

// try records that a change of the fact began.
func (f *fact) try(to string) { f.maybe = append(f.maybe, to) }

// take records that the change was acknowledged, or was seen.
func (f *fact) take(to string) { f.now, f.maybe = to, nil }

func (f *fact) allows(seen string) bool { return seen == f.now || slices.Contains(f.maybe, seen) }

func (f *fact) String() string {
	if len(f.maybe) == 0 {
		return f.now
	}
	return fmt.Sprintf("%s, or one of %q", f.now, f.maybe)
}

// The states of a session in the book. A purge killed half-way may leave a
// session that is purging, until it is purged again.
const (
	live    = "live"
	trash   = "trash"
	gone    = "gone"
	purging = "purging"
)

// canary is in everything that a trial writes, so that a byte scan shows
// whether any of it is kept in the clear.
const canary = "canary"

// name returns a word that was not used before.
func (b *book) name(kind string) string {
	b.names++
	return fmt.Sprintf("%s-%s%d", canary, kind, b.names)
}

// begin records a session that is about to be created.
func (b *book) begin() *session {
	s := &session{title: fact{now: b.name("title")}, state: fact{now: gone}}
	b.sessions = append(b.sessions, s)
	return s
}

// heard records an acknowledgement, unless the book is shut.
func (b *book) heard(note func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut {
		note()
	}
}

// close makes everything read later count for nothing.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = true
}

// kept records that an entry was acknowledged.
func (b *book) kept(s *session, id string, p *promise, seq int64) {
	b.acknowledged++
	switch {
	case s.id == "":
		s.id = id
		s.state.take(live)
	case s.id != id:
		b.fault(&b.lost, "an entry for session %s was acknowledged for %s", s.id, id)
	}
	if p.seq != 0 && p.seq != seq {
		b.fault(&b.doubled, "session %s: %q was kept as %d and is acknowledged as %d", s.id, p.text, p.seq, seq)
	}
	p.seq, p.told = seq, true
}

// fault counts a broken promise and reports it.
func (b *book) fault(count *int, format string, args ...any) {
	*count++
	if b.lost+b.doubled+b.unreadable+b.aid <= 20 {
		b.say(format, args...)
	}
}

// row returns what the book has counted.
func (b *book) row() row {
	return row{acknowledged: b.acknowledged, lost: b.lost, doubled: b.doubled, unreadable: b.unreadable, aid: b.aid}
}

// add takes over the counts of another book.
func (r *row) add(o row) {
	r.acknowledged += o.acknowledged
	r.lost += o.lost
	r.doubled += o.doubled
	r.unreadable += o.unreadable
	r.aid += o.aid
}

// idle returns the sessions that a writer could attach to: known, certainly
// alive, and not in use.
func (b *book) idle() []*session {
	return b.some(func(s *session) bool { return s.state.now == live && !s.errand })
}

// known returns the sessions on which another process may run a command
// beside a writer.
func (b *book) known() []*session {
	return b.some(func(s *session) bool { return s.state.now == live && !s.errand && s.newest() > 0 })
}

// discarded returns the sessions that are certainly in the trash.
func (b *book) discarded() []*session {
	return b.some(func(s *session) bool { return s.state.now == trash && !s.errand })
}

func (b *book) some(is func(*session) bool) (found []*session) {
	for _, s := range b.sessions {
		if s.id != "" && !s.busy && len(s.state.maybe) == 0 && is(s) {
			found = append(found, s)
		}
	}
	return found
}

// newest returns the highest seq whose content is known.
func (s *session) newest() (seq int64) {
	for _, p := range s.sent {
		seq = max(seq, p.seq)
	}
	return seq
}

// unanswered returns the keyed entries that a client would send again: those
// that were never acknowledged, kept or not.
func (s *session) unanswered() (again []*promise) {
	for _, p := range s.sent {
		if p.key != "" && !p.told {
			again = append(again, p)
		}
	}
	return again
}
