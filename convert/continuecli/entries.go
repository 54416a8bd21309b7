package continuecli

import (
	"encoding/json"
	"io/fs"
	"iter"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// item is one item of a history: a message and what the tool knows about it.
type item struct {
	Message        json.RawMessage `json:"message"`
	ContextItems   []contextItem   `json:"contextItems"`
	EditorState    json.RawMessage `json:"editorState"`
	ToolCallStates []state         `json:"toolCallStates"`
	ToolCallState  *state          `json:"toolCallState"` // of older versions
	Summary        string          `json:"conversationSummary"`
	Reasoning      *struct {
		Text string `json:"text"`
	} `json:"reasoning"`
	fields map[string]json.RawMessage
}

type contextItem struct{ Content, Name, Description string }

// state is the progress of a tool call.
type state struct {
	ToolCallID string        `json:"toolCallId"`
	Status     string        `json:"status"`
	Output     []contextItem `json:"output"`
}

// UnmarshalJSON keeps unknown fields.
func (it *item) UnmarshalJSON(b []byte) error {
	type plain item
	if err := convert.Loose(b, (*plain)(it)); err != nil {
		return err
	}
	it.fields = map[string]json.RawMessage{}
	if json.Unmarshal(b, &it.fields) != nil {
		return nil
	}
	for _, k := range []string{"message", "contextItems", "toolCallStates", "toolCallState", "conversationSummary", "reasoning"} {
		delete(it.fields, k)
	}
	return nil
}

type message struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	ToolCallID       string          `json:"toolCallId"`
	ToolCalls        []wire.Call     `json:"toolCalls"`
	Signature        string          `json:"signature"`
	RedactedThinking string          `json:"redactedThinking"`
	Usage            usage           `json:"usage"`
}

