package anthropic

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// reader makes an answer from the events of a stream.
type reader struct {
	draft *model.Draft
	open  map[int64]*block
	order []*block
	model string
	stop  string
	usage tidemark.Usage
	ended bool
}

// block is a block that is still growing.
type block struct {
	*model.Piece
	signature strings.Builder
	redacted  bool
}

// read reads an answer to its end. Without a message_stop it was cut off.
func read(body io.Reader, alive func(), emit func(model.Event) error) (*model.Answer, error) {
	in := model.NewEvents(Provider, body, alive)
	whole, err := in.Begin()
	switch {
	case err != nil:
		return nil, err
	case whole:
		return nil, in.Page()
	}
	r := &reader{draft: model.NewDraft(Provider, emit), open: make(map[int64]*block)}
	for !r.ended {
		sent, err := in.Next()
		if err != nil {
			return nil, err
		}
		if err := r.take(sent); err != nil {
			return nil, err
		}
	}
	return r.answer(), nil
}

// take handles one event.
func (r *reader) take(sent model.Sent) error {
	if sent.Name == "ping" || len(sent.Data) == 0 {
		return nil
	}
	var e struct {
		Type  string
		Index int64
		Delta delta
	}
	err := json.Unmarshal(sent.Data, &e)
	switch {
	case err == nil:
	case mistyped(err) && e.Type != "" && e.Type != "content_block_delta":
		// The fields that do not fit belong to another type of event.
	case sent.Cut:
		return model.Lost(Provider, io.ErrUnexpectedEOF)
	default:
		return model.Nonsense(Provider, "sent an event that makes no sense", sent.Data)
	}
	switch e.Type {
	case "error":
		return failed(sent.Data)
	case "message_stop":
		r.ended = true
		return nil
	case "content_block_delta":
		return r.grow(e.Index, e.Delta)
	case "message_start", "content_block_start", "content_block_stop", "message_delta":
		return r.frame(e.Type, sent.Data)
	}
	return nil // ping, and events that a later version of the API may add
}

// mistyped reports whether the only errors are fields of an unexpected type; the
// others were decoded.
func mistyped(err error) bool {
	var wrong *json.UnmarshalTypeError
	return errors.As(err, &wrong)
}

// delta is more of a block. It is separate from frame because an answer has
// thousands of them.
type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
}

// frame is an event that begins or ends something.
type frame struct {
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Index int64 `json:"index"`
	Delta struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage           `json:"usage"`
	Block json.RawMessage `json:"content_block"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (r *reader) frame(kind string, data []byte) error {
	var e frame
	if err := json.Unmarshal(data, &e); err != nil && !mistyped(err) {
		return model.Nonsense(Provider, "sent an event that makes no sense", data)
	}
	switch kind {
	case "message_start":
		r.model = e.Message.Model
		r.count(e.Message.Usage)
	case "content_block_start":
		return r.start(e.Index, e.Block)
	case "content_block_stop":
		delete(r.open, e.Index)
	case "message_delta":
		if e.Delta.StopReason != "" {
			r.stop = e.Delta.StopReason
		}
		r.count(e.Usage)
	}
	return nil
}

// count reads usage. Later figures are totals, and 0 means not reported.
func (r *reader) count(u usage) {
	for _, f := range []struct {
		to *int64
		n  int64
	}{{&r.usage.InputTokens, u.Input}, {&r.usage.OutputTokens, u.Output}, {&r.usage.CacheReadTokens, u.CacheRead}, {&r.usage.CacheWriteTokens, u.CacheWrite}} {
		if f.n > 0 {
			*f.to = f.n
		}
	}
}

func (r *reader) start(index int64, raw json.RawMessage) error {
	var c struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(raw, &c) // it is JSON, if present; a block without a type is left out
	b := &block{}
	var begin tidemark.Block
	said := ""
	switch c.Type {
	case "text":
		begin, said = tidemark.Block{Type: tidemark.BlockText}, c.Text
	case "thinking":
		begin, said = tidemark.Block{Type: tidemark.BlockThinking}, c.Thinking
		b.signature.WriteString(c.Signature)
	case "redacted_thinking":
		begin, b.redacted = tidemark.Block{Type: tidemark.BlockThinking, Provider: Provider, Raw: string(raw)}, true
	case "tool_use":
		begin = tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Name}
		if whole := string(c.Input); whole != "{}" && whole != "null" {
			said = whole // complete, if a server does not stream arguments
		}
	default:
		return nil // results of tools that run at the provider: none were offered
	}
	p, err := r.draft.Open(begin)
	if err != nil {
		return err
	}
	b.Piece = p
	r.open[index] = b
	r.order = append(r.order, b)
	return r.draft.Add(p, said)
}

func (r *reader) grow(index int64, d delta) error {
	b := r.open[index]
	if b == nil || b.redacted {
		return nil
	}
	kind := b.Block.Type
	switch {
	case d.Type == "text_delta" && kind == tidemark.BlockText:
		return r.draft.Add(b.Piece, d.Text)
	case d.Type == "thinking_delta" && kind == tidemark.BlockThinking:
		return r.draft.Add(b.Piece, d.Thinking)
	case d.Type == "input_json_delta" && kind == tidemark.BlockToolUse:
		return r.draft.Add(b.Piece, d.PartialJSON)
	case d.Type == "signature_delta" && kind == tidemark.BlockThinking:
		b.signature.WriteString(d.Signature)
		return r.draft.Grow(len(d.Signature))
	}
	return nil
}

func (r *reader) answer() *model.Answer {
	for _, b := range r.order {
		if b.signature.Len() == 0 {
			continue
		}
		b.Block.Provider = Provider
		b.Block.Raw = `{"type":"thinking","thinking":` + quoted(b.Text()) + `,"signature":` + quoted(b.signature.String()) + `}`
	}
	var usage *tidemark.Usage
	if r.usage != (tidemark.Usage{}) {
		usage = &r.usage
	}
	return r.draft.Answer(r.model, stopOf(r.stop), usage)
}

// stopOf maps a stop reason to one of the Stop constants.
func stopOf(reason string) string {
	switch reason {
	case "tool_use":
		return model.StopTools
	case "max_tokens", "model_context_window_exceeded":
		return model.StopMaxTokens
	case "stop_sequence":
		return model.StopSequence
	case "refusal":
		return model.StopRefusal
	case "pause_turn":
		return model.StopPause
	case "end_turn", "": // some servers report nothing
		return model.StopEnd
	}
	return model.StopUnknown
}

// failed returns the error of an error event. It comes under status 200, so its
// type tells what the status would have been.
func failed(data []byte) error {
	var event struct {
		Error struct{ Type string }
	}
	_ = json.Unmarshal(data, &event) // an error without a type counts as the server's
	status := http.StatusInternalServerError
	switch event.Error.Type {
	case "invalid_request_error":
		status = http.StatusBadRequest
	case "authentication_error":
		status = http.StatusUnauthorized
	case "billing_error":
		status = http.StatusPaymentRequired
	case "permission_error":
		status = http.StatusForbidden
	case "not_found_error":
		status = http.StatusNotFound
	case "request_too_large":
		status = http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		status = http.StatusTooManyRequests
	case "timeout_error":
		status = http.StatusGatewayTimeout
	case "overloaded_error":
		status = 529
	}
	return model.Refused(Provider, status, nil, data)
}
