package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// message is one message as the tool writes it.
type message struct {
	ID             string          `json:"id"`
	Timestamp      string          `json:"timestamp"`
	Type           string          `json:"type"` // user, gemini, info, error, warning
	Content        json.RawMessage `json:"content"`
	DisplayContent json.RawMessage `json:"displayContent"`
	Thoughts       []thought       `json:"thoughts"`
	Tokens         *tokens         `json:"tokens"`
	Model          string          `json:"model"`
	ToolCalls      []call          `json:"toolCalls"`
	raw            json.RawMessage
	read           []part // of Content, once it was asked for
	isRead         bool
}

// parts are those of the content, decoded once.
func (m *message) parts() []part {
	if !m.isRead {
		m.read, m.isRead = parts(m.Content), true
	}
	return m.read
}

type thought struct{ Subject, Description string }

type tokens struct{ Input, Output, Cached, Thoughts, Tool int64 }

type call struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Result  json.RawMessage `json:"result"`
	Status  string          `json:"status"`
	AgentID string          `json:"agentId"`
}

// part is a part of a message in the model's API.
type part struct {
	Text       string `json:"text"`
	Thought    bool   `json:"thought"`
	Signature  string `json:"thoughtSignature"`
	InlineData *struct {
		Data     string `json:"data"`
		MimeType string `json:"mimeType"`
	} `json:"inlineData"`
	FileData *struct {
		FileURI  string `json:"fileUri"`
		MimeType string `json:"mimeType"`
	} `json:"fileData"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Response json.RawMessage   `json:"response"`
		Parts    []json.RawMessage `json:"parts"`
	} `json:"functionResponse"`
	raw json.RawMessage
}

func parse(raw json.RawMessage) (*message, error) {
	m := &message{raw: raw}
	if err := convert.Loose(raw, m); err != nil {
		return nil, err
	}
	if m.Type == "" {
		return nil, tidemark.Invalidf("a message without a type")
	}
	return m, nil
}

func (m *message) key() string { return m.Type + "|" + m.ID }

// callID is the id of a call; an old version of the tool assigned none.
func (m *message) callID(n int) string {
	if id := m.ToolCalls[n].ID; id != "" {
		return id
	}
	return m.ID + "#call-" + string(rune('a'+n%26))
}

// parts reads content, which is a text or a list of parts or texts.
func parts(content json.RawMessage) []part {
	switch {
	case len(content) == 0 || string(content) == "null":
		return nil
	case content[0] == '"':
		p := part{}
		if json.Unmarshal(content, &p.Text) != nil || p.Text == "" {
			return nil
		}
		return []part{p}
	case content[0] != '[':
		return eachPart([]json.RawMessage{content})
	}
	var all []part
	signed := func(p part) bool { return p.Signature != "" }
	if json.Unmarshal(content, &all) == nil && !slices.ContainsFunc(all, signed) {
		return all
	}
	// Something odd, or something that is kept verbatim.
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	return eachPart(list)
}

func eachPart(list []json.RawMessage) []part {
	var all []part
	for _, raw := range list {
		p := part{raw: raw}
		if json.Unmarshal(raw, &p.Text) != nil && convert.Loose(raw, &p) != nil {
			continue
		}
		all = append(all, p)
	}
	return all
}

func texts(all []part) []string {
	var out []string
	for _, p := range all {
		if p.Text != "" && !p.Thought {
			out = append(out, p.Text)
		}
	}
	return out
}

func (m *message) text() string { return strings.Join(texts(m.parts()), "\n") }

// sum identifies copies: by text, author and calls. It is the same for the two
// forms of a model's message.
func (m *message) sum() sum {
	all := m.parts()
	said := append([]string{m.Type}, texts(all)...)
	for _, p := range all {
		if p.FunctionCall != nil {
			said = append(said, p.FunctionCall.ID)
		}
	}
	for _, c := range m.ToolCalls {
		said = append(said, c.ID)
	}
	return sumOf(said...)
}

// responses are the ids of the calls that a message answers.
func (m *message) responses() []string {
	if m.Type != "user" {
		return nil
	}
	var ids []string
	for _, p := range m.parts() {
		if p.FunctionResponse != nil {
			ids = append(ids, p.FunctionResponse.ID)
		}
	}
	return ids
}

// answered reports whether a message has nothing but known results.
func (m *message) answered(known map[string]bool) bool {
	ids := m.responses()
	return len(ids) > 0 && !m.saysMore() && !slices.ContainsFunc(ids, func(id string) bool { return !known[id] })
}

// saysMore reports whether a message has more than results, such as what a
// person typed while a tool ran.
func (m *message) saysMore() bool {
	return m.Type == "user" && len(m.responses()) > 0 && len(texts(m.parts())) > 0
}

// isContext reports whether a message is the one that the client starts with.
func (m *message) isContext() bool {
	if m.Type != "user" {
		return false
	}
	text := strings.TrimSpace(m.text())
	return strings.HasPrefix(text, "<session_context>") ||
		strings.HasPrefix(text, "This is the Gemini CLI. We are setting up the context")
}

// hasContext reports whether the client added text to the user's.
func (m *message) hasContext() bool {
	_, added := m.split()
	return len(added) > 0
}

// split separates the user's parts from the texts that the client added, such as
// the content of mentioned files.
func (m *message) split() (own []part, added []string) {
	all := m.parts()
	shown := parts(m.DisplayContent)
	if m.Type != "user" || len(shown) == 0 {
		return all, nil
	}
	typed := texts(shown)
	own = shown
	for _, p := range all {
		switch n := slices.Index(typed, p.Text); {
		case p.Text == "":
			own = append(own, p)
		case n >= 0:
			typed = slices.Delete(typed, n, n+1)
		default:
			added = append(added, p.Text)
		}
	}
	return own, added
}
