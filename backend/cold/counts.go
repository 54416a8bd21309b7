package cold

import "sync/atomic"

// Counts are what was moved to places and read from them since they were opened.
type Counts struct {
	Moved                Moved
	Reads, Read          int64 // segments that were fetched, and their bytes
	Remembered           int64 // segments that were not fetched, since they were at hand
	FailedReads, Damaged int64 // because a place did not answer; because a segment was not what was put there
	FailedMoves          int64
}

type counts struct {
	lines, bytes, packed             atomic.Int64
	reads, read, remembered          atomic.Int64
	failedReads, damaged, failedMove atomic.Int64
}

// Counts returns what was done so far.
func (p *Places) Counts() Counts {
	c := &p.counts
	return Counts{Moved: Moved{c.lines.Load(), c.bytes.Load(), c.packed.Load()}, Reads: c.reads.Load(), Read: c.read.Load(), Remembered: c.remembered.Load(),
		FailedReads: c.failedReads.Load(), Damaged: c.damaged.Load(), FailedMoves: c.failedMove.Load()}
}

func (c *counts) moved(m Moved) {
	c.lines.Add(m.Lines)
	c.bytes.Add(m.Bytes)
	c.packed.Add(m.Packed)
}
