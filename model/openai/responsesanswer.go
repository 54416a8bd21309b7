package openai

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// responsesEvent is one event of a stream of the Responses API.
type responsesEvent struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Delta    words           `json:"delta"`
	Item     json.RawMessage `json:"item"`
	Response *response       `json:"response"`
	Error    json.RawMessage `json:"error"`
	Message  string          `json:"message"` // of an event of type error
	Code     string          `json:"code"`
}

// response is an answer as a whole.
type response struct {
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// output is an item of an answer.
type output struct {
	Type      string    `json:"type"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// responsesReader makes an answer from the events of a stream.
type responsesReader struct {
	name    string
	draft   *model.Draft
	open    map[int]*model.Piece
	end     *response
	refused bool
}

// readResponses reads an answer to its end. Without an event that completes it,
// it was cut off.
func readResponses(name string, body io.Reader, alive func(), emit func(model.Event) error) (*model.Answer, error) {
	in := model.NewEvents(name, body, alive)
	r := &responsesReader{name: name, draft: model.NewDraft(name, emit), open: make(map[int]*model.Piece)}
	whole, err := in.Begin()
	switch {
	case err != nil:
		return nil, err
	case whole:
		return r.whole(in)
	}
	for r.end == nil {
		sent, err := in.Next()
		if err != nil {
			return nil, err
		}
		data := bytes.TrimSpace(sent.Data)
		if len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		if sent.Cut && !json.Valid(data) {
			return nil, model.Lost(name, io.ErrUnexpectedEOF)
		}
		if err := r.take(data); err != nil {
			return nil, err
		}
	}
	return r.answer(), nil
}

// whole reads the answer of a server that does not stream.
func (r *responsesReader) whole(in *model.Events) (*model.Answer, error) {
	all, err := in.Whole()
	if err != nil {
		return nil, err
	}
	var one response
	if json.Unmarshal(all, &one) != nil {
		return nil, model.Nonsense(r.name, "sent an answer that makes no sense", all)
	}
	if isError(one.Error) {
		return nil, failed(r.name, one.Error)
	}
	if one.Output == nil {
		return nil, model.Nonsense(r.name, "answered without an output", all)
	}
	for i, raw := range one.Output {
		if err := r.done(i, raw); err != nil {
			return nil, err
		}
	}
	r.end = &one
	return r.answer(), nil
}

// take handles one event.
func (r *responsesReader) take(data []byte) error {
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil {
		return model.Nonsense(r.name, "sent an event that makes no sense", data)
	}
	switch e.Type {
	case "response.output_item.added":
		_, _, err := r.piece(e.Index, e.Item)
		return err
	case "response.output_item.done":
		return r.done(e.Index, e.Item)
	case "response.refusal.delta":
		r.refused = true
		return r.add(e, tidemark.BlockText)
	case "response.output_text.delta":
		return r.add(e, tidemark.BlockText)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.add(e, tidemark.BlockThinking)
	case "response.reasoning_summary_part.added":
		if p := r.open[e.Index]; p != nil && p.Block.Type == tidemark.BlockThinking && p.Text() != "" {
			return r.draft.Add(p, "\n\n")
		}
	case "response.function_call_arguments.delta":
		return r.add(e, tidemark.BlockToolUse)
	case "response.completed", "response.incomplete":
		if r.end = e.Response; r.end == nil {
			return model.Nonsense(r.name, "ended without an answer", data)
		}
	case "response.failed":
		if e.Response != nil && isError(e.Response.Error) {
			return failed(r.name, e.Response.Error)
		}
		return failed(r.name, []byte(`"it failed and did not say why"`))
	case "error", "":
		if isError(e.Error) {
			return failed(r.name, e.Error)
		}
		if e.Type == "error" {
			said, err := model.JSON(map[string]string{"message": e.Message, "code": e.Code})
			if err != nil {
				return err
			}
			return failed(r.name, said)
		}
	}
	return nil
}

// add adds to the block of an item, if it is of this kind. Text and thinking of
// an item that was not announced begin one.
func (r *responsesReader) add(e responsesEvent, kind string) error {
	p := r.open[e.Index]
	if p == nil && kind != tidemark.BlockToolUse {
		var err error
		if p, err = r.begin(e.Index, tidemark.Block{Type: kind}); err != nil {
			return err
		}
	}
	if p == nil || p.Block.Type != kind {
		return nil
	}
	return r.draft.Add(p, string(e.Delta))
}

func (r *responsesReader) begin(index int, b tidemark.Block) (*model.Piece, error) {
	p, err := r.draft.Open(b)
	if err == nil {
		r.open[index] = p
	}
	return p, err
}

// piece returns the block of an item, which begins with it; nil for items that
// are no part of a conversation.
func (r *responsesReader) piece(index int, raw json.RawMessage) (*model.Piece, output, error) {
	var o output
	_ = json.Unmarshal(raw, &o) // an item of no type is left out
	p := r.open[index]
	if p != nil {
		return p, o, nil
	}
	var err error
	switch o.Type {
	case "message":
		p, err = r.begin(index, tidemark.Block{Type: tidemark.BlockText})
	case "reasoning":
		p, err = r.begin(index, tidemark.Block{Type: tidemark.BlockThinking})
	case "function_call":
		p, err = r.begin(index, tidemark.Block{Type: tidemark.BlockToolUse, ID: o.CallID, Name: o.Name})
	}
	return p, o, err
}

// done handles an item that is complete. What was not streamed of it is taken
// from it.
func (r *responsesReader) done(index int, raw json.RawMessage) error {
	p, o, err := r.piece(index, raw)
	if p == nil || err != nil {
		return err
	}
	var all string
	switch p.Block.Type {
	case tidemark.BlockText:
		for _, c := range o.Content {
			all += c.Text + c.Refusal
			r.refused = r.refused || c.Refusal != ""
		}
	case tidemark.BlockThinking:
		for i, s := range o.Summary {
			if i > 0 {
				all += "\n\n"
			}
			all += s.Text
		}
		if isThought(raw) {
			p.Block.Provider, p.Block.Raw = ResponsesProvider, string(raw)
			if err := r.draft.Grow(len(raw)); err != nil {
				return err
			}
		}
	case tidemark.BlockToolUse:
		all = string(o.Arguments)
	}
	if p.Text() != "" {
		return nil
	}
	return r.draft.Add(p, all)
}

func (r *responsesReader) answer() *model.Answer {
	stop := model.StopEnd
	switch {
	case r.refused || r.end.Incomplete.Reason == "content_filter":
		stop = model.StopRefusal
	case r.end.Incomplete.Reason == "max_output_tokens":
		stop = model.StopMaxTokens
	case r.end.Status == "incomplete":
		stop = model.StopUnknown
	}
	var usage *tidemark.Usage
	if u := r.end.Usage; u != nil {
		usage = &tidemark.Usage{InputTokens: max(0, u.Input-u.Details.Cached), OutputTokens: u.Output, CacheReadTokens: u.Details.Cached}
	}
	return r.draft.Answer(r.end.Model, stop, usage)
}
