package tidemark

import (
	"encoding/json"
	"strings"
	"time"
)

// Role says who speaks in a message.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Valid reports whether r is one of the four roles.
func (r Role) Valid() bool {
	return r == System || r == User || r == Assistant || r == Tool
}

// The kinds of entries that Tidemark itself writes. Others may appear; a reader
// shows an unknown kind and goes on.
const (
	KindMessage = "message" // has a role, counts as a message
	KindBranch  = "branch"  // moves the head to its parent; the next entry grows from there
	KindGap     = "gap"     // stands where an entry of another branch stood before a purge
)

// Position is where an entry stands in the tree of its session. The log is the
// tree: each entry names its parent, and with these numbers a path, a count or a
// node needs no scan. They stay in the clear in sealed stores.
type Position struct {
	Parent int64 `json:"parent,omitempty"` // the seq it follows, 0: the root
	Depth  int64 `json:"depth,omitempty"`  // messages on its path, itself included
	Nodes  int64 `json:"nodes,omitempty"`  // nodes begun in the log so far, its own included
	Turn   int64 `json:"turn,omitempty"`   // the seq that ends the previous node on its path, 0: none
}

// Entry is one line of a session's log: what somebody said, or what happened.
type Entry struct {
	Seq int64 `json:"seq"`
	Position
	At     time.Time       `json:"at"`
	Kind   string          `json:"kind"`
	Role   Role            `json:"role,omitempty"`
	Blocks []Block         `json:"blocks,omitempty"`
	Model  string          `json:"model,omitempty"`
	Usage  *Usage          `json:"usage,omitempty"`
	Key    string          `json:"key,omitempty"`   // makes the append idempotent
	Extra  json.RawMessage `json:"extra,omitempty"` // what other tools keep with it
	Draft  bool            `json:"draft,omitempty"` // it may still change, because another tool is writing it; it is not in the log yet
}

// Block is a part of an entry.
type Block struct {
	Type      string          `json:"type"`                  // one of the Block constants
	Text      string          `json:"text,omitempty"`        // text, thinking, tool_result
	ID        string          `json:"id,omitempty"`          // tool_use: its id
	Name      string          `json:"name,omitempty"`        // tool_use: the tool; file, image: its name
	Input     json.RawMessage `json:"input,omitempty"`       // tool_use
	ToolUseID string          `json:"tool_use_id,omitempty"` // tool_result: which call it answers
	IsError   bool            `json:"is_error,omitempty"`    // tool_result
	Blocks    []Block         `json:"blocks,omitempty"`      // tool_result that is more than text
	MediaType string          `json:"media_type,omitempty"`  // image, file
	Data      []byte          `json:"data,omitempty"`        // image, file
	URL       string          `json:"url,omitempty"`         // image, file kept elsewhere
	Provider  string          `json:"provider,omitempty"`    // whose payload Raw is
	Raw       string          `json:"raw,omitempty"`         // the provider's own JSON, byte for byte
}

// The types of blocks.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
	BlockImage      = "image"
	BlockFile       = "file"
)

// Usage is what one answer cost.
type Usage struct {
	InputTokens      int64   `json:"input_tokens,omitempty"`
	OutputTokens     int64   `json:"output_tokens,omitempty"`
	CacheReadTokens  int64   `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64   `json:"cache_write_tokens,omitempty"`
	CostUSD          float64 `json:"cost_usd,omitempty"`
}

// Text returns a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// Say returns a message of one text block.
func Say(role Role, text string) Entry {
	return Entry{Kind: KindMessage, Role: role, Blocks: []Block{Text(text)}}
}

// Text joins the text blocks of e with newlines.
func (e Entry) Text() string {
	var parts []string
	for _, b := range e.Blocks {
		if b.Type == BlockText {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// body is the part of an entry that travels as the body of its line; the rest
// is in the line's own fields.
type body struct {
	Blocks []Block         `json:"blocks,omitempty"`
	Model  string          `json:"model,omitempty"`
	Usage  *Usage          `json:"usage,omitempty"`
	Extra  json.RawMessage `json:"extra,omitempty"`
}

// Line returns the line that keeps e, with its body but without a Sum: Seq and
// Position may still change. A message's line has its role as Kind, so that
// roles are known in a sealed store. An entry that would not read back the same
// is ErrInvalid: a message without a role, a role on anything else, a block
// without a type, invalid JSON.
func (e Entry) Line() (Line, error) {
	if err := e.check(); err != nil {
		return Line{}, err
	}
	kind := e.Kind
	if e.isMessage() {
		kind = string(e.Role)
	}
	b, err := appendBody(nil, &e)
	if err != nil {
		return Line{}, Invalidf("entry: %w", err)
	}
	return Line{Seq: e.Seq, Kind: kind, Key: e.Key, At: e.At, Position: e.Position, Body: b}, nil
}

// isMessage reports whether e is a message; an entry without a kind is one.
func (e *Entry) isMessage() bool { return e.Kind == "" || e.Kind == KindMessage }

func (e *Entry) check() error {
	switch {
	case e.isMessage() && !e.Role.Valid():
		return Invalidf("role %.40q: want system, user, assistant or tool", e.Role)
	case !e.isMessage() && e.Role != "":
		return Invalidf("kind %.40q: only a message has a role", e.Kind)
	case e.Kind != KindMessage && (len(e.Kind) > 32 || strings.Trim(e.Kind, "abcdefghijklmnopqrstuvwxyz_") != "" || Role(e.Kind).Valid()):
		return Invalidf("kind %.40q: not a kind of entry", e.Kind)
	case len(e.Key) > MaxIDBytes:
		return Invalidf("key of %d bytes, at most %d are allowed", len(e.Key), MaxIDBytes)
	}
	for i := range e.Blocks {
		if e.Blocks[i].Type == "" {
			return Invalidf("a block without a type")
		}
	}
	return nil
}

// EntryOf returns the entry that a line keeps. A body that is not an entry's
// is ErrCorrupt. A Decoder is quicker for many.
func EntryOf(l Line) (Entry, error) {
	var d Decoder
	var e Entry
	err := d.Decode(&l, &e)
	return e, err
}
