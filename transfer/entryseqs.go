package transfer

import (
	"cmp"
	"slices"

	"github.com/tidemark-sessions/tidemark/convert"
)

// entrySeqs are the seqs of the entries of a log by the tool's ids. Mostly each is
// one more than the one before, so that of millions hardly more than the ids is kept.
type entrySeqs struct {
	ids  convert.Interner
	runs []seqRun
}

// seqRun is ids from a number on whose seqs are that much larger than their numbers.
type seqRun struct {
	from uint32
	more int64
}

// set gives an id, which has none, a seq.
func (s *entrySeqs) set(id string, seq int64) {
	known := s.ids.Len()
	n := s.ids.Intern(id)
	if int(n) < known {
		return
	}
	more := seq - int64(n)
	if last := len(s.runs) - 1; last < 0 || s.runs[last].more != more {
		s.runs = append(s.runs, seqRun{n, more})
	}
}

// of is the seq of an id that has one.
func (s *entrySeqs) of(id string) (seq int64, ok bool) {
	n, ok := s.ids.Find(id)
	if !ok {
		return 0, false
	}
	at, begins := slices.BinarySearchFunc(s.runs, n, func(r seqRun, n uint32) int { return cmp.Compare(r.from, n) })
	if !begins {
		at--
	}
	return int64(n) + s.runs[at].more, true
}
