package runner

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// acpStream turns the session/update notifications of an agent into events.
// It reads them itself instead of through the SDK, so that none is lost
// because its kind is new, none waits in a queue that can overflow, and each
// is passed on before the answer that follows it.
type acpStream struct {
	mu     sync.Mutex
	replay bool // the agent repeats the past of a session, which is no output of this run
	calls  map[string]*acpCall
	order  []string // ids of calls, in order
	held   acpPiece
	whole  strings.Builder // the message that held is the last piece of
	said   string
	cost   *float64 // cost of the whole session, in dollars
}

// acpCall is the use of a tool, which agents report piece by piece.
type acpCall struct {
	title, kind string
	input       json.RawMessage
	told        bool
}

// acpPiece is text that is not passed on yet, because more of the same
// message may follow.
type acpPiece struct {
	subtype, message string
	text             strings.Builder
}

type acpUpdate struct {
	Kind      string          `json:"sessionUpdate"`
	Content   json.RawMessage `json:"content"` // one block, or the list of a tool's blocks
	Message   string          `json:"messageId"`
	Call      string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Tool      string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
	Cost      *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// update returns the events for the parameters of a session/update.
func (s *acpStream) update(params json.RawMessage) []tidemark.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u acpUpdate
	if s.replay || json.Unmarshal(params, &p) != nil {
		return nil
	}
	if json.Unmarshal(p.Update, &u) != nil || u.Kind == "" {
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: "session/update", Content: string(p.Update)}}
	}
	switch u.Kind {
	case "agent_message_chunk":
		return s.piece("", u)
	case "agent_thought_chunk":
		return s.piece(subtypeThink, u)
	case "user_message_chunk", "available_commands_update":
		return nil // the user's own messages, and available commands
	}
	events := s.flush()
	switch u.Kind {
	case "tool_call", "tool_call_update":
		return append(events, s.call(u)...)
	case "usage_update":
		if u.Cost != nil && strings.EqualFold(u.Cost.Currency, "USD") {
			s.cost = &u.Cost.Amount
		}
	}
	return append(events, tidemark.Event{Type: tidemark.EventSystem, Subtype: u.Kind, Extra: rest(p.Update, "sessionUpdate")})
}

// pieceBytes is how much text becomes an event of its own while more
// follows: agents send their answers word by word.
const pieceBytes = 512

// piece handles a piece of a message. Its event is partial when more of
// the same message follows.
func (s *acpStream) piece(subtype string, u acpUpdate) (events []tidemark.Event) {
	var c struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(u.Content, &c) != nil || c.Type != "text" {
		events = s.flush()
		return append(events, tidemark.Event{Type: tidemark.EventAssistant, Subtype: c.Type, Extra: rest(u.Content, "type")})
	}
	if s.held.text.Len() > 0 && (s.held.subtype != subtype || s.held.message != u.Message) {
		events = s.flush()
	}
	if s.held.text.Len() >= pieceBytes {
		events = append(events, s.take(true))
	}
	s.held.subtype, s.held.message = subtype, u.Message
	s.held.text.WriteString(c.Text)
	if subtype == "" && s.whole.Len() < 2*maxSummary {
		s.whole.WriteString(c.Text)
	}
	return events
}

func (s *acpStream) take(partial bool) tidemark.Event {
	e := tidemark.Event{Type: tidemark.EventAssistant, Subtype: s.held.subtype, Content: s.held.text.String(), Partial: partial}
	s.held.text.Reset()
	return e
}

// flush passes on the last piece of a message.
func (s *acpStream) flush() (events []tidemark.Event) {
	if s.held.text.Len() > 0 {
		events = append(events, s.take(false))
	}
	if s.whole.Len() > 0 {
		s.said = s.whole.String()
		s.whole.Reset()
	}
	return events
}

// merge adds an update to its call.
func (s *acpStream) merge(u acpUpdate) *acpCall {
	c := s.calls[u.Call]
	if c == nil {
		if s.calls == nil {
			s.calls = make(map[string]*acpCall)
		}
		c = &acpCall{kind: "other"}
		s.calls[u.Call] = c
		s.order = append(s.order, u.Call)
	}
	if u.Title != "" {
		c.title = u.Title
	}
	if u.Tool != "" {
		c.kind = u.Tool
	}
	if given(u.RawInput) {
		c.input = u.RawInput
	}
	return c
}

// given reports whether a field is present and not empty.
func given(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}":
		return false
	}
	return true
}

func (s *acpStream) call(u acpUpdate) (events []tidemark.Event) {
	c := s.merge(u)
	done := u.Status == "completed" || u.Status == "failed"
	// The input often follows the first mention of a call; without it, the
	// call starts when its work does.
	if !c.told && (c.input != nil || done || u.Status == "in_progress") {
		events = append(events, c.tell(u.Call))
	}
	if !done {
		return events
	}
	good := u.Status == "completed"
	e := tidemark.Event{Type: tidemark.EventToolResult, ToolUseID: u.Call, Success: &good, Result: u.RawOutput}
	if !given(e.Result) {
		e.Result = nil
		if given(u.Content) {
			e.Result = u.Content
		}
	}
	if !good {
		e.Error = acpText(u.Content)
	}
	s.forget(u.Call)
	return append(events, e)
}

func (s *acpStream) forget(id string) {
	delete(s.calls, id)
	for i, o := range s.order {
		if o == id {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

func (c *acpCall) tell(id string) tidemark.Event {
	c.told = true
	return tidemark.Event{Type: tidemark.EventToolUse, ToolName: c.kind, ToolUseID: id, Input: c.input,
		Extra: extra(map[string]any{"title": c.title})}
}

// acpText joins the texts of a tool's content.
func acpText(content json.RawMessage) string {
	var list []struct {
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(content, &list) != nil {
		return ""
	}
	var parts []string
	for _, c := range list {
		if c.Content.Text != "" {
			parts = append(parts, c.Content.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// asked returns what is known of a call that needs permission, and the events
// that precede the question.
func (s *acpStream) asked(u acpUpdate) (Question, []tidemark.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.flush()
	c := s.merge(u)
	if !c.told {
		events = append(events, c.tell(u.Call))
	}
	q := Question{ID: u.Call, Tool: c.kind, Title: c.title, Input: c.input}
	if q.Input == nil {
		q.Input = json.RawMessage("null")
	}
	return q, events
}

// end returns what was not passed on yet.
func (s *acpStream) end() []tidemark.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.flush()
	for _, id := range s.order {
		if c := s.calls[id]; !c.told {
			events = append(events, c.tell(id))
		}
	}
	return events
}

func (s *acpStream) replaying(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replay = on
}

// last returns the agent's last text, and what the session has cost.
func (s *acpStream) last() (said string, cost *float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said, s.cost
}
