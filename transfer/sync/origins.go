package sync

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/store"
)

// origins is the record that says which lines of a log here are which lines on other
// machines, and what was last agreed about the session. It is committed together
// with the lines that it speaks of.
type origins struct {
	records.Origins
	Read map[string]int64 `json:"read,omitempty"` // how many lines of a machine's log were read
	// Branches are the labels that sync gave to what other machines went on with.
	// They stay here, too.
	Branches  map[string]int64           `json:"branches,omitempty"`
	Base      *Name                      `json:"base,omitempty"`
	Registers map[string]register        `json:"registers,omitempty"`
	Seen      map[string]json.RawMessage `json:"seen,omitempty"` // what the session said when that was last compared

	key     tidemark.Key
	version int64
	changed bool
}

type run = records.Run

func loadOrigins(ctx context.Context, k *records.Kernel, id tidemark.SessionID, worker string) (*origins, error) {
	o := &origins{key: records.OriginsKey(id, worker)}
	r, err := k.Get(ctx, o.key, o)
	if err != nil {
		return nil, err
	}
	o.version = r.Version
	return o, nil
}

// record returns the record that replaces the one that was loaded.
func (o *origins) record() (tidemark.Record, error) { return records.Put(o.key, o.version, o) }

// save commits the record by itself.
func (o *origins) save(ctx context.Context, k *records.Kernel) error {
	if !o.changed {
		return nil
	}
	r, err := o.record()
	if err == nil {
		_, err = k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	}
	if err != nil {
		return err
	}
	o.version, o.changed = o.version+1, false
	return nil
}

// add adds a run, which may go on where an earlier one ends.
func (o *origins) add(r run) {
	o.changed = true
	for i := len(o.Runs) - 1; i >= 0 && i >= len(o.Runs)-4; i-- {
		last := &o.Runs[i]
		if last.Machine == r.Machine && last.Born == r.Born && last.Via == r.Via && last.Local+last.Count == r.Local && last.Line+last.Count == r.Line {
			last.Count += r.Count
			return
		}
	}
	o.Runs = append(o.Runs, r)
}

// find returns the line here that is a line of a machine.
func (o *origins) find(machine string, line int64) (int64, bool) {
	for i := len(o.Runs) - 1; i >= 0; i-- {
		if r := &o.Runs[i]; r.Machine == machine && r.Line <= line && line < r.Line+r.Count {
			return r.Local + line - r.Line, true
		}
	}
	return 0, false
}

// born returns what a line here is called everywhere.
func (o *origins) born(local int64) (Name, bool) {
	machine, line, ok := o.Born(local)
	return Name{Machine: machine, Line: line}, ok
}

// via returns the line of another machine that a line here came as, by a remote, and
// how many from there on came so.
func (o *origins) via(remote string, local int64, known func(machine string) bool) (same, bool) {
	for i := len(o.Runs) - 1; i >= 0; i-- {
		if r := &o.Runs[i]; r.Via == remote && r.Local <= local && local < r.Local+r.Count && known(r.Machine) {
			return same{Machine: r.Machine, Line: r.Line + local - r.Local, Count: r.Count - (local - r.Local)}, true
		}
	}
	return same{}, false
}

// name gives the lines up to a length that have no name yet that of this machine.
func (o *origins) name(machine string, length int64) {
	for local := int64(1); local <= length; {
		next, named := o.nextUnnamed(local, length)
		if next > length {
			return
		}
		end := named
		o.add(run{Local: next, Count: end - next, Machine: machine, Line: next, Born: true})
		local = end
	}
}

// nextUnnamed returns the first line from one on that has no name, and the first
// after that that has one.
func (o *origins) nextUnnamed(from, length int64) (first, end int64) {
	first = from
	for moved := true; moved; {
		moved = false
		for i := range o.Runs {
			if r := &o.Runs[i]; r.Born && r.Local <= first && first < r.Local+r.Count {
				first, moved = r.Local+r.Count, true
			}
		}
	}
	end = length + 1
	for i := range o.Runs {
		if r := &o.Runs[i]; r.Born && r.Local > first {
			end = min(end, r.Local)
		}
	}
	return first, end
}

