package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Machines is what a store remembers of the machines that it shares sessions with, and
// of the remotes where they meet. Package sync keeps it. A store that shares nothing
// has an empty one.
type Machines struct {
	This   string               `json:"this,omitempty"`   // the id of this one
	Others []string             `json:"others,omitempty"` // its ids at other remotes than the first
	Names  map[string]string    `json:"names,omitempty"`  // by id, with this one's
	Met    map[string]time.Time `json:"met,omitempty"`    // when each remote was last met without a fault, by name

	// Writing is what other machines were last heard to write to, and Attended what
	// this one writes to beside what it holds leases of.
	Writing  []Writing                        `json:"writing,omitempty"`
	Attended map[tidemark.SessionID]time.Time `json:"attended,omitempty"`
}

// Writing says that another machine writes to a session. It is advice.
type Writing struct {
	Session tidemark.SessionID `json:"session"`
	Machine string             `json:"machine"` // its name
	Remote  string             `json:"remote"`  // that says so
	HeardAt time.Time          `json:"heard_at"`
}

// HeardWithin is how long a machine that was heard to write to a session is believed
// to go on with it.
const HeardWithin = 2 * time.Minute

// WritesTo returns which other machine writes to a session now, as far as is known; ""
// is none.
func (m Machines) WritesTo(id tidemark.SessionID, now time.Time) (machine string) {
	for _, w := range m.Writing {
		if w.Session == id && now.Sub(w.HeardAt) < HeardWithin {
			return w.Machine
		}
	}
	return ""
}

// Machines returns what the store remembers of other machines.
func (s *Store) Machines(ctx context.Context) (m Machines, err error) {
	_, err = s.Records().Get(ctx, records.MachinesKey, &m)
	return m, err
}

// Meeting is a remote, and when it was last met.
type Meeting struct {
	Remote string    `json:"remote"`
	MetAt  time.Time `json:"met_at"`
}

// Meetings lists the remotes that were ever met, by name.
func (m Machines) Meetings() []Meeting {
	var all []Meeting
	for name, at := range m.Met {
		all = append(all, Meeting{name, at})
	}
	slices.SortFunc(all, func(a, b Meeting) int { return cmp.Compare(a.Remote, b.Remote) })
	return all
}

// one returns one id for all that this machine is called.
func (m Machines) one(id string) string {
	if id == "" || slices.Contains(m.Others, id) {
		return m.This
	}
	return id
}

func (m Machines) name(id string) string { return cmp.Or(m.Names[id], id) }

// birthplaces tells which machine first wrote each entry of a session or worker.
type birthplaces struct {
	records.Origins
	offset int64        // an entry's seq is its line's plus this
	before *birthplaces // of what a fork shares with its source; nil: not known
}

// birthplaces reads where the entries of a session, or of a worker of it, are from.
func (s *Store) birthplaces(ctx context.Context, i Info, worker string) (*birthplaces, error) {
	top := &birthplaces{}
	seen := make(map[tidemark.SessionID]bool)
	for b := top; ; b = b.before {
		if _, err := s.Records().Get(ctx, records.OriginsKey(i.ID, worker), &b.Origins); err != nil {
			return nil, err
		}
		if seen[i.ID] = true; worker != "" || i.Base == nil {
			return top, nil
		}
		b.offset = i.Base.Seq
		if i.Base.Owned || seen[i.Base.Session] {
			return top, nil
		}
		var err error
		if i, err = s.Session(ctx, i.Base.Session); err != nil {
			return nil, err
		}
		b.before = &birthplaces{}
	}
}

// at returns the id of the machine that first wrote an entry, "" if that was this one,
// and whether it is known. A marker that holds the head in place stands for what it
// points at.
func (b *birthplaces) at(seq int64) (machine string, known bool) {
	for b != nil && seq <= b.offset {
		b = b.before
	}
	if b == nil {
		return "", false
	}
	if to, is := b.Markers[seq-b.offset]; is && to < seq {
		return b.at(to)
	}
	machine, _, _ = b.Born(seq - b.offset)
	return machine, true
}

// setMachines says of each node which machine wrote it.
func (v *View) setMachines(ctx context.Context, nodes []Node) error {
	if v.Owner != "" || len(nodes) == 0 {
		return nil
	}
	m, err := v.s.Machines(ctx)
	if err != nil || m.This == "" {
		return err
	}
	b, err := v.s.birthplaces(ctx, v.Info, v.worker)
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
		return nil // Verify reports it
	}
	if err != nil {
		return err
	}
	written := map[int64]string{-1: m.This} // by the number of the node
	for i := range nodes {
		n := &nodes[i]
		id, known := b.at(n.First)
		if !known {
			continue
		}
		id = m.one(id)
		before, has := written[n.Parent]
		n.Machine, n.Moved, written[n.Number] = m.name(id), has && id != before, id
	}
	return nil
}

// SetMachines says of each session which machine wrote the entry that it goes on from,
// unless that was this one.
func (s *Store) SetMachines(ctx context.Context, sessions []Info) error {
	m, err := s.Machines(ctx)
	if err != nil || m.This == "" {
		return err
	}
	for n := range sessions {
		i := &sessions[n]
		if i.Owner != "" || i.ID == "" {
			continue
		}
		b, err := s.birthplaces(ctx, *i, "")
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			continue // Verify reports it
		}
		if err != nil {
			return err
		}
		if id, known := b.at(i.Entries); known && m.one(id) != m.This {
			i.Machine = m.name(id)
		}
	}
	return nil
}
