package tidemark

import "strings"

// Decoder decodes entries one after the other, as EntryOf does. Entries are small and
// many are decoded at once, so what they need of memory is taken together: who keeps
// one of them keeps a few kilobytes of its neighbours. The zero Decoder is ready; it is
// used by one goroutine at a time, and not copied.
type Decoder struct {
	texts  strings.Builder // the texts of several entries, one behind the other
	long   strings.Builder // one text of its own
	blocks []Block         // unused ones
	model  string          // the last one: most entries of a session have the same
	piece  [256]byte       // of a text, before it is one
	coming int             // how many entries are still expected
}

const (
	// sharedText is how long a text may be that shares memory with others.
	sharedText = 512
	// sharedTexts is how many bytes such texts share, and sharedBlocks how many blocks
	// are made at once: both some 4 kB. Where it is not known that many entries come, the
	// first are few, because some Decoders decode one entry.
	sharedTexts  = 4 << 10
	sharedBlocks = 18
	// usualText is the length of the texts that are expected of an entry.
	usualText = 64
)

// Expect announces how many entries are going to be decoded, so that memory need not
// grow with them. It may be wrong.
func (d *Decoder) Expect(entries int) { d.coming = max(entries, 0) }

// Decode sets e to the entry that a line keeps. A body that is not an entry's is
// ErrCorrupt; e then has what the line itself says. The entry shares no memory with
// the line.
func (d *Decoder) Decode(l *Line, e *Entry) error {
	*e = Entry{}
	e.Seq, e.Position, e.At, e.Kind, e.Key = l.Seq, l.Position, l.At, l.Kind, l.Key
	if r := Role(l.Kind); r.Valid() {
		e.Kind, e.Role = KindMessage, r
	}
	if len(l.Body) == 0 {
		return nil
	}
	if err := d.parseBody(l.Body, e); err != nil {
		return Errorf(ErrCorrupt, "line %d: its body is not an entry's: %w", l.Seq, err)
	}
	return nil
}

// room returns a builder that takes a text of n bytes without growing.
func (d *Decoder) room(n int) *strings.Builder {
	if n > sharedText {
		d.long.Reset()
		d.long.Grow(n)
		return &d.long
	}
	if have := d.texts.Cap(); have-d.texts.Len() < n {
		d.texts.Reset()
		d.texts.Grow(max(n, min(max(2*have, usualText*min(d.coming, sharedTexts/usualText)), sharedTexts)))
	}
	return &d.texts
}

// text returns v as a string.
func (d *Decoder) text(v []byte) string {
	if len(v) == 0 {
		return ""
	}
	to := d.room(len(v))
	start := to.Len()
	to.Write(v)
	return to.String()[start:]
}

// block returns a list of one empty block. Another one that is added moves the list.
func (d *Decoder) block() []Block {
	if len(d.blocks) == cap(d.blocks) {
		d.blocks = make([]Block, 0, max(1, min(max(2*cap(d.blocks), d.coming), sharedBlocks)))
	}
	d.coming = max(d.coming-1, 0)
	n := len(d.blocks)
	d.blocks = d.blocks[:n+1]
	return d.blocks[n : n+1 : n+1]
}
