package store

import (
	"context"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Some tools say what an answer has cost long after it: at the end of a turn, or
// when they are left. The entry is kept by then, and is not rewritten: a note has
// the cost, and every View shows the entry with it.

// maxNoteCosts is how many costs one note has.
const maxNoteCosts = 10_000

// Charge sets what answers have cost, in USD by the seq of their entries: of the
// session or, if worker is not empty, of a worker. Of an entry that already has a
// cost, this one counts. It needs no lease.
func (s *Store) Charge(ctx context.Context, id tidemark.SessionID, worker string, costs map[int64]float64) error {
	for seqs := range slices.Chunk(slices.Sorted(maps.Keys(costs)), maxNoteCosts) {
		n := Note{Kind: noteCost, Worker: worker, Costs: make(map[int64]float64, len(seqs))}
		for _, seq := range seqs {
			n.Costs[seq] = costs[seq]
		}
		err := s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
			i.Charged++
			return s.addNote(ctx, b, id, n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// charge sets the cost of e where a note has it.
func (m marks) charge(e tidemark.Entry) tidemark.Entry {
	cost, ok := m.costs[e.Seq]
	if !ok {
		return e
	}
	var u tidemark.Usage
	if e.Usage != nil {
		u = *e.Usage
	}
	u.CostUSD = cost
	e.Usage = &u
	return e
}
