package codex

import (
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// record is one line of a rollout.
type record struct {
	Timestamp string
	Ordinal   *int64
	Type      string
	Payload   json.RawMessage
	Rest      map[string]json.RawMessage // unknown fields of the line itself
}

// parseRecord reads a line. The first versions wrote items without a wrapper
// around them, and a first line without a type; they come back wrapped. The
// result is valid as long as the line is.
func parseRecord(line []byte) (record, error) {
	if !json.Valid(line) {
		return record{}, json.Unmarshal(line, new(any)) // for its error
	}
	fields := split(line)
	if fields["payload"] == nil {
		return parseBare(line, fields)
	}
	rec := record{Payload: fields["payload"]}
	delete(fields, "payload")
	takeString(fields, "timestamp", &rec.Timestamp)
	takeString(fields, "type", &rec.Type)
	if raw := fields["ordinal"]; raw != nil && json.Unmarshal(raw, &rec.Ordinal) == nil {
		delete(fields, "ordinal")
	}
	rec.Rest = rest(fields)
	if rec.Type == "" {
		return rec, tidemark.Invalidf("a line without a type")
	}
	return rec, nil
}

func parseBare(line []byte, fields map[string]json.RawMessage) (record, error) {
	var kind, id, state string
	rec := record{Payload: line}
	text(fields["timestamp"], &rec.Timestamp)
	text(fields["type"], &kind)
	text(fields["id"], &id)
	text(fields["record_type"], &state)
	switch {
	case state != "":
		rec.Type = state
	case kind != "":
		rec.Type = "response_item"
	case id != "" && rec.Timestamp != "":
		rec.Type = "session_meta"
	default:
		return rec, tidemark.Invalidf("a line that is neither wrapped nor an item")
	}
	return rec, nil
}

// at is when the line was written, zero when it does not say.
func (r record) at() time.Time { return convert.ParseTime(r.Timestamp) }

// formatTime writes milliseconds, as Codex does, and microseconds where a time
// has them.
func formatTime(t time.Time) string {
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// kept is the part of a line that an entry cannot represent. It is stored in
// Extra under the name of the tool, so that an export can write the line again.
type kept struct {
	Type    string                     `json:"type,omitempty"`    // of the item, when its blocks do not imply it
	Role    string                     `json:"role,omitempty"`    // of a message, when it is not the role of the entry
	Line    map[string]json.RawMessage `json:"line,omitempty"`    // fields of the line
	Item    map[string]json.RawMessage `json:"item,omitempty"`    // fields of the item
	Content []part                     `json:"content,omitempty"` // how the content was turned into blocks
	Event   json.RawMessage            `json:"event,omitempty"`   // an event_msg, whole
	Before  []json.RawMessage          `json:"before,omitempty"`  // lines before it that are not for people
}

// part is one piece of a message's content, without what is in a block.
type part struct {
	Block  *int            `json:"block,omitempty"`
	Prefix string          `json:"prefix,omitempty"` // what the client wrote before the user's text
	Item   json.RawMessage `json:"item,omitempty"`
}

func (k kept) empty() bool {
	return k.Type == "" && k.Role == "" && k.Line == nil && k.Item == nil && k.Content == nil && k.Event == nil && k.Before == nil
}

// extra wraps what is kept for Entry.Extra.
func (k kept) extra() json.RawMessage {
	if k.empty() {
		return nil
	}
	b, err := convert.Encode(map[string]kept{"codex": k})
	if err != nil {
		return nil // raw JSON of a line that was parsed: it cannot be invalid
	}
	return b
}

// keptOf reads back what an entry of Codex kept; for other tools it is empty.
func keptOf(extra json.RawMessage) kept {
	var all struct{ Codex kept }
	if json.Unmarshal(extra, &all) != nil {
		return kept{}
	}
	return all.Codex
}
