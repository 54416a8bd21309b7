package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// ResponsesProvider is the name of OpenAI's Responses API as a provider, in
// errors and in blocks.
const ResponsesProvider = "openai-responses"

// responsesHead is what a request to the Responses API contains besides the
// conversation. Nothing is kept there: the whole conversation is sent each time,
// so that a session does not depend on what a provider still has.
type responsesHead struct {
	Model     string     `json:"model"`
	Stream    bool       `json:"stream"`
	Store     bool       `json:"store"`
	MaxTokens int        `json:"max_output_tokens,omitempty"`
	Reasoning *reasoning `json:"reasoning,omitempty"`
	Include   []string   `json:"include,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary"`
}

// reasons reports whether a model of OpenAI thinks even when it is not asked to.
// Others refuse to be asked for their encrypted thoughts.
func reasons(name string) bool {
	for _, begins := range []string{"gpt-5", "o1", "o3", "o4", "codex"} {
		if strings.HasPrefix(name, begins) && !strings.Contains(name, "-chat") {
			return true
		}
	}
	return false
}

func headOfResponses(r model.Request) responsesHead {
	h := responsesHead{Model: r.Model, Stream: true, MaxTokens: r.MaxTokens}
	if r.Thinking > 0 {
		h.Reasoning = &reasoning{Effort: model.Effort(r.Thinking), Summary: "auto"}
	}
	if r.Thinking > 0 || reasons(r.Model) {
		h.Include = []string{"reasoning.encrypted_content"}
	}
	return h
}

// responsesBody returns a whole request, made of its parts.
func (c *Client) responsesBody(r model.Request) ([]byte, error) {
	parts, err := c.Parts(r)
	if err != nil {
		return nil, err
	}
	body, err := model.JSON(headOfResponses(r))
	if err != nil {
		return nil, err
	}
	items := slices.DeleteFunc(slices.Clone(parts[2:]), func(p []byte) bool { return len(p) == 0 })
	if len(items) == 0 {
		return nil, tidemark.Invalidf("the conversation is empty: there is nothing to answer")
	}
	body = bytes.TrimSuffix(body, []byte("}"))
	if len(parts[0]) > 0 {
		body = append(append(body, `,"tools":`...), parts[0]...)
	}
	if len(parts[1]) > 0 {
		body = append(append(body, `,"instructions":`...), parts[1]...)
	}
	body = append(append(body, `,"input":[`...), bytes.Join(items, []byte(","))...)
	return append(body, `]}`...), nil
}

// responsesParts is Parts for the Responses API: the tools, the instructions,
// and for each entry its items with commas between them.
func responsesParts(r model.Request) ([][]byte, error) {
	parts := make([][]byte, 0, len(r.Entries)+2)
	tools, err := responsesTools(r.Tools)
	if err != nil {
		return nil, err
	}
	var system []byte
	if strings.TrimSpace(r.System) != "" {
		if system, err = model.JSON(r.System); err != nil {
			return nil, err
		}
	}
	parts = append(parts, tools, system)
	for i, e := range r.Entries {
		part, err := itemsOf(e)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func responsesTools(tools []model.Tool) ([]byte, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	type parameter struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"` // it would want every property to be required
	}
	list := make([]parameter, len(tools))
	for i, t := range tools {
		schema, err := model.SchemaOf(t)
		if err != nil {
			return nil, err
		}
		list[i] = parameter{Type: "function", Name: t.Name, Description: t.Description, Parameters: schema}
	}
	return model.JSON(list)
}

// item is one of the list that a conversation is in the Responses API.
type item struct {
	Type      string        `json:"type"`
	Role      string        `json:"role,omitempty"`
	Content   []itemContent `json:"content,omitempty"`
	CallID    string        `json:"call_id,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments string        `json:"arguments,omitempty"`
	Output    *string       `json:"output,omitempty"` // a result may be empty, and is sent
}

type itemContent struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	FileName string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// itemsOf returns the items of an entry, joined by commas. Results of tools come
// first, since they have to follow their calls.
func itemsOf(e tidemark.Entry) ([]byte, error) {
	if e.Kind != "" && e.Kind != tidemark.KindMessage {
		return nil, nil
	}
	var results, rest [][]byte
	speech := item{Type: "message", Role: roleOf(e.Role)}
	flush := func() error {
		if len(speech.Content) == 0 {
			return nil
		}
		raw, err := model.JSON(speech)
		rest, speech.Content = append(rest, raw), nil
		return err
	}
	for _, b := range withoutLastThoughts(e.Blocks) {
		var raw []byte
		var err error
		switch {
		case b.Type == tidemark.BlockThinking:
			if raw = ownThought(b); raw == nil {
				continue
			}
		case b.Type == tidemark.BlockToolUse:
			var input json.RawMessage
			if input, err = model.InputOf(b); err == nil {
				raw, err = model.JSON(item{Type: "function_call", CallID: b.ID, Name: b.Name, Arguments: string(input)})
			}
		case b.Type == tidemark.BlockToolResult:
			text := resultOf(b).Content.(string)
			if raw, err = model.JSON(item{Type: "function_call_output", CallID: b.ToolUseID, Output: &text}); err == nil {
				results = append(results, raw)
				continue
			}
		default:
			if one := contentOf(b, speech.Role); one.Text != "" || one.Type != "input_text" && one.Type != "output_text" {
				speech.Content = append(speech.Content, one)
			}
			continue
		}
		if err == nil {
			err = flush()
		}
		if err != nil {
			return nil, err
		}
		rest = append(rest, raw)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return bytes.Join(append(results, rest...), []byte(",")), nil
}

func roleOf(r tidemark.Role) string {
	switch r {
	case tidemark.Assistant:
		return "assistant"
	case tidemark.System:
		return "developer"
	}
	return "user"
}

// contentOf returns text, an image or a document. Only the user's side may have
// more than text.
func contentOf(b tidemark.Block, role string) itemContent {
	if role == "assistant" {
		return itemContent{Type: "output_text", Text: model.InWords(b)}
	}
	if p := rich(b); p != nil && role == "user" {
		if p.File != nil {
			return itemContent{Type: "input_file", FileName: p.File.Name, FileData: p.File.Data}
		}
		return itemContent{Type: "input_image", ImageURL: p.ImageURL.URL}
	}
	return itemContent{Type: "input_text", Text: model.InWords(b)}
}

// withoutLastThoughts leaves out thinking that nothing follows: an answer that
// was cut off there is refused.
func withoutLastThoughts(blocks []tidemark.Block) []tidemark.Block {
	n := len(blocks)
	for n > 0 && blocks[n-1].Type == tidemark.BlockThinking {
		n--
	}
	return blocks[:n]
}

// ownThought returns thinking that this API encrypted, byte for byte; nil for
// any other. Where a secret was masked in it, it is no longer what it was.
func ownThought(b tidemark.Block) []byte {
	if b.Provider != ResponsesProvider || b.Raw == "" || len(tidemark.Fingerprints(b.Raw)) > 0 || !isThought([]byte(b.Raw)) {
		return nil
	}
	return []byte(b.Raw)
}

// isThought reports whether an item is reasoning that can be sent back.
func isThought(raw []byte) bool {
	var kind struct {
		Type      string `json:"type"`
		Encrypted string `json:"encrypted_content"`
	}
	return utf8.Valid(raw) && json.Unmarshal(raw, &kind) == nil && kind.Type == "reasoning" && kind.Encrypted != ""
}
