package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// intent is a batch of several parts, written whole before any of them. It holds
// the exact bytes that go into the files, so that completing it needs nothing
// else.
type intent struct {
	Batch   string         `json:"batch"`
	At      time.Time      `json:"at"`
	Adopt   bool           `json:"adopt,omitempty"` // its puts replace nothing, whatever their version
	Puts    []intentPut    `json:"puts,omitempty"`
	Deletes []intentPut    `json:"deletes,omitempty"` // without a file
	Appends []intentAppend `json:"appends,omitempty"`
	Drops   []tidemark.Key `json:"drops,omitempty"`
	Trims   []intentTrim   `json:"trims,omitempty"`
	Fills   []intentFill   `json:"fills,omitempty"`
}

type intentPut struct {
	tidemark.Key
	Version int64  `json:"version"`
	File    string `json:"file,omitempty"`
}

type intentAppend struct {
	tidemark.Key
	First int64  `json:"first"`
	Last  int64  `json:"last"`
	Lines string `json:"lines"`
}

// intentOf returns the intent of a batch; floors are those of the logs of its
// puts.
func intentOf(batch *tidemark.Batch, floors []int64) *intent {
	in := &intent{Batch: batch.ID, At: batch.At, Adopt: batch.Adopt, Drops: batch.Drops}
	for i, r := range batch.Puts {
		r = batch.Stamp(r)
		r.Head = tidemark.Head{Length: floors[i]}
		in.Puts = append(in.Puts, intentPut{r.Key, r.Version, string(appendRecord(nil, &r))})
	}
	for _, n := range batch.Deletes {
		in.Deletes = append(in.Deletes, intentPut{Key: n.Key, Version: n.Version})
	}
	for i, a := range batch.Appends {
		in.Appends = append(in.Appends, intentAppend{a.Log, a.Lines[0].Seq, a.Lines[len(a.Lines)-1].Seq, string(encodeLines(nil, batch, i))})
	}
	for _, t := range batch.Trims {
		in.Trims = append(in.Trims, intentTrim{t.Log, t.Upto})
	}
	for _, a := range batch.Fills {
		in.Fills = append(in.Fills, fillOf(a))
	}
	return in
}

// replaces returns the version that the record has before p is done.
func (in *intent) replaces(p intentPut) int64 {
	if in.Adopt {
		return 0
	}
	return p.Version - 1
}

// keeps reports whether the record of key stays as it is.
func (in *intent) keeps(key tidemark.Key) bool {
	is := func(p intentPut) bool { return p.Key == key }
	return !slices.ContainsFunc(in.Puts, is) && !slices.ContainsFunc(in.Deletes, is)
}

const intentSumBytes = len(`{"sum":"00000000"}` + "\n")

var errNotIntent = errors.New("not a whole intent")

// encode writes the intent and, on a second line, the sum over the first.
func (in *intent) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return nil, err
	}
	b := buf.Bytes()
	sum := crc32.Checksum(b, castagnoli)
	b = append(b, `{"sum":"`...)
	b = appendHex32(b, sum)
	return append(b, "\"}\n"...), nil
}

// parseIntent reads what encode wrote. An incomplete one was never acknowledged.
func parseIntent(b []byte) (*intent, error) {
	at := len(b) - intentSumBytes
	if at < 0 {
		return nil, errNotIntent
	}
	s := scanner{b: b, i: at}
	var sum uint32
	if !s.literal(`{"sum":"`) || !s.hex32(&sum) || !s.literal("\"}\n") || sum != crc32.Checksum(b[:at], castagnoli) {
		return nil, errNotIntent
	}
	in := new(intent)
	if err := json.Unmarshal(b[:at], in); err != nil {
		return nil, errNotIntent
	}
	return in, in.check()
}

// check keeps a forged intent from naming a file outside the store.
func (in *intent) check() error {
	keys := append([]tidemark.Key(nil), in.Drops...)
	for _, p := range append(append([]intentPut(nil), in.Puts...), in.Deletes...) {
		keys = append(keys, p.Key)
	}
	for _, a := range in.Appends {
		keys = append(keys, a.Key)
	}
	for _, t := range in.Trims {
		keys = append(keys, t.Key)
	}
	for _, f := range in.Fills {
		keys = append(keys, f.Key)
	}
	for _, k := range keys {
		if !nameable(k) {
			return errNotIntent
		}
	}
	return nil
}
