package model

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

const (
	// pieceCost is what a piece counts besides its text, so that a stream of
	// empty pieces ends, too.
	pieceCost = 256
	// maxBroken bounds what is kept of arguments that are not JSON: enough to
	// show the model what it did.
	maxBroken = 4 << 10
)

// Draft is an answer under construction. What is added to it is passed on as
// events, and bounded.
type Draft struct {
	provider string
	emit     func(Event) error
	pieces   []*Piece
	size     int
}

// Piece is a block under construction.
type Piece struct {
	Block tidemark.Block // all but its text
	text  strings.Builder
	told  bool // a call whose name was passed on
}

// NewDraft returns an empty draft whose pieces go to emit.
func NewDraft(provider string, emit func(Event) error) *Draft {
	return &Draft{provider: provider, emit: emit}
}

// Open begins a block.
func (d *Draft) Open(b tidemark.Block) (*Piece, error) {
	p := &Piece{Block: b}
	d.pieces = append(d.pieces, p)
	if err := d.Grow(pieceCost + len(b.ID) + len(b.Name) + len(b.Raw)); err != nil {
		return nil, err
	}
	return p, d.Named(p)
}

// Named passes the name of a call on, once, when it is known.
func (d *Draft) Named(p *Piece) error {
	if p.told || p.Block.Type != tidemark.BlockToolUse || p.Block.Name == "" {
		return nil
	}
	p.Block.Name = valid(p.Block.Name)
	p.told = true
	return d.emit(Event{Call: p.Block.Name})
}

// Add adds to the text of p, to its thinking, or to the arguments of its call.
func (d *Draft) Add(p *Piece, s string) error {
	if s == "" {
		return nil
	}
	s = valid(s)
	if err := d.Grow(len(s)); err != nil {
		return err
	}
	p.text.WriteString(s)
	switch p.Block.Type {
	case tidemark.BlockText:
		return d.emit(Event{Text: s})
	case tidemark.BlockThinking:
		return d.emit(Event{Thinking: s})
	}
	return nil
}

// Text returns what was added to p so far.
func (p *Piece) Text() string { return p.text.String() }

// Grow counts n bytes that are kept besides the text of a piece.
func (d *Draft) Grow(n int) error {
	if d.size += n; d.size > MaxAnswerBytes {
		return Endless(d.provider)
	}
	return nil
}

// Answer returns the finished answer. A stop reason that contradicts the blocks
// is corrected: some servers report a normal stop when they call a tool.
func (d *Draft) Answer(model, stop string, usage *tidemark.Usage) *Answer {
	a := &Answer{Stop: stop, Entry: tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: valid(model), Usage: usage}}
	ids := make(map[string]bool)
	for _, p := range d.pieces {
		b := p.Block
		if b.Type == tidemark.BlockToolUse {
			d.call(a, p, &b, ids)
		} else {
			b.Text = p.Text()
			if b.Text == "" && b.Raw == "" {
				continue
			}
		}
		a.Entry.Blocks = append(a.Entry.Blocks, b)
	}
	switch {
	case len(ids) > 0 && (stop == StopEnd || stop == ""):
		a.Stop = StopTools
	case len(ids) == 0 && (stop == StopTools || stop == ""):
		a.Stop = StopEnd
	}
	return a
}

// call finishes a call: a unique id, and arguments that are an object.
func (d *Draft) call(a *Answer, p *Piece, b *tidemark.Block, ids map[string]bool) {
	b.ID = valid(b.ID)
	if b.ID == "" || ids[b.ID] {
		b.ID = "call_" + rand.Text()
	}
	ids[b.ID] = true
	input, ok := object(p.Text())
	b.Input = input
	if ok {
		return
	}
	if a.Broken == nil {
		a.Broken = make(map[string]string)
	}
	a.Broken[b.ID] = text.Clip(p.Text(), maxBroken)
}

// object returns arguments as a JSON object without white space, or {} and false
// when they are not one. Missing arguments, and null, are an empty object.
func object(s string) (json.RawMessage, bool) {
	s = strings.TrimSpace(s)
	if s == "" || s == "null" {
		return json.RawMessage("{}"), true
	}
	var tight bytes.Buffer
	if s[0] != '{' || json.Compact(&tight, []byte(s)) != nil {
		return json.RawMessage("{}"), false
	}
	return tight.Bytes(), true
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
