package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// codexStream reads the output of codex exec --json: one JSON object per
// line, distinguished by its type. Threads have turns, turns have items,
// and items start, change and complete.
type codexStream struct {
	thread    string
	said      string
	begun     map[string]bool // items whose start was seen
	turns     int64
	completed bool            // the last turn completed
	failed    string          // why the last turn did not complete
	spent     *tidemark.Usage // usage of the whole thread; at the start, that of earlier runs
}

type codexLine struct {
	Type    string          `json:"type"`
	Thread  string          `json:"thread_id"`
	Usage   *codexUsage     `json:"usage"`
	Error   codexError      `json:"error"`
	Message string          `json:"message"`
	Item    json.RawMessage `json:"item"`
}

type codexError struct {
	Message string `json:"message"`
}

// codexUsage counts the whole thread, including earlier runs. Tokens read
// from the cache and written to it are part of the input.
type codexUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

func (u codexUsage) usage() tidemark.Usage {
	s := sane(tidemark.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite})
	s.InputTokens = max(0, s.InputTokens-s.CacheReadTokens-s.CacheWriteTokens)
	return s
}

type codexItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Message   string          `json:"message"`
	Status    string          `json:"status"`
	Command   string          `json:"command"`
	Output    string          `json:"aggregated_output"`
	ExitCode  *int            `json:"exit_code"`
	Changes   json.RawMessage `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     *codexError     `json:"error"`
	Query     string          `json:"query"`
}

// line returns the events of a line.
func (s *codexStream) line(line []byte) []tidemark.Event {
	if len(strings.TrimSpace(string(line))) == 0 {
		return nil
	}
	var l codexLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: subtypeStdout, Content: string(line)}}
	}
	switch l.Type {
	case "thread.started":
		s.thread = l.Thread
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: l.Type, Extra: rest(line, "type")}}
	case "turn.started":
		s.turns++
		s.completed, s.failed = false, ""
		return nil
	case "turn.completed":
		s.completed = true
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: l.Type, Usage: s.count(l.Usage), Extra: rest(line, "type")}}
	case "turn.failed":
		s.completed, s.failed = false, l.Error.Message
		if s.failed == "" {
			s.failed = "the turn failed"
		}
		// The usage is recorded and not shown: a failure is no answer.
		s.count(l.Usage)
		return []tidemark.Event{{Type: tidemark.EventError, Message: s.failed, Code: l.Type}}
	case "error": // connection errors, after which it often reconnects
		return []tidemark.Event{{Type: tidemark.EventError, Message: l.Message, Code: l.Type}}
	case "item.started", "item.updated", "item.completed":
		var i codexItem
		if json.Unmarshal(l.Item, &i) == nil {
			return s.item(l, i)
		}
	}
	return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: l.Type, Extra: rest(line, "type")}}
}

// count takes the usage of the whole thread, and returns the increase in this
// run since the last call: nil for the first call of an older thread, because
// it is not known here how much of it is older.
func (s *codexStream) count(u *codexUsage) *tidemark.Usage {
	if u == nil {
		return nil
	}
	now := u.usage()
	before := s.spent
	s.spent = &now
	if before == nil {
		return nil
	}
	grown := minus(now, *before)
	return &grown
}

func minus(a, b tidemark.Usage) tidemark.Usage {
	return tidemark.Usage{
		InputTokens:      max(0, a.InputTokens-b.InputTokens),
		OutputTokens:     max(0, a.OutputTokens-b.OutputTokens),
		CacheReadTokens:  max(0, a.CacheReadTokens-b.CacheReadTokens),
		CacheWriteTokens: max(0, a.CacheWriteTokens-b.CacheWriteTokens),
	}
}

func (s *codexStream) item(l codexLine, i codexItem) []tidemark.Event {
	done := l.Type == "item.completed"
	switch i.Type {
	case "agent_message":
		if !done {
			return nil
		}
		s.said = i.Text
		return []tidemark.Event{{Type: tidemark.EventAssistant, Content: i.Text}}
	case "reasoning":
		if !done {
			return nil
		}
		return []tidemark.Event{{Type: tidemark.EventAssistant, Subtype: subtypeThink, Content: i.Text}}
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call":
		return s.call(l, i, done)
	case "error": // an error that it continues after
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: subtypeNotice, Content: i.Message}}
	}
	return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: i.Type, Extra: rest(l.Item, "type")}} // todo_list, and future kinds
}

// call handles an item that is the use of a tool. Some are reported only when
// they are done, so the start is reported then.
func (s *codexStream) call(l codexLine, i codexItem, done bool) (events []tidemark.Event) {
	if !s.begun[i.ID] || i.ID == "" && done {
		if s.begun == nil {
			s.begun = make(map[string]bool)
		}
		s.begun[i.ID] = true
		name, input := i.use(l.Item)
		events = append(events, tidemark.Event{Type: tidemark.EventToolUse, ToolName: name, ToolUseID: i.ID, Input: input})
	}
	if !done {
		return events // progress is reported when it is done
	}
	delete(s.begun, i.ID)
	good := i.Error == nil && (i.Status == "completed" || i.Status == "") && (i.ExitCode == nil || *i.ExitCode == 0)
	e := tidemark.Event{Type: tidemark.EventToolResult, ToolUseID: i.ID, Success: &good, Result: i.outcome(l.Item)}
	if !good {
		e.Error = i.why()
	}
	return append(events, e)
}

// use returns the tool's name and its input.
func (i codexItem) use(raw json.RawMessage) (string, json.RawMessage) {
	switch i.Type {
	case "command_execution":
		return i.Type, extra(map[string]any{"command": i.Command})
	case "file_change":
		return i.Type, extra(map[string]any{"changes": i.Changes})
	case "mcp_tool_call":
		return "mcp__" + i.Server + "__" + i.Tool, i.Arguments
	case "web_search":
		return i.Type, extra(map[string]any{"query": i.Query})
	}
	return i.Type, rest(raw, "id", "type", "status")
}

// outcome returns the tool's result.
func (i codexItem) outcome(raw json.RawMessage) json.RawMessage {
	switch i.Type {
	case "command_execution":
		b, err := json.Marshal(i.Output)
		if err != nil {
			return nil // unreachable: strings can be written
		}
		return b
	case "mcp_tool_call":
		return i.Result
	case "file_change":
		return i.Changes
	}
	return rest(raw, "id", "type", "status", "query")
}

func (i codexItem) why() string {
	switch {
	case i.Error != nil && i.Error.Message != "":
		return i.Error.Message
	case i.ExitCode != nil && *i.ExitCode != 0:
		return fmt.Sprintf("exit code %d", *i.ExitCode)
	}
	return i.Status
}
