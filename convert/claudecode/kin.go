package claudecode

import (
	"cmp"
	"context"
	"hash/maphash"
	"io/fs"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// A fork is a copy: a new transcript that begins with records of another one
// under the same uuids. Most have no link back, so sessions with the same first
// record are compared. The copy was written at once, while in the original the
// client's notes are between the records.
//
// A script may make thousands of forks of one session. Those are not compared with
// each other: each is compared with the convert.MaxKin that are most likely originals,
// and what was found is kept, so that the next one costs no more than the first.

// placement is where a session has its place among those that share its first record.
type placement struct {
	Copied string `json:"copied,omitempty"` // the session that its beginning was copied from
	Own    int64  `json:"own,omitempty"`    // when its own part began, in Unix milliseconds; 0: not known

	Late  bool  `json:"late,omitempty"`  // as in kin
	Run   int   `json:"run,omitempty"`   // as in kin
	Ended int64 `json:"ended,omitempty"` // when its last record was written

	// Settled says that it stays there when it, or another one, goes on.
	Settled bool `json:"settled,omitempty"`
}

// same reports whether a session is at the same place.
func (p *placement) same(q *placement) bool {
	return p != nil && q != nil && p.Copied == q.Copied && p.Own == q.Own && p.Settled == q.Settled
}

// kin is what is compared of sessions that share their first record.
type kin struct {
	*source
	ids   map[uint64]int // the position of each uuid, by its hash
	times []int64        // Unix milliseconds
	run   int            // records before the first note between them
	late  bool           // a note before the first record is newer than it
	from  string         // the session its records claim to be copied from
}

// family are the sessions that share their first record.
type family struct {
	fsys    fs.FS
	seed    maphash.Seed
	sources []source
	group   []int
	byID    map[string]int
	elders  []*kin // those that the others are compared with
}

// relate finds where the sessions of a group came from.
func relate(ctx context.Context, fsys fs.FS, sources []source, group []int, byID map[string]int) error {
	f := &family{fsys: fsys, seed: maphash.MakeSeed(), sources: sources, group: group, byID: byID}
	if len(group) == 1 || !slices.ContainsFunc(group, func(i int) bool { return !f.settled(i) }) {
		return nil
	}
	all := len(group) <= convert.MaxKin
	elders, placing := group, group
	if !all {
		var err error
		placing = slices.DeleteFunc(slices.Clone(group), func(i int) bool { return f.settled(i) && sources[i].Placed != nil })
		if elders, err = f.oldest(ctx); err != nil {
			return err
		}
	}
	for _, i := range elders {
		k, err := f.compared(ctx, i)
		if err != nil {
			return err
		}
		f.elders = append(f.elders, k)
	}
	for _, i := range placing {
		if err := f.place(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether nothing that happened since the last import moves a session.
func (f *family) settled(i int) bool {
	s := &f.sources[i]
	return s.same || s.growth != nil && s.Placed != nil && s.Placed.Settled
}

// oldest returns the sessions that are most likely originals: no note says that they
// were begun later, and notes are between their first records.
func (f *family) oldest(ctx context.Context) ([]int, error) {
	ranks := make(map[int]*placement, len(f.group))
	for _, i := range f.group {
		if ranks[i] = f.sources[i].Placed; ranks[i] != nil {
			continue
		}
		k, err := f.compared(ctx, i)
		if err != nil {
			return nil, err
		}
		ranks[i] = k.rank()
	}
	old := slices.SortedFunc(slices.Values(f.group), func(i, j int) int {
		a, b := ranks[i], ranks[j]
		return cmp.Or(compareBool(a.Late, b.Late), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Ended, b.Ended), cmp.Compare(f.sources[i].ID, f.sources[j].ID))
	})
	return old[:convert.MaxKin], nil
}

// rank is what tells an original from copies before they are compared.
func (k *kin) rank() *placement {
	p := &placement{Late: k.late, Run: k.run}
	if len(k.times) > 0 {
		p.Ended = k.times[len(k.times)-1]
	}
	return p
}

// place places a session. It is read again if that is another place than before.
func (f *family) place(ctx context.Context, i int) error {
	s := &f.sources[i]
	others := f.elders
	k := f.elder(s.ID)
	if k == nil {
		var err error
		if k, err = f.compared(ctx, i); err != nil {
			return err
		}
	}
	if at, ok := f.byID[k.from]; ok && f.elder(k.from) == nil && f.sources[at].First == s.First {
		other, err := f.compared(ctx, at)
		if err != nil {
			return err
		}
		others = append(slices.Clip(others), other)
	}
	was := s.Placed
	if s.Placed = k.among(others); !was.same(s.Placed) {
		s.same, s.growth = false, nil
	}
	s.copied, s.first = s.Placed.Copied, s.Placed.Own
	return nil
}

// elder returns one of those that the others are compared with.
func (f *family) elder(id string) *kin {
	n := slices.IndexFunc(f.elders, func(k *kin) bool { return k.ID == id })
	if n < 0 {
		return nil
	}
	return f.elders[n]
}

// compared reads what is compared of a session.
func (f *family) compared(ctx context.Context, i int) (*kin, error) {
	s := &f.sources[i]
	k := &kin{source: s, ids: map[uint64]int{}}
	t := transcript{fsys: f.fsys, file: s.file, mine: notAside}
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
		k.ids[maphash.String(f.seed, it.UUID)] = len(k.times)
		k.times = append(k.times, at.UnixMilli())
	}
	return k, nil
}

// among finds the place of a session among others.
func (k *kin) among(others []*kin) *placement {
	p := k.rank()
	p.Settled = true
	var best *kin
	most := score{}
	for _, other := range others {
		if other.ID == k.ID {
			continue
		}
		s, decided := k.likeness(other)
		if s.after(most) {
			best, most = other, s
		}
		p.Settled = p.Settled && decided
	}
	switch {
	case best != nil:
		own, is := k.own(best)
		p.Copied, p.Own, p.Settled = best.ID, own, p.Settled && is
	case k.from != k.ID && k.From != k.ID:
		p.Copied = k.From
	}
	return p
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
// shared it is not. It is decided if that is so whatever the two go on with.
func (k *kin) likeness(other *kin) (s score, decided bool) {
	shared, lastHere, lastThere := 0, 0, 0
	for id, here := range k.ids {
		if there, ok := other.ids[id]; ok {
			shared++
			lastHere, lastThere = max(lastHere, here), max(lastThere, there)
		}
	}
	if shared == 0 {
		return score{}, true
	}
	said := k.from == other.ID
	here, there := lastHere < k.run, lastThere < other.run
	born, is := other.own(k)
	decided = true
	switch {
	case said:
	case other.from == k.ID, !here && there:
		return score{}, true
	case here == there:
		// Either may be the copy: the original continued first.
		if k.late != other.late {
			here = k.late
		} else {
			own, mine := k.own(other)
			here = own > born || own == born && k.ID > other.ID
			decided = is && mine
		}
		if !here {
			return score{}, decided
		}
	}
	return score{shared: shared, sure: !there, said: said, born: born, id: other.ID}, decided
}

func (s score) after(t score) bool {
	return cmp.Or(cmp.Compare(s.shared, t.shared), compareBool(s.sure, t.sure), compareBool(s.said, t.said),
		cmp.Compare(t.born, s.born), cmp.Compare(t.id, s.id)) > 0
}

// compareBool compares two claims: one that holds is more.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// own is when the first record that is not another session's was written, if there
// is one; else the last one.
func (k *kin) own(other *kin) (at int64, is bool) {
	first := -1
	for id, here := range k.ids {
		if _, shared := other.ids[id]; !shared && (first < 0 || here < first) {
			first = here
		}
	}
	if first < 0 {
		return k.times[len(k.times)-1], false
	}
	return k.times[first], true
}
