package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// record is the part of a line that decides something here. The rest stays in
// the line.
type record struct {
	Type       string          `json:"type"`
	Subtype    string          `json:"subtype"`
	UUID       string          `json:"uuid"`
	Parent     string          `json:"parentUuid"`
	Logical    string          `json:"logicalParentUuid"`
	Session    string          `json:"sessionId"`
	Time       string          `json:"timestamp"`
	Cwd        string          `json:"cwd"`
	Version    string          `json:"version"`
	Agent      string          `json:"agentId"`
	Provenance string          `json:"provenance"` // only in a fork of this tool
	Sidechain  bool            `json:"isSidechain"`
	Meta       bool            `json:"isMeta"`
	Summarizes bool            `json:"isCompactSummary"`
	APIError   bool            `json:"isApiErrorMessage"`
	Source     string          `json:"promptSource"`
	Origin     json.RawMessage `json:"origin"`
	ForkedFrom json.RawMessage `json:"forkedFrom"`
	Result     json.RawMessage `json:"toolUseResult"`
	Attached   json.RawMessage `json:"attachment"`
	Rendered   json.RawMessage `json:"rendered"`
	Content    json.RawMessage `json:"content"` // of system records
	Message    message         `json:"message"`
	CostUSD    float64         `json:"costUSD"`

	ModelUsage map[string]json.RawMessage `json:"modelUsage"` // of a cost-state

	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`
	Summary     string `json:"summary"`
	Leaf        string `json:"leafUuid"`

	parts parts // where the line was scanned
}

// decode reads a line in whatever way it is written. It has to be an object.
func decode(text []byte) (record, error) {
	var r record
	if err := convert.Loose(text, &r); err != nil {
		return r, err
	}
	if text = bytes.TrimLeft(text, " \t\r\n"); text[0] != '{' {
		return r, tidemark.Invalidf("it is no object")
	}
	return r, nil
}

// message is the content of a message in the provider's format.
type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Usage   json.RawMessage `json:"usage"`
	Stop    string          `json:"stop_reason"`
}

// spoken reports whether a record is a message.
func (r record) spoken() bool { return r.Type == "user" || r.Type == "assistant" }

// asks reports whether a record is a prompt, and not the result of a call.
func (r record) asks() bool {
	return r.Type == "user" && !r.Meta && !bytes.Contains(r.Message.Content, []byte(`"tool_result"`))
}

// endsTurn reports whether a reply that came before the record is complete: the
// client writes it between two turns.
func (r record) endsTurn() bool {
	switch r.Subtype {
	case "turn_duration", "stop_hook_summary", "compact_boundary":
		return r.Type == "system"
	}
	return r.asks()
}

// complete reports whether a record is the last one of its reply: the reply ended
// for a reason other than a call, and not with its thinking. Newer clients write
// the reason into every record of a reply.
func (r record) complete() bool {
	switch r.Message.Stop {
	case "end_turn", "stop_sequence", "max_tokens", "refusal":
		return r.lastBlock() == tidemark.BlockText
	}
	return false
}

// at is the time of a record, zero when it has none.
func (r record) at() time.Time { return convert.ParseTime(r.Time) }

// item is a record of the tree, with the notes before it.
type item struct {
	record
	text   []byte            // its line; valid until the next one is read
	n      int               // its number in the transcript
	start  int64             // bytes of the transcript that came before it
	before []json.RawMessage // as json.Marshal writes them
	line   convert.Mark      // where its line begins
}

// Bounds of what is carried in an entry's Extra: notes are small, and one
// oversized transcript must not fill the memory.
const (
	maxNotes   = 1 << 20
	maxCarried = 24 << 20
	maxIDBytes = 100
)

// transcript is a file, or the part of one that belongs to one speaker.
type transcript struct {
	fsys fs.FS
	file string
	// mine reports whether a record of the tree belongs to it.
	mine func(record) bool
	// rates are what the session's own replies cost, for pricing those of its
	// workers.
	rates map[string]float64
	// helped says that there are workers with transcripts of their own.
	helped bool
	// bare leaves the notes to the main speaker of the file.
	bare bool
	// careful leaves every line to encoding/json.
	careful bool
	// from is where it goes on; nil: at the beginning.
	from *point
	// texts are ids in it that are known; nil: none are.
	texts *convert.Interner

	// What a complete reading leaves behind.
	requests int               // request logs that were skipped
	dropped  int               // notes that together were too large
	after    []json.RawMessage // notes after the last record
}

// notAside selects what was not said by a helper agent.
func notAside(r record) bool { return !r.Sidechain }

// all selects everything.
func all(record) bool { return true }

// records yields the records of the tree. What cannot be read is a *Skip, which
// the main speaker of a file reports. Both readings of a transcript, the first
// for its structure and the second for its content, count alike. Notes, which
// have no uuid, are passed to see if it is given.
func (t *transcript) records(ctx context.Context, see func(record)) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		g := reading{transcript: t, see: see, seed: maphash.MakeSeed()}
		if t.texts == nil {
			t.texts = new(convert.Interner)
		}
		t.requests, t.dropped, t.after = 0, 0, nil
		var at convert.Mark
		if t.from != nil {
			at, g.before, t.requests = t.from.at, &t.from.Memory, t.from.Requests
			g.notes.dropped = t.from.Dropped
		}
		var start int64
		n := 0
		for line, err := range convert.LinesFrom(t.fsys, t.file, at) {
			if cause := ctx.Err(); cause != nil {
				yield(item{}, cause)
				return
			}
			if err != nil && !convert.IsSkip(err) {
				err = &convert.Skip{What: t.file, Why: err}
			}
			start += int64(len(line.Text))
			var r *record
			if err == nil {
				r, err = g.take(line)
			}
			t.dropped = g.notes.dropped
			switch {
			case errors.Is(err, convert.ErrWhole):
				yield(item{}, err)
				return
			case err != nil && !t.bare && !yield(item{}, err):
				return
			case err != nil || r == nil:
				continue
			case !yield(item{*r, line.Text, n, start, g.notes.take(), line.Start}, nil):
				return
			}
			n++
		}
		t.after, t.dropped = g.notes.take(), g.notes.dropped
	}
}

// reading is the state while a transcript is read.
type reading struct {
	*transcript
	see   func(record)
	seen  []uint64 // the hashes of the lines of uuids, by the number of the text; 0 for others
	seed  maphash.Seed
	notes notes

	before *convert.Memory // of records before those that are read; nil: there are none
	split  convert.Scanner
	last   record
}

// decode reads a line.
func (g *reading) decode(text []byte) (record, error) {
	if !g.careful {
		if line, ok := g.split.Scan(text); ok {
			if r, ok := scanRecord(line, &g.last); ok {
				g.last = r
				return r, nil
			}
		}
	}
	return decode(text)
}

// take decodes a line. It is nil for one that is not a record of the tree, or
// not of this speaker.
func (g *reading) take(line convert.Line) (*record, error) {
	if bytes.HasPrefix(line.Text, []byte(`{"type":"api-request`)) {
		g.requests++ // most bytes of newer transcripts: not even decoded
		return nil, nil
	}
	r, err := g.decode(line.Text)
	switch {
	case err != nil && line.Torn:
		return nil, convert.Skipf(g.file, "line %d is torn: the file ends in the middle of it", line.Number)
	case err != nil:
		return nil, convert.Skipf(g.file, "line %d is no record: %v", line.Number, err)
	case strings.HasPrefix(r.Type, "api-request"):
		g.requests++
		return nil, nil
	case r.UUID == "":
		if g.see != nil {
			g.see(r)
		}
		if !g.bare {
			g.notes.add(line.Text, r.parts.scanned())
		}
		return nil, nil
	case len(r.UUID) > maxIDBytes:
		return nil, convert.Skipf(g.file, "line %d: its uuid has %d bytes", line.Number, len(r.UUID))
	case r.spoken() && r.Message.Content == nil:
		return nil, convert.Skipf(g.file, "line %d has no message", line.Number)
	case !g.mine(r):
		return nil, nil
	}
	sum := max(maphash.Bytes(g.seed, line.Text), 1)
	old := g.seenAs(r.UUID)
	twice := *old != 0
	switch {
	case *old == sum:
		return nil, nil
	case !twice && g.before != nil && (g.before.Has(ofRecord, r.UUID) || g.before.Missed()):
		return nil, convert.ErrWhole
	case twice:
		return nil, convert.Skipf(g.file, "line %d: another record has its uuid %s", line.Number, r.UUID)
	}
	*old = sum
	return &r, nil
}

// seenAs is the hash of the line in which a uuid was seen, 0 if it was not.
func (g *reading) seenAs(uuid string) *uint64 {
	n := int(g.texts.Intern(uuid))
	if more := n + 1 - len(g.seen); more > 0 {
		g.seen = append(g.seen, make([]uint64, more)...)
	}
	return &g.seen[n]
}

// notes are records outside the tree, collected until the next record of the
// tree.
type notes struct {
	list    []json.RawMessage
	size    int
	dropped int
}

func (s *notes) add(text []byte, scanned bool) {
	if s.size += len(text); s.size > maxNotes {
		s.dropped++
		return
	}
	s.list = append(s.list, tight(text, scanned))
}

func (s *notes) take() []json.RawMessage {
	list := s.list
	s.list, s.size = nil, 0
	return list
}
