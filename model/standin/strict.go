package standin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // for their sizes
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// Strict is Handler for a model that refuses what the providers refuse, with status
// 400: calls without results and results without calls, calls that are there twice,
// names and ids that are no names, inputs that are no objects, thinking that another
// model signed, images that are too large, none, or of another kind than they say,
// and empty texts.
func Strict() http.Handler {
	next := Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c := checker{calls: map[string]bool{}}
		switch {
		case r.Header.Get("Content-Encoding") != "":
			c.refuse("a strict stand-in reads no compressed requests")
		case strings.HasSuffix(r.URL.Path, "/messages"):
			c.messages(body)
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			c.chat(body)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			c.responses(body)
		}
		if c.wrong == "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(text(object{"type": "error", "error": object{"type": "invalid_request_error", "message": c.wrong}}))
	})
}

// Signature is that of thinking which the stand-in signed, and Sealed its encrypted
// reasoning.
const (
	Signature = "ZmFrZS1zaWduYXR1cmU="
	Sealed    = "ZmFrZQ=="
)

// checker looks for what a provider refuses.
type checker struct {
	wrong string
	calls map[string]bool // by id: whether it has its result
}

func (c *checker) refuse(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

// plainName is what providers accept as the name of a tool and the id of a call.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (c *checker) call(id, name string, input json.RawMessage, most int) {
	if !plainName.MatchString(id) || len(id) > most {
		c.refuse("the id of a call is not a name of at most %d letters: %.80q", most, id)
	}
	if !plainName.MatchString(name) || len(name) > 128 {
		c.refuse("the name of a tool is none: %.80q", name)
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(input, &o) != nil || o == nil {
		c.refuse("the input of call %s is no object", id)
	}
	if _, there := c.calls[id]; there {
		c.refuse("call %s is there twice", id)
	}
	c.calls[id] = false
}

func (c *checker) result(id string) {
	if has, there := c.calls[id]; !there || has {
		c.refuse("a result of call %s, which is not there or has one", id)
	}
	c.calls[id] = true
}

// answered refuses calls that have no results yet.
func (c *checker) answered() {
	for id, has := range c.calls {
		if !has {
			c.refuse("call %s has no result", id)
		}
	}
}

// Anthropic's limits for an image.
const (
	maxEncodedImage = 5 << 20
	maxPixels       = 8000
)

func (c *checker) image(kind, data string, most int) {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		c.refuse("an image is not in base64")
		return
	}
	if most > 0 && len(data) > most {
		c.refuse("an image has %d bytes, over %d", len(data), most)
	}
	size, is, err := image.DecodeConfig(bytes.NewReader(b))
	switch {
	case err != nil:
		c.refuse("an image cannot be read")
	case kind != "image/"+is:
		c.refuse("an image that is said to be %s is %s", kind, is)
	case most > 0 && max(size.Width, size.Height) > maxPixels:
		c.refuse("an image has more than %d pixels on a side", maxPixels)
	}
}

// imageURL checks an image that is in a URL.
func (c *checker) imageURL(url string) {
	if kind, data, found := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); found {
		c.image(kind, data, 0)
	}
}

type anthropicBlock struct {
	Type, ID, Name, Text, Signature string
	ToolUseID                       string `json:"tool_use_id"`
	Input                           json.RawMessage
	Content                         json.RawMessage
	Source                          struct {
		Data      string
		MediaType string `json:"media_type"`
	}
}

func (c *checker) messages(body []byte) {
	var r struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if json.Unmarshal(body, &r) != nil {
		c.refuse("no JSON")
	}
	for i, m := range r.Messages {
		if i == 0 && m.Role != "user" {
			c.refuse("it begins with an answer")
		}
		var blocks []anthropicBlock
		var said string
		if json.Unmarshal(m.Content, &said) == nil {
			blocks = []anthropicBlock{{Type: "text", Text: said}}
		} else if m.Role != "system" && (json.Unmarshal(m.Content, &blocks) != nil || len(blocks) == 0) {
			c.refuse("message %d has no content", i)
		}
		if m.Role == "assistant" {
			c.answered()
		}
		others := false
		for _, b := range blocks {
			if b.Type == "tool_result" && others {
				c.refuse("message %d has a result behind other content", i)
			}
			others = others || b.Type != "tool_result"
			c.block(m.Role, b)
		}
		if m.Role == "user" {
			c.answered()
		}
	}
	c.answered()
}

func (c *checker) block(role string, b anthropicBlock) {
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			c.refuse("a text is empty")
		}
	case "tool_use":
		c.call(b.ID, b.Name, b.Input, 256)
	case "tool_result":
		if role != "user" {
			c.refuse("a result is no answer")
		}
		c.result(b.ToolUseID)
		var in []anthropicBlock
		if json.Unmarshal(b.Content, &in) == nil {
			for _, one := range in {
				if one.Type == "image" {
					c.image(one.Source.MediaType, one.Source.Data, maxEncodedImage)
				}
			}
		}
	case "image":
		c.image(b.Source.MediaType, b.Source.Data, maxEncodedImage)
	case "thinking":
		if b.Signature != Signature {
			c.refuse("thinking has a signature of somebody else")
		}
	}
}

func (c *checker) chat(body []byte) {
	var r struct {
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if json.Unmarshal(body, &r) != nil {
		c.refuse("no JSON")
	}
	for _, m := range r.Messages {
		if m.Role == "tool" {
			c.result(m.ToolCallID)
			continue
		}
		c.answered()
		c.contentParts(m.Content)
		for _, call := range m.ToolCalls {
			c.call(call.ID, call.Function.Name, json.RawMessage(call.Function.Arguments), 64)
		}
	}
	c.answered()
}

// contentParts checks the images among the parts of a message.
func (c *checker) contentParts(content json.RawMessage) {
	var parts []struct {
		Type     string
		ImageURL json.RawMessage `json:"image_url"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return
	}
	for _, p := range parts {
		var in struct{ URL string }
		if json.Unmarshal(p.ImageURL, &in.URL) == nil || json.Unmarshal(p.ImageURL, &in) == nil {
			c.imageURL(in.URL)
		}
	}
}

func (c *checker) responses(body []byte) {
	var r struct {
		Input []struct {
			Type, ID, Name, Arguments string
			CallID                    string `json:"call_id"`
			Content, Output, Input    json.RawMessage
			Encrypted                 string `json:"encrypted_content"`
		}
	}
	if json.Unmarshal(body, &r) != nil {
		return // a text alone
	}
	for _, item := range r.Input {
		switch item.Type {
		case "function_call":
			c.call(item.CallID, item.Name, json.RawMessage(item.Arguments), 64)
		case "custom_tool_call":
			c.call(item.CallID, item.Name, json.RawMessage("{}"), 64)
		case "function_call_output", "custom_tool_call_output":
			c.result(item.CallID)
			c.contentParts(item.Output)
		case "reasoning":
			if item.Encrypted != "" && item.Encrypted != Sealed {
				c.refuse("reasoning was encrypted by somebody else")
			}
		default:
			c.contentParts(item.Content)
		}
	}
	c.answered()
}
