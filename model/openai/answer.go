package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// chunk is one event of a stream, or a whole answer, which has in Message what a
// stream has in Delta.
type chunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index   int             `json:"index"`
		Delta   *delta          `json:"delta"`
		Message *delta          `json:"message"`
		Finish  string          `json:"finish_reason"`
		Error   json.RawMessage `json:"error"` // OpenRouter
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

type delta struct {
	Content          words  `json:"content"`
	Refusal          string `json:"refusal"`
	ReasoningContent words  `json:"reasoning_content"` // DeepSeek, llama.cpp, older vLLM
	Reasoning        words  `json:"reasoning"`         // OpenRouter, Ollama, newer vLLM
	ToolCalls        []call `json:"tool_calls"`
}

type call struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Cost float64 `json:"cost"` // OpenRouter
}

// words is text, or a list of parts with text, as some servers send it.
type words string

// UnmarshalJSON accepts both shapes; anything else is empty.
func (w *words) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*w = words(text)
		return nil
	}
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			*w += words(p.Text)
		}
	}
	return nil
}

// arguments is a piece of JSON in a string, or an object if a server does not
// put it into one.
type arguments string

// UnmarshalJSON accepts both shapes.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*a = arguments(text)
		return nil
	}
	*a = arguments(raw)
	return nil
}

// reader makes an answer from the chunks of a stream.
type reader struct {
	name    string
	draft   *model.Draft
	last    *model.Piece // the text or thinking that is growing
	calls   map[int]*model.Piece
	model   string
	finish  string
	refused bool
	usage   *tidemark.Usage
	chunks  int
}

// readChat reads an answer to its end.
func readChat(name string, body io.Reader, alive func(), emit func(model.Event) error) (*model.Answer, error) {
	in := model.NewEvents(name, body, alive)
	r := &reader{name: name, draft: model.NewDraft(name, emit), calls: make(map[int]*model.Piece)}
	whole, err := in.Begin()
	switch {
	case err != nil:
		return nil, err
	case whole:
		return r.whole(in)
	}
	return r.stream(in)
}

// whole reads the answer of a server that does not stream.
func (r *reader) whole(in *model.Events) (*model.Answer, error) {
	all, err := in.Whole()
	if err != nil {
		return nil, err
	}
	if err := r.take(all); err != nil {
		return nil, err
	}
	if r.chunks == 0 {
		return nil, model.Nonsense(r.name, "answered without a choice", all)
	}
	return r.answer(), nil
}

// stream reads events until [DONE], or until the end when a finish reason came
// before it. An end without either means that the connection was cut.
func (r *reader) stream(in *model.Events) (*model.Answer, error) {
	for {
		sent, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) && r.finish != "":
			return r.answer(), nil
		case err != nil:
			return nil, err
		}
		data := bytes.TrimSpace(sent.Data)
		if len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			if r.chunks == 0 {
				return nil, model.Nonsense(r.name, "ended its answer before it began", nil)
			}
			return r.answer(), nil
		}
		if sent.Cut && !json.Valid(data) {
			if r.finish != "" {
				return r.answer(), nil
			}
			return nil, model.Lost(r.name, io.ErrUnexpectedEOF)
		}
		if err := r.take(data); err != nil {
			return nil, err
		}
	}
}

// take handles one chunk. Only the first choice counts: no other is requested.
func (r *reader) take(data []byte) error {
	if c, ok := usual(data); ok {
		if done, err := r.usual(c); done {
			return err
		}
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return model.Nonsense(r.name, "sent an event that makes no sense", data)
	}
	if isError(c.Error) {
		return failed(r.name, c.Error)
	}
	if c.Model != "" {
		r.model = c.Model
	}
	if u := c.Usage; u != nil {
		r.usage = &tidemark.Usage{InputTokens: max(0, u.Prompt-u.Details.Cached), OutputTokens: u.Completion,
			CacheReadTokens: u.Details.Cached, CostUSD: u.Cost}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if isError(choice.Error) {
			return failed(r.name, choice.Error)
		}
		r.chunks++
		for _, d := range []*delta{choice.Delta, choice.Message} {
			if d == nil {
				continue
			}
			if err := r.delta(d); err != nil {
				return err
			}
		}
		if choice.Finish != "" {
			r.finish = choice.Finish
		}
	}
	return nil
}

