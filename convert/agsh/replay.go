package agsh

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// replay turns the log of a session into entries. Later versions never change a
// row: a rewind and a compaction are rows that say how many messages of what the
// model sees they replace. So what the model sees is tracked in addition to the
// tree, by id and fingerprint only.
type replay struct {
	view  []seen            // what the model sees
	tip   string            // the entry that the next one follows, "": none
	last  string            // the entry that was yielded last
	time  time.Time         // of the last row that has one
	known map[string]string // parent and fingerprint to id; nil for a log without events
	kept  map[string]int    // by the row of a compaction: how many rows after it repeat
	tail  []seen            // what is being repeated
	folds map[uint64]fold   // compactions, by the fingerprint of the summary
}

// fold is a compaction that a session may return to.
type fold struct {
	id   string
	tail []seen // what it kept
}

// seen is a message that the model sees.
type seen struct {
	id, tip string
	sum     uint64
}

// newReplay takes the result of a survey, nil for a log without events.
func newReplay(kept map[string]int) *replay {
	r := &replay{kept: kept}
	if kept != nil {
		r.known, r.folds = map[string]string{}, map[uint64]fold{}
	}
	return r
}

// next returns the entries that a row adds.
func (r *replay) next(w row) ([]convert.Entry, error) {
	switch w.role {
	case roleBoundary:
		return r.compact(w)
	case roleRepair:
		return r.repair(w)
	}
	if len(r.tail) > 0 && isMessage(w.role) {
		r.view = append(r.view, seen{r.tail[0].id, r.tip, r.tail[0].sum})
		r.tail = r.tail[1:]
		return nil, nil
	}
	return r.add(w)
}

// add appends a message.
func (r *replay) add(w row) ([]convert.Entry, error) {
	entries, err := decode(w)
	if err != nil {
		return nil, err
	}
	parent := r.tip
	for i := range entries {
		r.place(&entries[i])
	}
	switch {
	case isMessage(w.role):
		r.see(parent, sum(w))
	case len(r.view) > 0:
		// An unknown event belongs to the message before it.
		r.view[len(r.view)-1].tip = r.tip
	}
	return entries, nil
}

// isMessage reports whether the model sees a row of that role.
func isMessage(role string) bool {
	return role == roleUser || role == roleBlocks || role == roleAssistant || role == roleResults
}

// see makes the entry at the tip the next one that the model sees.
func (r *replay) see(parent string, sum uint64) {
	r.view = append(r.view, seen{r.tip, r.tip, sum})
	if r.known != nil {
		r.known[edge(parent, sum)] = r.tip
	}
}

// place puts an entry after the tip.
func (r *replay) place(e *convert.Entry) {
	e.Parent = r.tip
	if r.tip == "" {
		e.Parent = convert.Root
	}
	if e.At.IsZero() {
		e.At = r.time
	}
	r.time = e.At
	r.tip, r.last = e.ID, e.ID
}

func (r *replay) compact(w row) ([]convert.Entry, error) {
	b, err := parseBoundary(w.content)
	if err != nil {
		return nil, err
	}
	blocks, err := decodeBlocks(b.Summary.Content, 0)
	if err != nil {
		return nil, err
	}
	at, raw := parseTime(w.at)
	n := note{CreatedAt: raw, Boundary: b.rest, Kept: r.kept[w.id]}
	e := convert.Entry{ID: w.id, Entry: tidemark.Entry{At: at, Kind: convert.KindCompaction, Blocks: blocks}}
	if role, content := encode(e, n); role != w.role || !convert.SameJSON([]byte(content), []byte(w.content)) {
		n.Role, n.Content = w.role, w.content
	}
	e.Extra = n.extra()
	parent := r.tip
	r.place(&e)
	gone := r.cut(b.ReplacedCount)
	mark := sum(b.Summary.row(w.id, w.at))
	r.see(parent, mark)
	r.tail = gone[max(0, len(gone)-r.kept[w.id]):]
	if r.folds != nil {
		r.folds[mark] = fold{w.id, r.tail}
	}
	return []convert.Entry{e}, nil
}

