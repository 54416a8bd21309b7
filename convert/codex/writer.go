package codex

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// writer writes the lines of one rollout.
type writer struct {
	file      io.WriteCloser
	buf       *bufio.Writer
	err       error
	thread    string
	id        string // of the file: the thread's, or the segment's
	paginated bool   // the newer form: lines are numbered, events contain items
	ordinal   int64
	offset    int64
	turn      string // the open one, "": none
	answered  bool   // the last entry was the model's
	at        time.Time
	total     tokens
	spawned   map[string][]string // threads of helper agents by the call that starts them
	lost      map[string]int
}

func newWriter(f io.WriteCloser, thread string, lost map[string]int) *writer {
	return &writer{file: f, buf: bufio.NewWriter(f), thread: thread, id: thread, lost: lost}
}

// line writes one line.
func (w *writer) line(at time.Time, kind string, payload any, rest map[string]json.RawMessage) {
	if w.err != nil {
		return
	}
	if at.IsZero() {
		at = w.at
	}
	w.at = at
	rec := struct {
		Timestamp string `json:"timestamp"`
		Ordinal   *int64 `json:"ordinal,omitempty"`
		Type      string `json:"type"`
		Payload   any    `json:"payload"`
	}{Timestamp: formatTime(at), Type: kind, Payload: payload}
	if w.paginated {
		n := w.ordinal
		rec.Ordinal = &n
	}
	w.ordinal++
	b, err := convert.Encode(rec)
	if err == nil && len(rest) > 0 {
		var more []byte
		if more, err = convert.Encode(rest); err == nil {
			b = append(append(b[:len(b)-1], ','), more[1:]...)
		}
	}
	if err == nil {
		var n int
		n, err = w.buf.Write(append(b, '\n'))
		w.offset += int64(n)
	}
	w.err = err
}

func (w *writer) begin(at time.Time, m map[string]json.RawMessage) {
	w.line(at, "session_meta", m, nil)
}

func (w *writer) event(at time.Time, payload any) { w.line(at, "event_msg", payload, nil) }

func (w *writer) item(at time.Time, payload any, k kept) {
	w.line(at, "response_item", payload, k.Line)
}

// close ends a turn that has its answer, and closes the file.
func (w *writer) close() error {
	if w.turn != "" && w.answered {
		w.event(w.at, map[string]any{"type": "task_complete", "turn_id": w.turn, "last_agent_message": nil})
	}
	if w.err != nil {
		return w.err
	}
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return w.file.Close()
}

// entry writes the lines that an entry was made from, or would be.
func (w *writer) entry(e convert.Entry) {
	k := keptOf(e.Extra)
	for _, line := range k.Before {
		w.kept(line)
	}
	w.answered = e.Role == tidemark.Assistant
	switch {
	case e.Kind == kindRewind, e.Kind == tidemark.KindBranch:
		// The other branch is not written, so there is nothing to go back from.
	case k.Event != nil:
		w.event(e.At, k.Event)
		w.turn = ""
	case e.Kind == "" || e.Kind == tidemark.KindMessage:
		w.message(e, k)
	case e.Kind == convert.KindContext:
		role := "developer"
		if k.Role != "" {
			role = k.Role
		}
		w.messageItem(e, k, role, e.Blocks)
		w.usage(e)
	case e.Kind == convert.KindCompaction:
		w.usage(e)
		p := fields(k.Item)
		p["message"] = mustJSON(e.Text())
		w.line(e.At, "compacted", p, k.Line)
	case e.Kind == kindAgent && k.Item != nil:
		p := fields(k.Item)
		p["type"], p["content"] = mustJSON(kindAgent), w.content(e.Blocks, k, "input_text")
		w.item(e.At, p, k)
	case e.Kind == kindItem && k.Type != "":
		p := fields(k.Item)
		p["type"] = mustJSON(k.Type)
		w.item(e.At, p, k)
	case e.Kind == kindUsage:
		w.usage(e)
	default:
		w.lost["entry of kind "+e.Kind]++
	}
}

// kept writes a line that was kept with an entry.
func (w *writer) kept(line json.RawMessage) {
	rec, err := parseRecord(line)
	if err != nil || rec.Type == "session_meta" {
		return
	}
	var p struct {
		Type string
		Turn string `json:"turn_id"`
	}
	if json.Unmarshal(rec.Payload, &p) == nil && rec.Type == "event_msg" {
		switch p.Type {
		case "task_started", "turn_started":
			w.turn = p.Turn
		case "task_complete", "turn_complete":
			w.turn = ""
		}
	}
	w.line(rec.at(), rec.Type, rec.Payload, rec.Rest)
}

