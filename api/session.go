package api

import (
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// SessionInfo is a session as a client sees it. Status, ModelName,
// ExternalSessionID and TurnCount are fields that clients of
// fleet-rlm know.
type SessionInfo struct {
	tidemark.Session
	State             string    `json:"state" doc:"live, trash, or purging while it is being destroyed"`
	UpdatedAt         time.Time `json:"updated_at"`
	Messages          int64     `json:"messages" doc:"on the branch that the head is on"`
	Nodes             int64     `json:"nodes" doc:"turns begun, on all branches"`
	Entries           int64     `json:"entries" doc:"the seq of the newest entry"`
	Owner             string    `json:"owner,omitempty" doc:"whose it is, when it is another's who shared it: OWNER:ID leads to it, whoever else has a session of that id"`
	Machine           string    `json:"machine,omitempty" doc:"another machine that it was last written on, and came from by a remote"`
	Status            string    `json:"status" enum:"active,archived" doc:"archived is in the trash"`
	ModelName         string    `json:"model_name,omitempty" doc:"as model"`
	ExternalSessionID string    `json:"external_session_id,omitempty" doc:"as foreign_id"`
	TurnCount         *int64    `json:"turn_count,omitempty" doc:"on the branch that the head is on; of single sessions"`
	Damage            string    `json:"damage,omitempty" doc:"why no more is known of it"`
}

// SessionList is a part of a list of sessions.
type SessionList struct {
	Items   []SessionInfo `json:"items" nullable:"false"`
	Next    string        `json:"next,omitempty" doc:"the cursor of the next page; absent on the last"`
	Total   *int64        `json:"total,omitempty" doc:"how many there are, counted up to 10000; absent behind a cursor"`
	Offset  int64         `json:"offset"`
	Limit   int           `json:"limit"`
	HasMore bool          `json:"has_more"`
}

// AttachedSession is a session that has a writer now.
type AttachedSession struct {
	Key           string    `json:"key" doc:"what the session is known by over all tenants"`
	WorkspaceID   string    `json:"workspace_id,omitempty"`
	UserID        string    `json:"user_id"`
	SessionID     string    `json:"session_id"`
	Title         string    `json:"title,omitempty"`
	HistoryTurns  int64     `json:"history_turns"`
	DocumentCount int64     `json:"document_count"`
	MemoryCount   int64     `json:"memory_count" doc:"memory blocks that say something, memory files, and what was learned"`
	LogCount      int64     `json:"log_count" doc:"entries"`
	ArtifactCount int64     `json:"artifact_count" doc:"files below artifacts/"`
	UpdatedAt     time.Time `json:"updated_at"`
	HeldBy        string    `json:"held_by"`
	HeldSince     time.Time `json:"held_since"`
	HeardAt       time.Time `json:"heard_at"`
}

// AttachedList is the sessions that are attached.
type AttachedList struct {
	OK       bool              `json:"ok"`
	Sessions []AttachedSession `json:"sessions" nullable:"false"`
}

// SessionTurn is everything from one message of the user to the next.
type SessionTurn struct {
	ID               string    `json:"id" doc:"its node: SESSION@id leads to it"`
	TurnIndex        int64     `json:"turn_index" doc:"from 0, on this branch"`
	UserMessage      string    `json:"user_message"`
	AssistantMessage string    `json:"assistant_message"`
	ToolCalls        int64     `json:"tool_calls"`
	ModelName        string    `json:"model_name,omitempty"`
	TokensIn         int64     `json:"tokens_in"`
	TokensOut        int64     `json:"tokens_out"`
	First            int64     `json:"first" doc:"the seq of its first entry"`
	Last             int64     `json:"last"`
	CreatedAt        time.Time `json:"created_at"`
}

// TurnList is a part of a list of turns.
type TurnList struct {
	Items   []SessionTurn `json:"items" nullable:"false"`
	Next    string        `json:"next,omitempty" doc:"the cursor of the next page; absent on the last"`
	Total   int64         `json:"total"`
	Offset  int64         `json:"offset"`
	Limit   int           `json:"limit"`
	HasMore bool          `json:"has_more"`
}

// NewEntry is an entry to append. Without a kind it is a message,
// without a time it happens now.
type NewEntry struct {
	Kind    string           `json:"kind,omitempty" maxLength:"32"`
	Role    tidemark.Role    `json:"role,omitempty" doc:"system, user, assistant or tool; messages need one"`
	Blocks  []tidemark.Block `json:"blocks,omitempty"`
	Content string           `json:"content,omitempty" doc:"in place of blocks: one block of text"`
	Model   string           `json:"model,omitempty" maxLength:"256"`
	Usage   *tidemark.Usage  `json:"usage,omitempty"`
	Key     string           `json:"key,omitempty" maxLength:"128" doc:"an entry of a key that is there is not appended again"`
	At      time.Time        `json:"at,omitzero"`
	Parent  int64            `json:"parent,omitempty" minimum:"-1" doc:"the seq that it follows; 0: the newest; -1: none"`
	Extra   json.RawMessage  `json:"extra,omitempty"`
}

// Entry returns the entry to append.
func (e NewEntry) Entry() tidemark.Entry {
	out := tidemark.Entry{Kind: e.Kind, Role: e.Role, Blocks: e.Blocks, Model: e.Model, Usage: e.Usage, Key: e.Key, At: e.At, Extra: e.Extra,
		Position: tidemark.Position{Parent: e.Parent}}
	if e.Content != "" {
		out.Blocks = append([]tidemark.Block{tidemark.Text(e.Content)}, e.Blocks...)
	}
	return out
}

// NewSession is a session to create.
type NewSession struct {
	Title   string     `json:"title,omitempty" maxLength:"1000"`
	Agent   string     `json:"agent,omitempty" maxLength:"256"`
	Model   string     `json:"model,omitempty" maxLength:"256"`
	Project string     `json:"project,omitempty" maxLength:"4096"`
	Mode    string     `json:"mode,omitempty" enum:"local-only,remote"`
	Tags    []string   `json:"tags,omitempty" maxItems:"100"`
	Entries []NewEntry `json:"entries,omitempty" maxItems:"1000"`
}

// SessionChange is what to change about a session. Absent fields stay as they
// are.
type SessionChange struct {
	Title  *string   `json:"title,omitempty" maxLength:"1000"`
	Tags   *[]string `json:"tags,omitempty" maxItems:"100" doc:"all of them"`
	Pinned *bool     `json:"pinned,omitempty" doc:"retention leaves it alone"`
	Hold   *bool     `json:"hold,omitempty" doc:"nobody may remove it"`
}

// Appending is a request to append to a session.
type Appending struct {
	Entries []NewEntry `json:"entries" minItems:"1" maxItems:"1000"`
	Worker  string     `json:"worker,omitempty" maxLength:"64" doc:"whose log it goes to; the session's own when absent"`
	Lease   string     `json:"lease,omitempty" maxLength:"100" doc:"the token of a lease; without one the session is attached for this call"`
}

// Appended says where the appended entries are.
type Appended struct {
	Seqs []int64 `json:"seqs" nullable:"false" doc:"of the entries, in the order in which they were sent"`
}

// LogEntry is an entry of a session, or what is known of one that is damaged.
type LogEntry struct {
	tidemark.Entry
	Damage string `json:"damage,omitempty"`
}

// EntryList is a part of a session.
type EntryList struct {
	Items []LogEntry `json:"items" nullable:"false"`
	Next  string     `json:"next,omitempty" doc:"the cursor of the next page; absent on the last"`
	Head  int64      `json:"head" doc:"the seq of the newest entry; follow the session from it"`
}

// LeaseInfo says who writes to a session.
type LeaseInfo struct {
	Held      bool      `json:"held"`
	Holder    string    `json:"holder,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	HeardAt   time.Time `json:"heard_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"unless it is renewed; appending with it renews it, too"`
	Token     string    `json:"token,omitempty" doc:"whoever has it holds the lease; told once"`
	AskedBy   string    `json:"asked_by,omitempty" doc:"who wants the session"`
	Fresh     bool      `json:"fresh,omitempty" doc:"what the interpreter held was cleared"`
}
