package codex

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// spawnMarks occur in every line that links a helper agent to the call that
// started it.
var spawnMarks = [][]byte{[]byte("agent_id"), []byte("agent_thread_id"), []byte("receiver_thread_ids"), []byte("new_thread_id")}

// spawns finds the calls that started helper agents, by the thread of the agent.
// Versions say it in events, or only in the result of the call.
func (im *importer) spawns(threads []*thread, calls map[string]string) {
	known := map[string]bool{}
	for _, t := range threads {
		known[t.id] = true
	}
	add := func(child, call string) {
		child = strings.ToLower(child)
		if call != "" && known[child] && calls[child] == "" {
			calls[child] = call
		}
	}
	for _, t := range threads {
		for _, r := range t.files {
			for l, err := range convert.Lines(im.fsys, r.path) {
				if err == nil && marked(l.Text) {
					spawned(l.Text, add)
				}
			}
		}
	}
}

func marked(line []byte) bool {
	for _, mark := range spawnMarks {
		if bytes.Contains(line, mark) {
			return true
		}
	}
	return false
}

// spawned reads the line forms that link a call to a thread.
func spawned(line []byte, add func(child, call string)) {
	var rec struct {
		Type    string `json:"type"`
		Payload struct {
			Type   string          `json:"type"`
			CallID string          `json:"call_id"`
			New    string          `json:"new_thread_id"` // collab_agent_spawn_end
			Output json.RawMessage `json:"output"`        // function_call_output
			Item   struct {
				Type      string   `json:"type"`
				ID        string   `json:"id"`
				Tool      string   `json:"tool"`
				Kind      string   `json:"kind"`
				Thread    string   `json:"agent_thread_id"`
				Receivers []string `json:"receiver_thread_ids"`
			} `json:"item"`
		} `json:"payload"`
	}
	if json.Unmarshal(line, &rec) != nil {
		return
	}
	p := rec.Payload
	switch {
	case p.Type == "collab_agent_spawn_end":
		add(p.New, p.CallID)
	case p.Item.Type == "SubAgentActivity" && p.Item.Kind == "started":
		add(p.Item.Thread, p.Item.ID)
	case p.Item.Type == "CollabAgentToolCall" && p.Item.Tool == "spawn_agent":
		for _, child := range p.Item.Receivers {
			add(child, p.Item.ID)
		}
	case p.Type == "function_call_output":
		var text string
		var answer struct {
			Agent string `json:"agent_id"`
		}
		if json.Unmarshal(p.Output, &text) == nil && json.Unmarshal([]byte(text), &answer) == nil {
			add(answer.Agent, p.CallID)
		}
	}
}