// message writes a message: adjacent texts and images are one item, everything
// else is an item of its own.
func (w *writer) message(e convert.Entry, k kept) {
	role := string(e.Role)
	if e.Role == tidemark.System || e.Role == tidemark.Tool {
		role = "developer"
	}
	single := true
	for _, b := range e.Blocks {
		single = single && said(b)
	}
	if single && e.Role != tidemark.Tool {
		w.messageItem(e, k, role, e.Blocks)
		w.usage(e)
		return
	}
	if len(e.Blocks) > 1 {
		k = kept{} // it was not one item
	}
	for i := 0; i < len(e.Blocks); {
		n := i
		for n < len(e.Blocks) && said(e.Blocks[n]) {
			n++
		}
		if n > i {
			w.messageItem(e, k, role, e.Blocks[i:n])
			i = n
			continue
		}
		w.block(e, k, e.Blocks[i])
		i++
	}
	w.usage(e)
}

func said(b tidemark.Block) bool {
	return b.Type == tidemark.BlockText || b.Type == tidemark.BlockImage || b.Type == tidemark.BlockFile
}

// block writes a block as an item of its own.
func (w *writer) block(e convert.Entry, k kept, b tidemark.Block) {
	switch b.Type {
	case tidemark.BlockThinking:
		w.thinking(e, k, b)
	case tidemark.BlockToolUse:
		w.item(e.At, w.call(k, b), k)
		for _, child := range w.spawned[b.ID] {
			w.event(e.At, map[string]any{"type": "collab_agent_spawn_end", "call_id": b.ID, "sender_thread_id": w.thread,
				"new_thread_id": child, "prompt": "", "status": "pending_init"})
		}
	case tidemark.BlockToolResult:
		w.item(e.At, w.result(k, b), k)
	default:
		w.lost["block of type "+b.Type]++
	}
}

// messageItem writes a message, and the event that shows it.
func (w *writer) messageItem(e convert.Entry, k kept, role string, blocks []tidemark.Block) {
	usual := "input_text"
	if role == "assistant" {
		usual = "output_text"
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == tidemark.BlockText {
			texts = append(texts, b.Text)
		}
	}
	text := strings.Join(texts, "\n")
	p := fields(k.Item)
	p["type"], p["role"] = mustJSON("message"), mustJSON(role)
	p["content"] = w.content(blocks, k, usual)
	if e.Role == tidemark.Assistant && text != "" {
		w.show(e.At, "AgentMessage", p["id"], text)
	}
	w.item(e.At, p, k)
	if e.Role == tidemark.User {
		w.show(e.At, "UserMessage", p["id"], text)
	}
}

// show writes the event of a message or a thought, in the form of the file.
func (w *writer) show(at time.Time, kind string, id json.RawMessage, text string) {
	if !w.paginated {
		switch kind {
		case "UserMessage":
			w.event(at, map[string]any{"type": "user_message", "message": text, "images": []string{}, "local_images": []string{}, "text_elements": []string{}})
		case "AgentMessage":
			w.event(at, map[string]any{"type": "agent_message", "message": text})
		case "Reasoning":
			w.event(at, map[string]any{"type": "agent_reasoning", "text": text})
		}
		return
	}
	if id == nil {
		id = mustJSON(derivedID(w.thread + text))
	}
	item := map[string]any{"type": kind, "id": id}
	switch kind {
	case "UserMessage":
		item["content"] = []any{map[string]any{"type": "text", "text": text, "text_elements": []string{}}}
	case "AgentMessage":
		item["content"] = []any{map[string]any{"type": "Text", "text": text}}
	case "Reasoning":
		item["summary_text"], item["raw_content"] = []string{text}, []string{}
	}
	ms := at.UnixMilli()
	w.event(at, map[string]any{"type": "item_completed", "thread_id": w.thread, "turn_id": w.turn, "item": item,
		"started_at_ms": ms, "completed_at_ms": ms})
}

// thinking writes a reasoning item as the provider made it. The provider accepts
// no other: another provider's thinking is shown but not sent.
func (w *writer) thinking(e convert.Entry, k kept, b tidemark.Block) {
	var p struct {
		Type string
		ID   json.RawMessage
	}
	own := b.Provider == provider && json.Unmarshal([]byte(b.Raw), &p) == nil && p.Type == "reasoning"
	if b.Text != "" {
		w.show(e.At, "Reasoning", p.ID, b.Text)
	}
	if own {
		w.item(e.At, json.RawMessage(b.Raw), k)
		return
	}
	w.lost["thought of another provider, shown and not sent"]++
}

