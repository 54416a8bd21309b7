package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// claudeStream reads the output of Claude Code with --output-format
// stream-json: one JSON object per line, distinguished by its type. New
// versions add types and fields; unknown ones become system events and do no
// harm.
type claudeStream struct {
	session string
	said    string // the last text of the main agent
	model   string // model of the main agent
	result  *claudeResult
	used    tidemark.Usage // by the main agent in this run, according to its results
	ask     *claudeAsk     // question in the last line
	counted map[string]claudeCount
	order   []string // keys of counted, in order
}

// claudeCount is the usage of one answer of a model. Claude Code writes a line
// for each block of an answer, each with the usage of the whole answer so far.
type claudeCount struct {
	model string
	usage tidemark.Usage
}

// claudeLine is the union of the lines that are used here.
type claudeLine struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	SessionID string          `json:"session_id"`
	Parent    string          `json:"parent_tool_use_id"`
	Replay    bool            `json:"isReplay"`
	Error     json.RawMessage `json:"error"`
	Message   json.RawMessage `json:"message"`
	Content   json.RawMessage `json:"content"`
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // blocks, or a string
	Usage   *claudeUsage    `json:"usage"`
}

type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (u claudeUsage) usage() tidemark.Usage {
	return sane(tidemark.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite})
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// claudeResult is the last line of a run. Where there are several, the cost and
// the models include all before, and in a resumed or copied session everything
// since its beginning. The turns and the usage cover only the main agent since
// the previous result.
type claudeResult struct {
	Subtype    string                       `json:"subtype"`
	IsError    bool                         `json:"is_error"`
	Result     string                       `json:"result"`
	Errors     []string                     `json:"errors"`
	StopReason string                       `json:"stop_reason"`
	Turns      int64                        `json:"num_turns"`
	CostUSD    float64                      `json:"total_cost_usd"`
	Usage      claudeUsage                  `json:"usage"`
	Models     map[string]claudeModelsUsage `json:"modelUsage"`
}

type claudeModelsUsage struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"`
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	CostUSD    float64 `json:"costUSD"`
}

// claudeAsk is a permission request.
type claudeAsk struct {
	request string // id of the request
	Question
}

// line returns the events of a line.
func (s *claudeStream) line(line []byte) []tidemark.Event {
	s.ask = nil
	if len(strings.TrimSpace(string(line))) == 0 {
		return nil
	}
	var l claudeLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: subtypeStdout, Content: string(line)}}
	}
	// The first line of a copied session names the new id.
	if l.SessionID != "" {
		s.session = l.SessionID
	}
	switch l.Type {
	case "assistant":
		return s.assistant(l)
	case "user":
		return s.user(l)
	case "result":
		return s.end(line)
	case "control_request":
		return s.control(l)
	case "control_response", "keep_alive", "stream_event":
		return nil // pieces of an answer are not kept: the whole answer follows
	case "system":
		e := tidemark.Event{Type: tidemark.EventSystem, Subtype: l.Subtype, Content: str(l.Content)}
		told := []string{"type", "subtype", "uuid"}
		if e.Content != "" {
			told = append(told, "content")
		}
		e.Extra = rest(line, told...)
		return []tidemark.Event{e}
	}
	return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: l.Type, Extra: rest(line, "type", "uuid")}}
}

// rest returns a line without the fields that are passed on elsewhere.
func rest(line []byte, told ...string) json.RawMessage {
	fields, ok := object(line)
	if !ok {
		return nil
	}
	more := make(map[string]any, len(fields))
	for k, v := range fields {
		more[k] = v
	}
	for _, k := range told {
		delete(more, k)
	}
	return extra(more)
}

func parentOf(l claudeLine) json.RawMessage {
	return extra(map[string]any{"parent_tool_use_id": l.Parent})
}

// blocks reads the content of a message, which may be a plain string.
func blocks(content json.RawMessage) []claudeBlock {
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		if text := str(content); text != "" {
			return []claudeBlock{{Type: "text", Text: text}}
		}
		return nil
	}
	found := make([]claudeBlock, 0, len(list))
	for _, raw := range list {
		var b claudeBlock
		if json.Unmarshal(raw, &b) == nil { // one odd block does not hide the others
			found = append(found, b)
		}
	}
	return found
}

