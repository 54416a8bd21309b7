package api

import (
	"encoding/json"
	"time"
)

// Item is something that programs keep besides sessions: a step of a run, a
// snapshot of a sandbox, a dataset, a run of an optimizer, one of its results.
type Item struct {
	ID        string          `json:"id"`
	Title     string          `json:"title,omitempty"`
	Session   string          `json:"session,omitempty" doc:"the session that it belongs to"`
	Parent    string          `json:"parent,omitempty" doc:"the item or job that it is a part of"`
	Data      json.RawMessage `json:"data,omitempty" doc:"an object; the call that lists them says which fields are known"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	Version   int64           `json:"version" doc:"1 when first kept, one more with each change; the ETag, too"`
}

// PutItem is an item as a client sends it, whole.
type PutItem struct {
	ID      string          `json:"id,omitempty" maxLength:"128" doc:"letters, digits, dot, dash, underscore; without one, POST makes one"`
	Title   string          `json:"title,omitempty" maxLength:"1024"`
	Session string          `json:"session,omitempty" maxLength:"64"`
	Parent  string          `json:"parent,omitempty" maxLength:"256"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// MemoryItem is something that was learned and that later sessions of a
// project should know.
type MemoryItem struct {
	ID        string    `json:"id"`
	Text      string    `json:"text"`
	Project   string    `json:"project,omitempty"`
	Session   string    `json:"session,omitempty" doc:"where it was learned"`
	CreatedAt time.Time `json:"created_at"`
	Version   int64     `json:"version"`
}

// PutMemory is a memory item as a client sends it.
type PutMemory struct {
	Text    string `json:"text" minLength:"1" maxLength:"65536"`
	Project string `json:"project,omitempty" maxLength:"4096"`
	Session string `json:"session,omitempty" maxLength:"64"`
}