type usage struct {
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	CostCents        float64 `json:"cost_cents"`
	Model            string  `json:"model"`
	Details          struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

func (it *item) parse() message {
	var m message
	if convert.Loose(it.Message, &m) != nil {
		return message{}
	}
	return m
}

// entries reads the file again, so that its content is held only while it is
// read.
func (s *survey) entries(fsys fs.FS) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		in, _, err := read(fsys, s.file)
		if err != nil {
			yield(convert.Entry{}, &convert.Skip{What: s.file, Why: err})
			return
		}
		answered := map[string]bool{}
		for n := range in.History {
			it := &in.History[n]
			m := it.parse()
			id := strconv.Itoa(n)
			var all []convert.Entry
			if !tidemarkRole(m.Role) {
				if !yield(convert.Entry{}, convert.Skipf(s.file, "item %d of the history has the role %.40q", n+1, m.Role)) {
					return
				}
				continue
			}
			all = it.entries(id, m, answered)
			for _, e := range all {
				e.At = s.created
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func tidemarkRole(role string) bool {
	switch role {
	case "user", "assistant", "tool", "system", "thinking":
		return true
	}
	return false
}

// entries makes the entries of an item: the message, followed by what the client
// added, the results of its calls, or the summary that it ends with.
func (it *item) entries(id string, m message, answered map[string]bool) []convert.Entry {
	main := convert.Entry{ID: id}
	main.Blocks = blocks(m.Content)
	main.Extra = convert.Keep(name, it.fields)
	var added []string
	switch m.Role {
	case "user":
		main.Role = tidemark.User
		added = it.split(&main)
	case "assistant":
		main.Role, main.Model, main.Usage = tidemark.Assistant, m.Usage.Model, m.Usage.take()
		main.Blocks = append(it.thoughts(), main.Blocks...)
		main.Blocks = append(main.Blocks, m.calls()...)
	case "thinking":
		main.Role = tidemark.Assistant
		main.Blocks = []tidemark.Block{{Type: tidemark.BlockThinking, Text: plain(m.Content)}}
		if m.Signature != "" || m.RedactedThinking != "" {
			main.Blocks[0].Provider, main.Blocks[0].Raw = "continue", string(it.Message)
		}
	case "tool":
		if answered[m.ToolCallID] {
			return nil
		}
		answered[m.ToolCallID] = true
		main.Role = tidemark.Tool
		main.Blocks = []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: m.ToolCallID, Text: plain(m.Content)}}
	case "system":
		main.Kind = convert.KindContext
	}
	all := []convert.Entry{main}
	for _, c := range it.ContextItems {
		added = append(added, strings.Trim(c.Name+"\n"+c.Content, "\n"))
	}
	if len(added) > 0 {
		context := convert.Entry{ID: id + "#context"}
		context.Kind = convert.KindContext
		for _, text := range added {
			context.Blocks = append(context.Blocks, tidemark.Text(text))
		}
		all = append(all, context)
	}
	if results := it.results(answered); len(results) > 0 {
		e := convert.Entry{ID: id + "#results"}
		e.Role, e.Blocks = tidemark.Tool, results
		all = append(all, e)
	}
	if it.Summary != "" {
		e := convert.Entry{ID: id + "#summary"}
		e.Kind, e.Blocks = convert.KindCompaction, []tidemark.Block{tidemark.Text(it.Summary)}
		if plain(m.Content) == it.Summary {
			all = all[1:] // the message is the summary and nothing else
			e.Model, e.Usage = main.Model, main.Usage
		}
		all = append(all, e)
	}
	return all
}

// split separates what was typed from what the client put around it. The state
// of the editor is the typed text, or an object that only an editor understands.
func (it *item) split(main *convert.Entry) (added []string) {
	var typed string
	if json.Unmarshal(it.EditorState, &typed) != nil || typed == "" {
		return nil
	}
	delete(it.fields, "editorState")
	main.Extra = convert.Keep(name, it.fields)
	whole := main.Text()
	before, after, ok := strings.Cut(whole, typed)
	if !ok || whole == typed {
		return nil
	}
	var own []tidemark.Block
	for _, b := range main.Blocks {
		if b.Type != tidemark.BlockText {
			own = append(own, b)
		}
	}
	main.Blocks = append([]tidemark.Block{tidemark.Text(typed)}, own...)
	for _, text := range []string{before, after} {
		if strings.TrimSpace(text) != "" {
			added = append(added, text)
		}
	}
	return added
}

func (it *item) thoughts() []tidemark.Block {
	if it.Reasoning == nil || it.Reasoning.Text == "" {
		return nil
	}
	return []tidemark.Block{{Type: tidemark.BlockThinking, Text: it.Reasoning.Text}}
}

func (m message) calls() []tidemark.Block {
	var all []tidemark.Block
	for _, c := range m.ToolCalls {
		all = append(all, c.Block())
	}
	return all
}

// results are the results in the states of calls; an open call has none.
func (it *item) results(answered map[string]bool) []tidemark.Block {
	states := it.ToolCallStates
	if it.ToolCallState != nil {
		states = append(states, *it.ToolCallState)
	}
	var all []tidemark.Block
	for _, s := range states {
		failed := s.Status == "errored" || s.Status == "canceled"
		if answered[s.ToolCallID] || len(s.Output) == 0 && s.Status != "done" && !failed {
			continue
		}
		answered[s.ToolCallID] = true
		var texts []string
		for _, o := range s.Output {
			texts = append(texts, o.Content)
		}
		all = append(all, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: s.ToolCallID, Text: strings.Join(texts, "\n"), IsError: failed})
	}
	return all
}

// blocks reads content: a text, or a list of texts and images.
func blocks(content json.RawMessage) []tidemark.Block {
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil
		}
		return []tidemark.Block{tidemark.Text(text)}
	}
	var parts []struct {
		Type, Text string
		ImageURL   struct{ URL string }
	}
	if convert.Loose(content, &parts) != nil {
		return nil
	}
	var all []tidemark.Block
	for _, p := range parts {
		switch {
		case p.ImageURL.URL != "":
			all = append(all, wire.Linked(tidemark.Block{Type: tidemark.BlockImage}, p.ImageURL.URL))
		case p.Text != "":
			all = append(all, tidemark.Text(p.Text))
		}
	}
	return all
}

func plain(content json.RawMessage) string {
	return tidemark.Entry{Blocks: blocks(content)}.Text()
}

// take counts the cached part of the input separately.
func (u usage) take() *tidemark.Usage {
	if u.PromptTokens == 0 && u.CompletionTokens == 0 {
		return nil
	}
	return &tidemark.Usage{
		InputTokens: max(u.PromptTokens-u.Details.Cached-u.Details.CacheWrite, 0), OutputTokens: u.CompletionTokens,
		CacheReadTokens: u.Details.Cached, CacheWriteTokens: u.Details.CacheWrite, CostUSD: u.CostCents / 100,
	}
}