// repair goes back. Messages that it puts in place and that existed before are
// not new entries: the session returned to a branch.
func (r *replay) repair(w row) ([]convert.Entry, error) {
	p, err := parseRepair(w.content)
	if err != nil {
		return nil, err
	}
	r.cut(p.ReplacedCount)
	r.tip = ""
	if len(r.view) > 0 {
		r.tip = r.view[len(r.view)-1].tip
	}
	var added []convert.Entry
	var tail []seen
	for i, m := range p.Messages {
		one := m.row(w.id+"."+strconv.Itoa(i+1), w.at)
		mark := sum(one)
		if len(tail) > 0 && tail[0].sum == mark {
			r.view, tail = append(r.view, seen{tail[0].id, r.tip, mark}), tail[1:]
			continue
		}
		if id, there := r.before(mark); there {
			if f := r.folds[mark]; f.id == id {
				tail = f.tail
			}
			r.tip = id
			r.view = append(r.view, seen{id, id, mark})
			continue
		}
		entries, err := r.add(one)
		if err != nil {
			return added, err
		}
		added = append(added, entries...)
	}
	return added, nil
}

// before finds an entry after the tip with the same content. When the model sees
// nothing, it may be a compaction, which replaces everything before it.
func (r *replay) before(mark uint64) (id string, there bool) {
	if id, there = r.known[edge(r.tip, mark)]; there || len(r.view) > 0 {
		return id, there
	}
	f, there := r.folds[mark]
	return f.id, there
}

// cut removes the last n messages from what the model sees, and returns them.
func (r *replay) cut(n int) []seen {
	at := max(0, len(r.view)-n)
	gone := append([]seen(nil), r.view[at:]...)
	r.view, r.tail = r.view[:at], nil
	return gone
}

func edge(parent string, sum uint64) string { return parent + "\x00" + strconv.FormatUint(sum, 36) }

// sum is a fingerprint of the content of a row, without its time.
func sum(w row) uint64 {
	h := fnv.New64a()
	h.Write([]byte(w.role))
	h.Write([]byte{0})
	h.Write([]byte(w.content))
	return h.Sum64()
}

// maxKept bounds the search for what a compaction repeats: it keeps a tail of
// some thousand tokens.
const maxKept = 1000

// survey finds what each compaction repeats: the messages that it keeps are
// written again after it. It is fed the rows in order.
type survey struct {
	events []surveyed
}

type surveyed struct {
	id       string
	sum      uint64
	cut      int      // messages that it replaces
	put      []uint64 // messages that it puts in place; of a message: itself
	boundary bool
	message  bool
}

func (s *survey) add(w row) {
	switch {
	case isMessage(w.role):
		s.events = append(s.events, surveyed{id: w.id, sum: sum(w), put: []uint64{sum(w)}, message: true})
	case w.role == roleBoundary:
		if b, err := parseBoundary(w.content); err == nil {
			s.events = append(s.events, surveyed{id: w.id, cut: b.ReplacedCount, put: []uint64{sum(b.Summary.row("", ""))}, boundary: true})
		}
	case w.role == roleRepair:
		if p, err := parseRepair(w.content); err == nil {
			e := surveyed{id: w.id, cut: p.ReplacedCount}
			for _, m := range p.Messages {
				e.put = append(e.put, sum(m.row("", "")))
			}
			s.events = append(s.events, e)
		}
	}
}

// kept returns how many rows after each compaction repeat what was before it.
func (s *survey) kept() map[string]int {
	kept := map[string]int{}
	var view []uint64
	for i, e := range s.events {
		at := max(0, len(view)-e.cut)
		if e.boundary {
			if n := repeated(view[at:], s.events[i+1:]); n > 0 {
				kept[e.id] = n
			}
		}
		view = append(view[:at], e.put...)
	}
	return kept
}

// repeated returns the length of the longest suffix of gone that next begins
// with.
func repeated(gone []uint64, next []surveyed) int {
	for n := min(len(gone), len(next), maxKept); n > 0; n-- {
		same := true
		for i, sum := range gone[len(gone)-n:] {
			if !next[i].message || next[i].sum != sum {
				same = false
				break
			}
		}
		if same {
			return n
		}
	}
	return 0
}
