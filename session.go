package tidemark

import (
	"encoding/json"
	"fmt"
	"time"
)

// Session is one durable conversation, as it is stored. Its messages are in its
// log, what people add about it in its notes.
type Session struct {
	ID        SessionID       `json:"id"`
	Title     string          `json:"title,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Model     string          `json:"model,omitempty"`
	Mode      string          `json:"mode,omitempty"` // ModeLocal or ModeRemote
	Project   string          `json:"project,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Base      *Base           `json:"base,omitempty"`
	Tool      string          `json:"tool,omitempty"`       // the tool it came from, "": it was begun here
	ForeignID string          `json:"foreign_id,omitempty"` // its id in that tool
	Gone      time.Time       `json:"gone,omitzero"`        // since when that tool does not have it any more, zero: it does
	CreatedAt time.Time       `json:"created_at"`
	Pinned    bool            `json:"pinned,omitempty"`   // retention leaves it alone
	OnHold    bool            `json:"on_hold,omitempty"`  // nobody may remove it
	Redacted  int64           `json:"redacted,omitempty"` // redaction marks in its notes
	Charged   int64           `json:"charged,omitempty"`  // notes of costs that became known after their entries were kept
	Handed    bool            `json:"handed,omitempty"`   // other tools were given it, and may go on with it
	Draft     *DraftSize      `json:"draft,omitempty"`    // how much another tool is still writing
	Extra     json.RawMessage `json:"extra,omitempty"`
}

// DraftSize is how much the draft of a session has, so that a list can count it.
type DraftSize struct {
	After    int64 `json:"after"`    // the lines of the log that it follows; with more, there is no such draft any more
	Messages int64 `json:"messages"` // on the branch that its end is on, with those before it
}

// The modes of a session: what it may reach.
const (
	ModeLocal  = "local-only"
	ModeRemote = "remote"
)

// Base is what a session was forked from: the path to one entry of another
// session. The entries up to Seq are read there, the session's own log continues
// with the next number. Owned says that the other session was purged and that a
// copy of the path is kept with this session.
type Base struct {
	Session SessionID `json:"session"`
	Seq     int64     `json:"seq"`
	Owned   bool      `json:"owned,omitempty"`
}

// Holder identifies who may append to a session: a process that can be told from
// any other, even from a later one with the same pid.
type Holder struct {
	Program   string `json:"program"`
	PID       int    `json:"pid"`
	Host      string `json:"host"`
	BootID    string `json:"boot_id,omitempty"`    // changes when the host restarts
	StartedAt string `json:"started_at,omitempty"` // when the process began, by its host's clock
	Namespace string `json:"namespace,omitempty"`  // the pid namespace
	Machine   string `json:"machine,omitempty"`    // tells machines of one host name apart
}

func (h Holder) String() string {
	switch { // a client of a server has no process here
	case h.PID == 0 && h.Host == "":
		return h.Program
	case h.PID == 0:
		return fmt.Sprintf("%s of %s", h.Program, h.Host)
	}
	return fmt.Sprintf("%s (pid %d on %s)", h.Program, h.PID, h.Host)
}
