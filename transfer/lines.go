package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-sessions/tidemark"
)

// maxLineBytes bounds one line of input: an entry's body and the JSON around
// it.
const maxLineBytes = tidemark.MaxBodyBytes + 1<<20

// maxDepth bounds how deep JSON from outside may nest. Parsers give up at
// 10,000; stored JSON is wrapped a few levels more, and no message needs it.
const maxDepth = 1000

// Line is one line of input, or why there is none.
type Line struct {
	Text []byte
	Err  error
}

// ReadLine reads a line, and reports whether it is the last. A line over the
// bound is skipped without being held in memory.
func ReadLine(r *bufio.Reader) (in Line, last bool) {
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		if size <= maxLineBytes {
			in.Text = append(in.Text, part...)
		} else {
			in.Text = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > maxLineBytes {
			in.Err = tidemark.Invalidf("%d bytes, at most %d are allowed", size, maxLineBytes)
		}
		if err != nil && err != io.EOF {
			in.Err = err
		}
		return in, err != nil
	}
}

// given is an entry as people write it: content instead of blocks is enough.
// Fields that only the store can set are accepted, so that the output of cat
// can be appended elsewhere, and ignored.
type given struct {
	tidemark.Entry
	At      *time.Time `json:"at"`
	Content *string    `json:"content"`
	Seq     *int64     `json:"seq"`
	Depth   *int64     `json:"depth"`
	Nodes   *int64     `json:"nodes"`
	Turn    *int64     `json:"turn"`
}

// ParseEntry reads an entry from a line of NDJSON as people and programs write
// it. ErrInvalid says what is wrong with it.
func ParseEntry(line []byte) (tidemark.Entry, error) {
	var g given
	if err := DecodeStrict(line, &g); err != nil {
		return g.Entry, tidemark.Invalidf("%w", err)
	}
	e := g.Entry
	e.Seq, e.Depth, e.Nodes, e.Turn = 0, 0, 0, 0
	if g.At != nil {
		e.At = *g.At
	}
	if e.At.Year() > 9999 || e.At.Year() < 1 {
		return e, tidemark.Invalidf("at: the year %d", e.At.Year())
	}
	switch {
	case g.Content != nil && e.Blocks != nil:
		return e, tidemark.Invalidf("has both content and blocks")
	case g.Content != nil:
		e.Blocks = []tidemark.Block{tidemark.Text(*g.Content)}
	case e.Blocks == nil && (e.Kind == "" || e.Kind == tidemark.KindMessage):
		return e, tidemark.Invalidf("has neither content nor blocks")
	}
	if e.Kind == tidemark.KindGap {
		return e, tidemark.Invalidf("kind %q is for the store to write", e.Kind)
	}
	return e, nil
}

// DecodeStrict decodes one JSON value and refuses what programs read
// differently: duplicate names, invalid UTF-8, unknown fields, anything after
// the value, nesting over maxDepth.
func DecodeStrict(b []byte, into any) error {
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		_, err := dec.ReadToken()
		if err == io.EOF {
			return errors.New("no JSON value")
		}
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
		}
		if dec.StackDepth() > maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("something stands behind the JSON value")
	}
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
