// Package model is the contract between Tidemark and language models: a
// conversation goes in, the next entry comes out in pieces. Each provider has a
// package of its own below this one; this one has what they share, and knows
// none of them.
//
// A provider keeps no conversation, writes no file and reads no environment:
// keys and addresses are passed to it.
//
//	for e, err := range client.Stream(ctx, model.Request{…}) { … }
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Request is a conversation that a model is to continue.
type Request struct {
	Model  string
	System string
	Tools  []Tool
	// Entries are messages, valid as input: they begin with the user, each tool
	// call is answered by the next message, and entries of other kinds have been
	// left out or turned into messages.
	Entries   []tidemark.Entry
	MaxTokens int // of the answer, 0: the provider's default
	Thinking  int // tokens that may be spent on thinking, 0: none
}

// Effort returns the word of providers for a number of tokens of thinking. It is
// empty when none is wanted: a model that does not think refuses the field.
func Effort(tokens int) string {
	switch {
	case tokens <= 0:
		return ""
	case tokens <= 4096:
		return "low"
	case tokens <= 16384:
		return "medium"
	}
	return "high"
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // a JSON Schema of type object
}

// Event is one piece of an answer: exactly one field is set.
type Event struct {
	Text     string // more of the text
	Thinking string // more of the thinking
	Call     string // the name of a tool that the model begins to call
	Wait     *Wait  // the provider is busy, and the request is retried
	Done     *Answer
}

// Wait is a failed attempt that will be repeated. What was streamed before it is
// void; the answer starts over.
type Wait struct {
	For     time.Duration
	Attempt int // the number of the attempt that failed, from 1
	Why     error
}

// Answer is the whole of an answer. It is the last Event; a stream that ends
// without one ends with an error.
type Answer struct {
	// Entry is the message of the assistant: text, thinking and tool_use blocks,
	// Model and Usage. What a provider signed is in Block.Raw byte for byte,
	// with Block.Provider, and is sent back unchanged. The Input of a tool_use
	// that is not a JSON object is {}, and Broken says so.
	Entry tidemark.Entry
	Stop  string // one of the Stop constants
	// Broken holds, by the ID of the call, arguments that were not JSON.
	Broken map[string]string
}

// Why an answer ended.
const (
	StopEnd       = "end_turn"
	StopSequence  = "stop_sequence"
	StopTools     = "tool_use"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
	StopPause     = "pause_turn" // the provider wants to be asked to continue
	StopUnknown   = "unknown"    // the provider reports something else
)

// StopText says in one line why an answer is incomplete, and "" when it is
// complete.
func StopText(stop string) string {
	switch stop {
	case StopMaxTokens:
		return "The answer was cut off at the limit of its length (max_tokens); say \"go on\" for the rest."
	case StopRefusal:
		return "The model, or a filter of its provider, refused to go on (refusal)."
	case StopPause:
		return "The provider paused the answer (pause_turn); say \"go on\" for the rest."
	case StopUnknown:
		return "The provider ended the answer for a reason that it did not explain."
	}
	return ""
}

// Retry says how often and for how long a request is retried after 429, 5xx, or
// a lost connection. Zero fields mean the default.
type Retry struct {
	Attempts int           // at most, the first included; default 5
	First    time.Duration // before the second attempt; doubled each time; default 1s
	Most     time.Duration // between two attempts, even when the server asks for more; default 60s
	Silence  time.Duration // without a byte, after which a stream counts as lost; default 120s
}

// Or fills in the defaults.
func (r Retry) Or() Retry {
	if r.Attempts == 0 {
		r.Attempts = 5
	}
	if r.First == 0 {
		r.First = time.Second
	}
	if r.Most == 0 {
		r.Most = time.Minute
	}
	if r.Silence == 0 {
		r.Silence = 2 * time.Minute
	}
	return r
}

// Error is a provider's error response.
type Error struct {
	Provider string
	Status   int    // of HTTP, 0: no response
	Message  string // the provider's own words, without control characters
	Cause    error
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%s: %s", e.Provider, e.Message)
	}
	return fmt.Sprintf("%s answered %d: %s", e.Provider, e.Status, e.Message)
}

// Unwrap returns what caused it.
func (e *Error) Unwrap() error { return e.Cause }

// ErrTooLong says that the conversation is longer than the model accepts.
var ErrTooLong = errors.New("the conversation is longer than the model takes")

// ErrEndless says that an answer exceeded MaxAnswerBytes.
var ErrEndless = errors.New("the answer does not end")

// MaxAnswerBytes bounds an answer.
const MaxAnswerBytes = 16 << 20