// usual handles a usual chunk; done is false when it is not one after all.
func (r *reader) usual(c usualChunk) (done bool, err error) {
	thought, ok1 := unquote(c.reasoning)
	text, ok2 := unquote(c.content)
	if !ok1 || !ok2 {
		return false, nil
	}
	if len(c.model) > 0 && string(c.model) != r.model {
		r.model = string(c.model)
	}
	r.chunks++
	if err := r.addText(tidemark.BlockThinking, thought); err != nil {
		return true, err
	}
	return true, r.addText(tidemark.BlockText, text)
}

func (r *reader) delta(d *delta) error {
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning // never both: they are the same
	}
	if err := r.addText(tidemark.BlockThinking, string(thought)); err != nil {
		return err
	}
	if err := r.addText(tidemark.BlockText, string(d.Content)+d.Refusal); err != nil {
		return err
	}
	for i, c := range d.ToolCalls {
		if err := r.call(c, i); err != nil {
			return err
		}
	}
	r.refused = r.refused || d.Refusal != ""
	return nil
}

// addText adds to the growing block of this kind, or begins one.
func (r *reader) addText(kind, text string) error {
	if text == "" {
		return nil
	}
	if r.last == nil || r.last.Block.Type != kind {
		p, err := r.draft.Open(tidemark.Block{Type: kind})
		if err != nil {
			return err
		}
		r.last = p
	}
	return r.draft.Add(r.last, text)
}

// call handles a fragment of a call. Fragments belong together by their index
// or, if a server gives none, or the same to all, by their id.
func (r *reader) call(c call, place int) error {
	index := place
	if c.Index != nil {
		index = *c.Index
	}
	p := r.calls[index]
	other := p != nil && c.ID != "" && p.Block.ID != "" && c.ID != p.Block.ID
	if c.Index == nil && p != nil && c.Function.Name != "" && c.ID == "" {
		other = true // complete calls, one per event
	}
	if p == nil || other {
		var err error
		if p, err = r.draft.Open(tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Function.Name}); err != nil {
			return err
		}
		r.calls[index] = p
		r.last = nil
	}
	if p.Block.ID == "" {
		p.Block.ID = c.ID
	}
	if p.Block.Name == "" {
		p.Block.Name = c.Function.Name
		if err := r.draft.Named(p); err != nil {
			return err
		}
	}
	return r.draft.Add(p, string(c.Function.Arguments))
}

func (r *reader) answer() *model.Answer {
	stop := model.StopUnknown
	switch strings.ToLower(r.finish) {
	case "stop", "end_turn", "eos", "eos_token", "": // some servers report nothing
		stop = model.StopEnd
	case "stop_sequence":
		stop = model.StopSequence
	case "tool_calls", "function_call", "tool_use":
		stop = model.StopTools
	case "length", "max_tokens", "model_length", "max_output_tokens", "incomplete":
		stop = model.StopMaxTokens
	case "content_filter", "refusal", "safety", "recitation":
		stop = model.StopRefusal
	}
	if r.refused {
		stop = model.StopRefusal
	}
	return r.draft.Answer(r.model, stop, r.usage)
}

// isError reports whether an error field holds anything.
func isError(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != `""` && string(raw) != "{}"
}

// failed returns the error of an error object inside a stream. Its code may be a
// status; otherwise its text decides, and it counts as the server's fault.
func failed(name string, raw json.RawMessage) error {
	var e struct {
		Code, Status, Type any
	}
	_ = json.Unmarshal(raw, &e) // an error may be just a string
	status := http.StatusInternalServerError
	for _, said := range []any{e.Code, e.Status, e.Type} {
		switch said := said.(type) {
		case float64:
			if said >= 400 && said < 600 {
				status = int(said)
			}
		case string:
			if n, err := strconv.Atoi(said); err == nil && n >= 400 && n < 600 {
				status = n
			} else if known := statusOf(said); known != 0 {
				status = known
			}
		}
	}
	body := append(append([]byte(`{"error":`), raw...), '}')
	return model.Refused(name, status, nil, body)
}

// statusOf returns the status for an error type, 0 when it is not known.
func statusOf(kind string) int {
	switch kind {
	case "invalid_request_error", "BadRequestError", "context_length_exceeded", "exceed_context_size_error":
		return http.StatusBadRequest
	case "authentication_error", "invalid_api_key", "AuthenticationError":
		return http.StatusUnauthorized
	case "insufficient_quota":
		return http.StatusPaymentRequired
	case "rate_limit_exceeded", "rate_limit_error", "RateLimitError":
		return http.StatusTooManyRequests
	case "overloaded_error":
		return 529
	}
	return 0
}
