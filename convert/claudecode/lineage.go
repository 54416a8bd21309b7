package claudecode

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// A fork is a copy: a new transcript that begins with records of another one
// under the same uuids. Most have no link back, so sessions with the same first
// record are compared. The copy was written at once, while in the original the
// client's notes are between the records.

// kin is what is compared of sessions that share their first record.
type kin struct {
	*source
	ids   map[string]int // the position of each uuid
	times []int64        // Unix milliseconds
	run   int            // records before the first note between them
	late  bool           // a note before the first record is newer than it
	from  string         // the session its records claim to be copied from
}

// lineage gives the sources their ids and finds where forks came from. It
// returns originals before their forks, and files that are not transcripts as
// skips.
func lineage(ctx context.Context, p convert.Source, found []source) (sources []source, skips []error, err error) {
	byID := map[string]int{}
	groups := map[string][]int{}
	for _, s := range found {
		h, known, growth, err := headOf(ctx, p, s.file)
		if err != nil {
			if !convert.IsSkip(err) {
				return nil, nil, err
			}
			skips = append(skips, err)
			continue
		}
		s.head = h
		if len(s.agents) == 0 {
			s.growth = growth
		}
		s.same = known && s.unchanged(p)
		if h.From != h.ID {
			s.copied = h.From
		}
		if other, twice := byID[s.ID]; twice {
			skips = append(skips, convert.Skipf(s.file, "session %s is in %s, too", s.ID, sources[other].file))
			continue
		}
		byID[s.ID] = len(sources)
		groups[h.First] = append(groups[h.First], len(sources))
		sources = append(sources, s)
	}
	for _, group := range groups {
		if len(group) == 1 || !slices.ContainsFunc(group, func(i int) bool { return !sources[i].same }) {
			continue
		}
		for _, i := range group {
			sources[i].same, sources[i].growth = false, nil // where it came from may be another one now
		}
		if err := relate(ctx, p.FS, sources, group); err != nil {
			return nil, nil, err
		}
	}
	return inOrder(sources, byID), skips, nil
}

// peek returns a transcript's first record.
func peek(ctx context.Context, fsys fs.FS, file string) (record, error) {
	t := transcript{fsys: fsys, file: file, mine: notAside, bare: true}
	for it, err := range t.records(ctx, nil) {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return record{}, err
		}
		if it.Session == "" && named(file) == "" {
			return record{}, convert.Skipf(file, "neither its name nor its records say which session it is")
		}
		it.ForkedFrom = slices.Clone(it.ForkedFrom) // the line is gone after this
		return it.record, nil
	}
	f, err := fsys.Open(file)
	if err != nil {
		return record{}, &convert.Skip{What: file, Why: err}
	}
	f.Close()
	return record{}, convert.Skipf(file, "holds no message of Claude Code")
}

func relate(ctx context.Context, fsys fs.FS, sources []source, group []int) error {
	var family []*kin
	for _, i := range group {
		k, err := compared(ctx, fsys, &sources[i])
		if err != nil {
			return err
		}
		family = append(family, k)
	}
	for _, k := range family {
		var best *kin
		most := score{}
		for _, other := range family {
			if other == k {
				continue
			}
			if s := k.likeness(other); s.after(most) {
				best, most = other, s
			}
		}
		if best != nil {
			k.copied, k.first = best.ID, k.own(best)
		} else if k.from == "" || k.from == k.ID {
			k.copied = ""
		}
	}
	return nil
}

func compared(ctx context.Context, fsys fs.FS, s *source) (*kin, error) {
	k := &kin{source: s, ids: map[string]int{}}
	t := transcript{fsys: fsys, file: s.file, mine: notAside}
	var noted time.Time
	broken := false
	see := func(r record) {
		if at := r.at(); len(k.times) == 0 && at.After(noted) {
			noted = at
		}
	}
	for it, err := range t.records(ctx, see) {
		if err != nil {
			if convert.IsSkip(err) {
				continue
			}
			return nil, err
		}
		at := it.at()
		switch {
		case len(k.times) == 0:
			// Clients write a note of a prompt seconds at most before its
			// record.
			k.late = !at.IsZero() && noted.Sub(at) > time.Second
			k.run = 1
		case len(it.before) > 0:
			broken = true
		case !broken:
			k.run++
		}
		if from := convert.Field(it.ForkedFrom, "sessionId"); from != "" {
			k.from = from
		}
		k.ids[it.UUID] = len(k.times)
		k.times = append(k.times, at.UnixMilli())
	}
	return k, nil
}

// score ranks the sessions that one may be a copy of.
type score struct {
	shared int
	sure   bool // the other one is certainly not a copy of this part
	said   bool // the records name it
	born   int64
	id     string
}

// likeness is how likely a session is a copy of another one; if nothing is
// shared it is not.
func (k *kin) likeness(other *kin) score {
	shared, lastHere, lastThere := 0, 0, 0
	for id, here := range k.ids {
		if there, ok := other.ids[id]; ok {
			shared++
			lastHere, lastThere = max(lastHere, here), max(lastThere, there)
		}
	}
	if shared == 0 {
		return score{}
	}
	said := k.from == other.ID
	here, there := lastHere < k.run, lastThere < other.run
	switch {
	case said:
	case other.from == k.ID, !here && there:
		return score{}
	case here == there:
		// Either may be the copy: the original continued first.
		if k.late != other.late {
			here = k.late
		} else {
			a, b := k.own(other), other.own(k)
			here = a > b || a == b && k.ID > other.ID
		}
		if !here {
			return score{}
		}
	}
	return score{shared: shared, sure: !there, said: said, born: other.own(k), id: other.ID}
}

func (s score) after(t score) bool {
	b := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(s.shared, t.shared), cmp.Compare(b(s.sure), b(t.sure)), cmp.Compare(b(s.said), b(t.said)),
		cmp.Compare(t.born, s.born), cmp.Compare(t.id, s.id)) > 0
}

// own is when the first record that is not another session's was written.
func (k *kin) own(other *kin) int64 {
	if other == nil {
		return 0
	}
	first := -1
	for id, here := range k.ids {
		if _, shared := other.ids[id]; !shared && (first < 0 || here < first) {
			first = here
		}
	}
	if first < 0 {
		return k.times[len(k.times)-1]
	}
	return k.times[first]
}

// inOrder puts originals before their forks. A cycle, which only a damaged store
// has, is cut where it is found.
func inOrder(sources []source, byID map[string]int) []source {
	var ordered []source
	state := make([]int, len(sources))
	for i := range sources {
		var chain []int
		for at, ok := i, true; ok && state[at] == 0; at, ok = follow(byID, sources[at].copied) {
			state[at] = 1
			chain = append(chain, at)
		}
		if n := len(chain); n > 0 {
			if next, ok := byID[sources[chain[n-1]].copied]; ok && slices.Contains(chain, next) {
				sources[chain[n-1]].copied = ""
			}
		}
		for _, at := range slices.Backward(chain) {
			ordered = append(ordered, sources[at])
		}
	}
	return ordered
}

func follow(m map[string]int, key string) (int, bool) {
	at, ok := m[key]
	return at, ok
}