func (s *claudeStream) assistant(l claudeLine) (events []tidemark.Event) {
	var m claudeMessage
	if json.Unmarshal(l.Message, &m) != nil {
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: l.Type, Content: str(l.Message)}}
	}
	if l.Parent == "" && m.Model != "" && m.Usage != nil {
		s.model = m.Model
	}
	usage := s.count(m)
	for _, b := range blocks(m.Content) {
		e := tidemark.Event{Type: tidemark.EventAssistant, Extra: parentOf(l)}
		switch {
		case b.Type == "text" && l.Error != nil && string(l.Error) != "null":
			e.Type, e.Message, e.Code = tidemark.EventError, b.Text, str(l.Error)
		case b.Type == "text":
			e.Content = b.Text
			if l.Parent == "" {
				s.said = b.Text
			}
		case b.Type == "thinking":
			e.Subtype, e.Content = subtypeThink, b.Thinking
		case strings.HasSuffix(b.Type, "tool_use"):
			e.Type, e.ToolName, e.ToolUseID, e.Input = tidemark.EventToolUse, b.Name, b.ID, b.Input
		case strings.HasSuffix(b.Type, "tool_result"):
			e = toolResult(b, e)
		default: // hidden thinking, and future kinds
			e.Subtype = b.Type
		}
		e.Usage, usage = usage, nil // only with the first block, so that nothing is counted twice
		events = append(events, e)
	}
	if usage != nil {
		events = append(events, tidemark.Event{Type: tidemark.EventAssistant, Usage: usage, Extra: parentOf(l)})
	}
	return events
}

// count records the usage of an answer, and returns it the first time.
func (s *claudeStream) count(m claudeMessage) *tidemark.Usage {
	if m.Usage == nil || m.Usage.usage() == (tidemark.Usage{}) {
		return nil
	}
	u := m.Usage.usage()
	if m.ID == "" {
		m.ID = fmt.Sprint("without an id ", len(s.order))
	}
	_, known := s.counted[m.ID]
	if !known {
		if s.counted == nil {
			s.counted = make(map[string]claudeCount)
		}
		s.order = append(s.order, m.ID)
	}
	s.counted[m.ID] = claudeCount{m.Model, u}
	if known {
		return nil
	}
	return &u
}

func toolResult(b claudeBlock, e tidemark.Event) tidemark.Event {
	good := !b.IsError
	e.Type, e.ToolUseID, e.Result, e.Success = tidemark.EventToolResult, b.ToolUseID, b.Content, &good
	if b.IsError {
		e.Error = flat(b.Content)
	}
	return e
}

// flat returns the text of content that is a string or text blocks.
func flat(content json.RawMessage) string {
	var parts []string
	for _, b := range blocks(content) {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (s *claudeStream) user(l claudeLine) (events []tidemark.Event) {
	if l.Replay {
		return nil // the prompt itself, or the past of a session
	}
	var m claudeMessage
	if json.Unmarshal(l.Message, &m) != nil {
		return nil
	}
	for _, b := range blocks(m.Content) {
		e := tidemark.Event{Type: tidemark.EventSystem, Subtype: "user", Content: b.Text, Extra: parentOf(l)}
		if strings.HasSuffix(b.Type, "tool_result") {
			e = toolResult(b, e)
			e.Subtype, e.Content = "", ""
		}
		events = append(events, e)
	}
	return events
}

func (s *claudeStream) end(line []byte) []tidemark.Event {
	var r claudeResult
	if err := json.Unmarshal(line, &r); err != nil {
		return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: subtypeStdout, Content: string(line)}}
	}
	if s.result != nil {
		r.Turns += s.result.Turns
	}
	s.result, s.used = &r, sane(plus(s.used, r.Usage.usage()))
	return []tidemark.Event{{Type: tidemark.EventSystem, Subtype: "result", Content: r.Subtype,
		Extra: rest(line, "type", "subtype", "uuid", "result")}}
}

