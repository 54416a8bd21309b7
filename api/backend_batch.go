package api

import (
	"io"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// Part is one line of a batch: first its header, then each change, each
// append followed by its lines, and the end.
type Part struct {
	Batch   *BatchPart    `json:"batch,omitempty"`
	Require *Precondition `json:"require,omitempty"`
	Put     *Record       `json:"put,omitempty"`
	Delete  *Precondition `json:"delete,omitempty"`
	Append  *AppendPart   `json:"append,omitempty"`
	Line    *Line         `json:"line,omitempty"`
	Drop    *tidemark.Key `json:"drop,omitempty"`
	End     bool          `json:"end,omitempty"`
}

// BatchPart is the header of a batch.
type BatchPart struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at,omitzero"`
	Adopt bool      `json:"adopt,omitempty"`
	Frees bool      `json:"frees,omitempty"`
}

// Precondition is a tidemark.Precondition on the wire.
type Precondition struct {
	tidemark.Key
	Version int64 `json:"version"`
}

// AppendPart says which log the following lines go to.
type AppendPart struct {
	Log tidemark.Key `json:"log"`
	At  time.Time    `json:"at,omitzero"`
}

// EncodeBatch returns a batch in its wire form. ErrInvalid: it contains a
// text that is not UTF-8, which JSON cannot carry, or breaks the rules of
// batches.
func EncodeBatch(b tidemark.Batch) ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	e := encoder{}
	e.add(Part{Batch: &BatchPart{b.ID, b.At, b.Adopt, b.Frees}})
	for _, n := range b.Require {
		e.add(Part{Require: &Precondition{n.Key, n.Version}})
	}
	for _, r := range b.Puts {
		e.text(r.Key, r.Group, r.State, r.Batch)
		r.Head = tidemark.Head{}
		e.add(Part{Put: RecordOf(r)})
	}
	for _, n := range b.Deletes {
		e.add(Part{Delete: &Precondition{n.Key, n.Version}})
	}
	for _, a := range b.Appends {
		e.add(Part{Append: &AppendPart{a.Log, a.At}})
		for _, l := range a.Lines {
			e.text(a.Log, l.Kind, l.Key, l.Batch)
			e.add(Part{Line: LineOf(l)})
		}
	}
	for i := range b.Drops {
		e.add(Part{Drop: &b.Drops[i]})
	}
	e.add(Part{End: true})
	return e.buf, e.err
}

type encoder struct {
	buf []byte
	n   int
	err error
}

func (e *encoder) add(v any) {
	if e.n++; e.n > MaxParts && e.err == nil {
		e.err = tidemark.Invalidf("more than %d parts in one request to a server", MaxParts)
	}
	if e.err == nil {
		e.buf, e.err = Append(e.buf, v)
	}
}

// text refuses texts that JSON would change.
func (e *encoder) text(key tidemark.Key, texts ...string) {
	for _, s := range texts {
		if !utf8.ValidString(s) && e.err == nil {
			e.err = tidemark.Invalidf("%s: a text that is not UTF-8 cannot be sent to a server", key)
		}
	}
}

// DecodeBatch reads a batch. ErrInvalid: it is not one, or has too many parts;
// the Backend checks the rules of batches.
func DecodeBatch(r io.Reader) (tidemark.Batch, error) {
	in := NewReader(r, MaxItemBytes)
	var b tidemark.Batch
	for n := 0; ; n++ {
		var p Part
		if err := in.Next(&p); err != nil {
			return b, err
		}
		if n > MaxParts {
			return b, tidemark.Invalidf("a batch of more than %d parts", MaxParts)
		}
		if (n == 0) != (p.Batch != nil) || !p.one() {
			return b, tidemark.Invalidf("part %d of a batch: not one thing, or not in its place", n+1)
		}
		if p.End {
			return b, nil
		}
		if err := p.into(&b); err != nil {
			return b, err
		}
	}
}

// one reports whether exactly one field of p is set.
func (p *Part) one() bool {
	n := 0
	for _, is := range []bool{p.Batch != nil, p.Require != nil, p.Put != nil, p.Delete != nil, p.Append != nil, p.Line != nil, p.Drop != nil, p.End} {
		if is {
			n++
		}
	}
	return n == 1
}

func (p *Part) into(b *tidemark.Batch) error {
	switch {
	case p.Batch != nil:
		b.ID, b.At, b.Adopt, b.Frees = p.Batch.ID, p.Batch.At, p.Batch.Adopt, p.Batch.Frees
	case p.Require != nil:
		b.Require = append(b.Require, tidemark.Precondition{Key: p.Require.Key, Version: p.Require.Version})
	case p.Put != nil:
		b.Puts = append(b.Puts, p.Put.Record())
	case p.Delete != nil:
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: p.Delete.Key, Version: p.Delete.Version})
	case p.Append != nil:
		b.Appends = append(b.Appends, tidemark.Append{Log: p.Append.Log, At: p.Append.At})
	case p.Line != nil && len(b.Appends) == 0:
		return tidemark.Invalidf("a line of a batch that goes to no log")
	case p.Line != nil:
		a := &b.Appends[len(b.Appends)-1]
		a.Lines = append(a.Lines, p.Line.Line())
	case p.Drop != nil:
		b.Drops = append(b.Drops, *p.Drop)
	}
	return nil
}
