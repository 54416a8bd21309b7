package adk

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"google.golang.org/adk/session"
	"google.golang.org/genai"
)

// The kinds of entries that are no messages: the state that a session begins
// with, and events without content.
const (
	kindBegin = "adk_state"
	kindEvent = "adk_event"
)

// entry is what an entry of a session holds for ADK: an event whole, and the
// session's state after it, or where that is. So reading the newest events
// needs no others.
type entry struct {
	Event   *session.Event `json:"event,omitempty"`
	State   map[string]any `json:"state,omitempty"`
	StateAt int64          `json:"state_at,omitempty"`

	seq int64
}

// beginning is the first entry of a session.
func beginning(state map[string]any) (tidemark.Entry, error) {
	extra, err := json.Marshal(entry{State: state})
	if err != nil {
		return tidemark.Entry{}, tidemark.Invalidf("state: %w", err)
	}
	return tidemark.Entry{Kind: kindBegin, Extra: extra}, nil
}

// entryOf reads an entry; one that others wrote is not ok.
func entryOf(e tidemark.Entry) (out entry, ok bool, err error) {
	if !strings.HasPrefix(e.Key, keyPrefix) && e.Kind != kindBegin {
		return out, false, nil
	}
	if err := json.Unmarshal(e.Extra, &out); err != nil {
		return out, false, fmt.Errorf("entry %d: its event: %w: %w", e.Seq, tidemark.ErrCorrupt, err)
	}
	out.seq = e.Seq
	return out, true, nil
}

// keyPrefix begins the keys of events.
const keyPrefix = "adk."

// keyOf makes an event one that is kept once.
func keyOf(event *session.Event) string {
	sum := sha256.Sum256([]byte(event.ID))
	return keyPrefix + hex.EncodeToString(sum[:16])
}

// entry is what is kept: the event for ADK, and as a message for people, for
// search and for exports.
func (e entry) entry() (tidemark.Entry, error) {
	extra, err := json.Marshal(e)
	if err != nil {
		return tidemark.Entry{}, tidemark.Invalidf("event %s: %w", e.Event.ID, err)
	}
	out := tidemark.Entry{Kind: kindEvent, Key: keyOf(e.Event), At: e.Event.Timestamp, Model: e.Event.ModelVersion, Extra: extra}
	if u := e.Event.UsageMetadata; u != nil {
		out.Usage = &tidemark.Usage{InputTokens: int64(u.PromptTokenCount), OutputTokens: int64(u.CandidatesTokenCount), CacheReadTokens: int64(u.CachedContentTokenCount)}
	}
	if c := e.Event.Content; c != nil && len(c.Parts) > 0 {
		out.Kind, out.Role, out.Blocks = tidemark.KindMessage, roleOf(c), blocksOf(c)
	}
	return out, nil
}

func roleOf(c *genai.Content) tidemark.Role {
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			return tidemark.Tool
		}
	}
	if c.Role == genai.RoleUser {
		return tidemark.User
	}
	return tidemark.Assistant
}

func blocksOf(c *genai.Content) (blocks []tidemark.Block) {
	for _, p := range c.Parts {
		switch {
		case p.FunctionCall != nil:
			input, err := json.Marshal(p.FunctionCall.Args)
			if err != nil {
				continue // the event itself could not be kept either
			}
			blocks = append(blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Input: input})
		case p.FunctionResponse != nil:
			said, err := json.Marshal(p.FunctionResponse.Response)
			if err != nil {
				continue
			}
			blocks = append(blocks, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: p.FunctionResponse.ID, Text: string(said)})
		case p.Text != "" && p.Thought:
			blocks = append(blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: p.Text})
		case p.Text != "":
			blocks = append(blocks, tidemark.Text(p.Text))
		}
	}
	return blocks
}