func (s *claudeStream) control(l claudeLine) []tidemark.Event {
	var q struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		ID      string          `json:"tool_use_id"`
		Title   string          `json:"title"`
		Input   json.RawMessage `json:"input"`
	}
	if json.Unmarshal(l.Request, &q) != nil || l.RequestID == "" {
		return nil
	}
	s.ask = &claudeAsk{request: l.RequestID}
	if q.Subtype != "can_use_tool" {
		return nil // an unknown question is answered too: silence would stop the run
	}
	if q.ID == "" {
		q.ID = l.RequestID
	}
	if q.Input == nil {
		q.Input = json.RawMessage("{}")
	}
	s.ask.Question = Question{ID: q.ID, Tool: q.Tool, Title: q.Title, Input: q.Input}
	return nil
}

// outcome returns what the stream says about the run of a task.
func (s *claudeStream) outcome(t Task) (o Outcome) {
	o.Summary = s.said
	if s.result == nil {
		// The run was ended half-way: the usage of the answers is all there
		// is, and the cost is unknown.
		for _, id := range s.order {
			o.use(s.counted[id].model, s.counted[id].usage)
		}
		return o
	}
	r := s.result
	if r.Result != "" {
		o.Summary = r.Result
	}
	s.spent(t, &o)
	o.Turns = min(max(r.Turns, 0), mostTokens)
	return o
}

// spent counts the usage of a run. In a session that is older than the run, the
// result includes the usage of earlier runs, unless it comes from an old Claude
// Code; then the figures by model equal those of the main agent.
func (s *claudeStream) spent(t Task, o *Outcome) {
	var total tidemark.Usage
	models := make(map[string]tidemark.Usage)
	for model, u := range s.result.Models {
		models[model] = tidemark.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead,
			CacheWriteTokens: u.CacheWrite, CostUSD: u.CostUSD}
		total = plus(total, sane(models[model]))
	}
	if len(models) == 0 {
		models[""], total = s.used, s.used
	}
	total = sane(total)
	total.CostUSD = saneUSD(s.result.CostUSD)
	o.Spent = &total
	if t.Session == "" || tokens(total) == tokens(s.used) && len(s.result.Models) > 0 {
		for model, u := range models {
			o.use(model, u)
		}
		o.CostUSD = total.CostUSD
		return
	}
	// The increase cannot be split by model. Where the earlier usage is
	// unknown, the main agent is counted, and no cost rather than one too
	// high.
	grown := s.used
	if t.Spent != nil {
		g := minus(total, *t.Spent)
		grown = tidemark.Usage{
			InputTokens:      max(grown.InputTokens, g.InputTokens),
			OutputTokens:     max(grown.OutputTokens, g.OutputTokens),
			CacheReadTokens:  max(grown.CacheReadTokens, g.CacheReadTokens),
			CacheWriteTokens: max(grown.CacheWriteTokens, g.CacheWriteTokens),
			CostUSD:          max(0, total.CostUSD-t.Spent.CostUSD),
		}
	}
	o.use(s.model, grown)
}

// tokens is a usage without its cost.
func tokens(u tidemark.Usage) tidemark.Usage {
	u.CostUSD = 0
	return u
}

// judge returns the exit reason of a run that was not ended from outside, or
// why it failed.
func (s *claudeStream) judge(e ending) (reason string, failure error) {
	r := s.result
	switch {
	case r == nil:
		return "", fmt.Errorf("claude %s, without a result", e)
	case r.Subtype == "error_max_turns":
		return tidemark.ExitMaxTurns, nil
	case r.IsError || r.Subtype != "success":
		why := strings.Join(r.Errors, "; ")
		if why == "" {
			why = r.Result
		}
		if why == "" {
			why = e.stderr
		}
		return "", fmt.Errorf("claude: %s: %s", r.Subtype, short(why))
	case r.StopReason == "stop_sequence":
		return tidemark.ExitStopSequence, nil
	case r.StopReason == "max_tokens":
		return tidemark.ExitMaxTokens, nil
	case r.StopReason == "refusal":
		return "", errors.New("claude: its model refused to go on")
	}
	return tidemark.ExitSuccess, nil
}