func (w *writer) call(k kept, b tidemark.Block) map[string]json.RawMessage {
	p := fields(k.Item)
	p["call_id"] = mustJSON(b.ID)
	if k.Type == "local_shell_call" {
		p["type"], p["action"] = mustJSON(k.Type), b.Input
		return p
	}
	p["name"] = mustJSON(toolName(b.Name))
	var text string
	free := json.Unmarshal(b.Input, &text) == nil && len(b.Input) > 0
	if !free {
		text = string(b.Input)
		if text == "" && k.empty() {
			text = "{}"
		}
	}
	if k.Type == "custom_tool_call" {
		p["type"], p["input"] = mustJSON(k.Type), mustJSON(text)
		return p
	}
	p["type"], p["arguments"] = mustJSON("function_call"), mustJSON(text)
	return p
}

// toolName reduces a name to the characters that the provider accepts.
func toolName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

func (w *writer) result(k kept, b tidemark.Block) map[string]json.RawMessage {
	p := fields(k.Item)
	p["call_id"] = mustJSON(b.ToolUseID)
	p["type"] = mustJSON("function_call_output")
	if k.Type != "" {
		p["type"] = mustJSON(k.Type)
	}
	var shape map[string]json.RawMessage
	switch {
	case json.Unmarshal(p["output"], &shape) == nil && shape != nil:
		if b.Text != "" {
			shape["content"] = mustJSON(b.Text)
			p["output"] = mustJSON(shape)
		}
		return p
	case len(b.Blocks) > 0:
		p["output"] = w.content(b.Blocks, k, "input_text")
	default:
		p["output"] = mustJSON(b.Text)
	}
	if b.IsError && !failed(b.Text) {
		w.lost["mark of a failed tool"]++
	}
	return p
}

// content restores the content of a message: as it was, where that is known.
func (w *writer) content(blocks []tidemark.Block, k kept, usual string) json.RawMessage {
	used := 0
	for _, p := range k.Content {
		if p.Block != nil {
			used++
		}
	}
	parts := k.Content
	if used != len(blocks) || parts == nil {
		parts = make([]part, len(blocks))
		for i := range parts {
			parts[i].Block = &i
		}
	}
	all := []json.RawMessage{}
	for _, p := range parts {
		switch {
		case p.Block == nil:
			all = append(all, p.Item)
		case *p.Block >= 0 && *p.Block < len(blocks):
			if piece := w.piece(blocks[*p.Block], p, usual); piece != nil {
				all = append(all, piece)
			}
		}
	}
	return mustJSON(all)
}

func (w *writer) piece(b tidemark.Block, p part, usual string) json.RawMessage {
	if b.Raw != "" && b.Provider == provider && json.Valid([]byte(b.Raw)) {
		return json.RawMessage(b.Raw)
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(p.Item, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	switch b.Type {
	case tidemark.BlockText:
		m["text"] = mustJSON(p.Prefix + b.Text)
	case tidemark.BlockImage:
		usual = "input_image"
		m["image_url"] = mustJSON(b.URL)
		if b.Data != nil {
			m["image_url"] = mustJSON(wire.DataURL(b))
		}
	default:
		w.lost["block of type "+b.Type]++
		return nil
	}
	if m["type"] == nil {
		m["type"] = mustJSON(usual)
	}
	return mustJSON(m)
}

// usage writes what an answer cost.
func (w *writer) usage(e convert.Entry) {
	if e.Usage == nil {
		return
	}
	t := tokensOf(e.Usage)
	w.total.add(t)
	if e.Usage.CostUSD != 0 {
		w.lost["cost of an answer"]++
	}
	type counted struct {
		tokens
		Reasoning int64 `json:"reasoning_output_tokens"`
	}
	w.event(e.At, map[string]any{"type": "token_count", "rate_limits": nil, "info": map[string]any{
		"total_token_usage": counted{tokens: w.total}, "last_token_usage": counted{tokens: t}, "model_context_window": nil}})
}

// fields is a copy that may be written to.
func fields(m map[string]json.RawMessage) map[string]json.RawMessage {
	if m == nil {
		return map[string]json.RawMessage{}
	}
	return maps.Clone(m)
}