// saw reports whether a machine had all lines here up to a length, as far as it said.
func (o *origins) saw(machine string, length int64) bool {
	for local := int64(1); local <= length; {
		next := int64(0)
		for i := range o.Runs {
			if r := &o.Runs[i]; r.Machine == machine && r.Local <= local && local < r.Local+r.Count {
				next = max(next, r.Local+r.Count)
			}
		}
		if _, is := o.Markers[local]; is && next == 0 {
			next = local + 1
		}
		if next == 0 {
			return false
		}
		local = next
	}
	return true
}

// nameOf returns what an entry is called everywhere: ErrNotFound when it has no name.
func (y *syncer) nameOf(ctx context.Context, id tidemark.SessionID, seq int64) (Name, error) {
	i, err := y.s.Session(ctx, id)
	if err != nil {
		return Name{}, err
	}
	o, err := loadOrigins(ctx, y.k, id, "")
	if err != nil {
		return Name{}, err
	}
	offset := offsetOf(i.Base)
	if to, is := o.Markers[seq-offset]; is {
		seq = to
	}
	if seq <= offset {
		past, err := y.pastOf(ctx, i)
		if err != nil {
			return Name{}, err
		}
		n := Name{Session: id, Past: past.at(seq)}
		if n.Past == 0 {
			return n, tidemark.NotFoundf("entry %d of session %s: not before it", seq, id)
		}
		return n, nil
	}
	n, ok := o.born(seq - offset)
	if !ok {
		return n, tidemark.NotFoundf("entry %d of session %s: has no name yet", seq, id)
	}
	n.Session = id
	return n, nil
}

// seqOf returns the seq of an entry here: ErrNotFound.
func (y *syncer) seqOf(ctx context.Context, n Name) (int64, error) {
	i, err := y.s.Session(ctx, n.Session)
	if err != nil {
		return 0, err
	}
	if n.Past > 0 {
		past, err := y.pastOf(ctx, i)
		if err == nil && n.Past > int64(len(past.seqs)) {
			err = tidemark.NotFoundf("entry %d before session %s: not here", n.Past, n.Session)
		}
		if err != nil {
			return 0, err
		}
		return past.seqs[n.Past-1], nil
	}
	o, err := loadOrigins(ctx, y.k, n.Session, "")
	if err != nil {
		return 0, err
	}
	local, ok := o.find(n.Machine, n.Line)
	if !ok {
		return 0, tidemark.NotFoundf("line %d of machine %s in session %s: not here", n.Line, n.Machine, n.Session)
	}
	return local + offsetOf(i.Base), nil
}

// past is the way to the entry that a fork begins after.
type past struct {
	of   tidemark.SessionID
	base tidemark.Base
	seqs []int64         // its entries
	to   map[int64]int64 // its branch markers, with the seq that each points at
}

// at returns the place of an entry on the way, from 1 on; 0: it is not on it.
func (p *past) at(seq int64) int64 {
	for to, is := p.to[seq]; is && to < seq; to, is = p.to[seq] {
		seq = to
	}
	at, found := slices.BinarySearch(p.seqs, seq)
	return int64(at+1) * int64(btoi(found))
}

// pastOf returns the way to a fork.
func (y *syncer) pastOf(ctx context.Context, i store.Info) (*past, error) {
	if i.Base == nil {
		return &past{}, nil
	}
	if y.past != nil && y.past.of == i.ID && y.past.base == *i.Base {
		return y.past, nil
	}
	v, err := y.s.ViewOf(i)
	if err != nil {
		return nil, err
	}
	p := &past{of: i.ID, base: *i.Base, to: make(map[int64]int64)}
	for e, err := range v.LogRange(ctx, 1, i.Base.Seq) {
		if err != nil {
			return nil, err
		}
		switch e.Kind {
		case tidemark.KindGap:
		case tidemark.KindBranch:
			p.to[e.Seq] = e.Parent
		default:
			p.seqs = append(p.seqs, e.Seq)
		}
	}
	y.past = p
	return p, nil
}

func offsetOf(b *tidemark.Base) int64 {
	if b == nil {
		return 0
	}
	return b.Seq
}

// isAbsent reports whether an error only says that something is not here.
func isAbsent(err error) bool { return errors.Is(err, tidemark.ErrNotFound) }
