package qwen

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"io/fs"
	"iter"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// telemetry is the subtype of records that repeat others.
const telemetry = "ui_telemetry"

// maxIDBytes bounds ids; the client's have 36 bytes.
const maxIDBytes = 100

// record is the part of a line that decides something here.
type record struct {
	Type       str             `json:"type"`
	Subtype    str             `json:"subtype"`
	UUID       str             `json:"uuid"`
	Parent     str             `json:"parentUuid"`
	Session    str             `json:"sessionId"`
	Time       str             `json:"timestamp"`
	Cwd        str             `json:"cwd"`
	Version    str             `json:"version"`
	Model      str             `json:"model"`
	Provenance str             `json:"provenance"`
	Message    message         `json:"message"`
	Usage      json.RawMessage `json:"usageMetadata"`
	Payload    json.RawMessage `json:"systemPayload"`
	Result     json.RawMessage `json:"toolCallResult"`
	ForkedFrom json.RawMessage `json:"forkedFrom"`
}

// message is what was said, in parts.
type message struct {
	Parts []json.RawMessage
}

func (m *message) UnmarshalJSON(b []byte) error {
	var raw struct {
		Parts json.RawMessage `json:"parts"`
	}
	if b[0] != '{' || json.Unmarshal(b, &raw) != nil || len(raw.Parts) == 0 || raw.Parts[0] != '[' {
		return nil
	}
	return json.Unmarshal(raw.Parts, &m.Parts)
}

// str treats anything but a string as empty: one odd field is no reason to lose
// a message.
type str string

func (s *str) UnmarshalJSON(b []byte) error {
	if b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(s))
}

func decode(text []byte) (record, error) {
	var r record
	err := json.Unmarshal(text, &r)
	return r, err
}

func (r record) at() time.Time { return convert.ParseTime(string(r.Time)) }

// item is a record with its line, which is valid until the next one is read.
type item struct {
	record
	text  []byte
	start convert.Mark
	more  bool   // it continues the message of the previous record
	last  string // the uuid of the previous record
}

// begins reports whether the record is the beginning of a message.
func (it item) begins() bool { return !it.more && (it.Subtype != telemetry || it.Type != "system") }

// before is what was known before the record, of which the reader knows that it was
// there.
func (it item) before(r *reader) *reader {
	c := r.clone()
	c.Last = it.last
	c.Memory.Forget(ofLine, string(it.UUID))
	return c
}

// records yields the records of a transcript from a mark on. A message may be written
// in several lines with one uuid, one right after the other; any other line with
// the uuid of an earlier one is a *Skip, unless it is the same line again.
func records(ctx context.Context, fsys fs.FS, file string, from convert.Mark, r *reader) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for line, err := range convert.LinesFrom(fsys, file, from) {
			if cause := ctx.Err(); cause != nil {
				yield(item{}, cause)
				return
			}
			if err != nil && !convert.IsSkip(err) {
				yield(item{}, &convert.Skip{What: file, Why: err})
				return
			}
			var it item
			if err == nil {
				it, err = check(line, r)
			}
			if err != nil {
				if !yield(item{}, asSkip(file, err)) {
					return
				}
				continue
			}
			if it.UUID == "" {
				continue
			}
			it.start, it.last = line.Start, r.Last
			r.Last = string(it.UUID)
			if !yield(it, nil) {
				return
			}
		}
	}
}

func asSkip(file string, err error) error {
	if convert.IsSkip(err) {
		return err
	}
	return &convert.Skip{What: file, Why: err}
}

// check decodes a line. An item without a uuid is to be skipped.
func check(line convert.Line, known *reader) (item, error) {
	r, err := decode(line.Text)
	switch {
	case err != nil && line.Torn:
		return item{}, tidemark.Invalidf("line %d is torn: the file ends in the middle of it", line.Number)
	case err != nil:
		return item{}, tidemark.Invalidf("line %d is no record: %w", line.Number, err)
	case r.UUID == "" || r.Type == "":
		return item{}, tidemark.Invalidf("line %d is no record of Qwen Code", line.Number)
	case len(r.UUID) > maxIDBytes:
		return item{}, tidemark.Invalidf("line %d: its uuid has %d bytes", line.Number, len(r.UUID))
	}
	h := fnv.New64a()
	h.Write(line.Text)
	sum := strconv.FormatUint(h.Sum64(), 36)
	old, twice := known.Memory.Get(ofLine, string(r.UUID))
	switch {
	case twice && old == sum:
		return item{}, nil
	case twice && known.Last != string(r.UUID):
		return item{}, tidemark.Invalidf("line %d: another record has its uuid %s", line.Number, r.UUID)
	}
	known.Memory.Set(ofLine, string(r.UUID), sum)
	return item{record: r, text: line.Text, more: twice}, nil
}
