package store

import (
	"encoding/json"
	"hash/maphash"

	"github.com/tidemark-sessions/tidemark"
)

// Other tools fork by copying, so two imported sessions may begin with the same
// entries. These are to be counted only once.

// copies recognises entries that were seen before in another session. It looks
// only at imported sessions: our own forks share their past without copying it.
// It keeps two or three hashes per entry. They are seeded, so that nobody can
// prepare entries that collide.
type copies struct {
	seed maphash.Seed
	met  map[uint64]int32 // by hash: the number of the session that had it first

	session *Info
	nth     int32  // the number of session, in the order of the calls
	worker  string // of session, whose log the last entry was in
	from    string // the foreign id that session says it was copied from
	begin   uint64 // a hash of all messages of the log so far
}

func newCopies() *copies {
	return &copies{seed: maphash.MakeSeed(), met: make(map[uint64]int32)}
}

// copiedFrom returns the foreign id of the session that the beginning of an
// imported one was copied from, if that is recorded.
func copiedFrom(sess tidemark.Session) string {
	var extra struct {
		Imported struct {
			Copied string `json:"copied_from"`
		} `json:"imported"`
	}
	if sess.ForeignID == "" || len(sess.Extra) == 0 || json.Unmarshal(sess.Extra, &extra) != nil {
		return ""
	}
	return extra.Imported.Copied
}

// known reports whether an entry is a copy of one that was seen before.
//
// A copy has the same message, model, token counts and time. Some tools give
// copies the time of the copying. They record which session was copied, and then
// whatever both sessions have in common at their beginning is a copy.
func (c *copies) known(o Owned) bool {
	if o.Session.ForeignID == "" || o.Kind != tidemark.KindMessage {
		return false
	}
	if o.Session != c.session {
		c.session, c.worker, c.begin = o.Session, "", 0
		c.from = copiedFrom(o.Session.Session)
		c.nth++
	}
	if o.Worker != c.worker {
		c.worker, c.begin = o.Worker, 0
	}
	content := c.content(o)
	c.begin = c.sum(c.begin, content, 0, "", "")
	copied := c.timed(o) && c.meet(c.sum(content, uint64(o.At.UnixMicro()), 1, "", ""))
	copied = c.meet(c.sum(c.begin, 0, 2, o.Worker, o.Session.ForeignID)) || copied
	if c.from != "" {
		copied = c.meet(c.sum(c.begin, 0, 2, o.Worker, c.from)) || copied
	}
	return copied
}

// timed reports whether the time of an entry is precise enough to identify it. A
// time in whole seconds is not, since several agents may be asked the same thing
// in one second, unless there are token counts as well.
func (c *copies) timed(o Owned) bool {
	return o.At.Unix() > 0 && (o.At.Nanosecond() != 0 || o.Usage != nil)
}

// meet records a hash, and reports whether another session had it before.
func (c *copies) meet(sum uint64) bool {
	first, met := c.met[sum]
	if !met {
		c.met[sum] = c.nth
	}
	return met && first != c.nth
}

func (c *copies) sum(a, b, kind uint64, worker, foreign string) uint64 {
	type parts struct {
		a, b, kind      uint64
		worker, foreign string
	}
	return maphash.Comparable(c.seed, parts{a, b, kind, worker, foreign})
}

// content hashes the message, model and token counts of an entry. The cost is
// left out: it may be known for one copy and not for the other.
func (c *copies) content(o Owned) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(string(o.Role))
	h.WriteByte(0)
	h.WriteString(o.Model)
	if u := o.Usage; u != nil {
		maphash.WriteComparable(&h, [4]int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens})
	}
	writeBlocks(&h, o.Blocks)
	return h.Sum64()
}

func writeBlocks(h *maphash.Hash, blocks []tidemark.Block) {
	for _, b := range blocks {
		h.WriteString(b.Type)
		h.WriteString(b.Text)
		h.WriteByte(0)
		h.WriteString(b.Name)
		h.Write(b.Input)
		h.Write(b.Data)
		writeBlocks(h, b.Blocks)
	}
}
