package store

import (
	"encoding/json"
	"hash/maphash"

	"github.com/tidemark-sessions/tidemark"
)

// Tools of others fork by copying: a session begins with entries of another
// one. What was said there was said once, and is counted once.

// copies recognises entries that were met before in another session. Only
// what was imported is looked at: a fork of our own shares its past. It keeps
// two or three words an entry, hashes that a stranger cannot aim at.
type copies struct {
	seed maphash.Seed
	met  map[uint64]int32 // which session had it first

	session *Info
	nth     int32 // the session's number here
	worker  string
	from    string // what the session says that it was copied from
	begin   uint64 // a hash of all messages so far: the beginning of the session
}

func newCopies() *copies {
	return &copies{seed: maphash.MakeSeed(), met: make(map[uint64]int32)}
}

// copiedFrom returns the foreign id of the session that an imported one says
// that its beginning was copied from.
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

// known reports whether an entry is a copy of one that was met before.
//
// A copy is the same message, of the same model and tokens, of the same
// instant. Some tools give copies the time of the copying; such a session says
// where it came from, and then what begins both sessions alike is a copy.
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
	is := c.timed(o) && c.meet(c.sum(content, uint64(o.At.UnixMicro()), 1, "", ""))
	is = c.meet(c.sum(c.begin, 0, 2, o.Worker, o.Session.ForeignID)) || is
	if c.from != "" {
		is = c.meet(c.sum(c.begin, 0, 2, o.Worker, c.from)) || is
	}
	return is
}

// timed reports whether the time of an entry tells it from others like it. One
// in whole seconds does not, unless its tokens do: several agents are asked the
// same by one clock.
func (c *copies) timed(o Owned) bool {
	return o.At.Unix() > 0 && (o.At.Nanosecond() != 0 || o.Usage != nil)
}

// meet notes a hash, and reports whether another session had it.
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

// content hashes what an entry says and used. A cost may be known of one copy
// and not of the other.
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
