package agsh

import (
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// note is what agsh stores with a message and Tidemark has no field for. It
// travels in the Extra of the entry, so that export writes the same row.
type note struct {
	CreatedAt string          `json:"created_at,omitempty"` // when microseconds are not enough
	Joined    bool            `json:"joined,omitempty"`     // was in one row with the prompt that follows
	Plain     bool            `json:"plain,omitempty"`      // an answer that was text and not JSON
	Boundary  json.RawMessage `json:"boundary,omitempty"`   // of a compaction: all except its summary
	Kept      int             `json:"kept,omitempty"`       // messages that a compaction repeated after itself
	Role      string          `json:"role,omitempty"`       // with Content: the row verbatim
	Content   string          `json:"content,omitempty"`
}

// sessionNote is what agsh stores with a session.
type sessionNote struct {
	Agsh      bool           `json:"-"`              // there is a note at all
	Meka      bool           `json:"meka,omitempty"` // of a version with an event log and lock files
	CreatedAt string         `json:"created_at,omitempty"`
	UpdatedAt string         `json:"updated_at,omitempty"`
	Columns   map[string]any `json:"columns,omitempty"` // the other columns that are not NULL, by name
	Call      string         `json:"call,omitempty"`    // of a helper: what started it

	// Helpers are the rows of the helpers, by id. They change while a helper
	// works, so they are not among its entries, which are never changed.
	Helpers map[string]sessionNote `json:"helpers,omitempty"`
}

// extra wraps a tool's data under the name of the tool.
type extra[T any] struct {
	Agsh *T `json:"agsh"`
}

func (n note) extra() json.RawMessage {
	if n.CreatedAt == "" && !n.Joined && !n.Plain && n.Boundary == nil && n.Kept == 0 && n.Role == "" {
		return nil
	}
	return marshal(extra[note]{&n})
}

// noteOf reads the note of an entry, an empty one when it came from elsewhere.
func noteOf(e convert.Entry) note {
	var x extra[note]
	if json.Unmarshal(e.Extra, &x) != nil || x.Agsh == nil {
		return note{}
	}
	return *x.Agsh
}

func sessionNoteOf(raw json.RawMessage) sessionNote {
	var x extra[sessionNote]
	if json.Unmarshal(raw, &x) != nil || x.Agsh == nil {
		return sessionNote{}
	}
	x.Agsh.Agsh = true
	return *x.Agsh
}

// parseTime reads a time as agsh writes it. Tidemark keeps microseconds; a time
// that it would write differently is also returned as text.
func parseTime(s string) (at time.Time, raw string) {
	if at = convert.ParseTime(s); at.IsZero() {
		return at, s
	}
	if formatTime(at) != s {
		raw = s
	}
	return at, raw
}

// formatTime writes a time as agsh does: no fraction, or three, six or nine
// digits of it.
func formatTime(t time.Time) string {
	layout := "2006-01-02T15:04:05"
	switch n := t.Nanosecond(); {
	case n == 0:
	case n%1e6 == 0:
		layout += ".000"
	case n%1e3 == 0:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	return t.UTC().Format(layout + "+00:00")
}

// stamp returns the text that was kept for a time, if it still means that time.
func stamp(at time.Time, raw string) string {
	if t := convert.ParseTime(raw); raw != "" && (t.IsZero() || t.Equal(at)) {
		return raw
	}
	return formatTime(at)
}
