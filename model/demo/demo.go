// Package demo is a scripted model without a network, so that the first
// conversation on a fresh machine works, and so that tests know the answers
// beforehand. Its answers depend on the conversation alone. In its first answer
// it says that it is a demo.
//
// What it understands, in upper or lower case:
//
//	list files [in DIR]          calls a tool that lists
//	read FILE                    calls a tool that reads
//	write FILE: TEXT             calls a tool that writes; TEXT may have several lines
//	run COMMAND                  calls a tool that runs commands
//	search TEXT                  calls a tool that searches in files
//	fetch URL                    calls a tool that fetches
//	remember TEXT                calls a tool that remembers
//	call TOOL {JSON}             calls any tool with these arguments
//	think about TEXT             thinks before it answers
//	what have I said so far?     lists the messages of the user
//	summarise, summarize         sums up the conversation
//
// Tools are found among those that are offered, by name, and arguments by the
// properties of their schemas. A message in which every line is such a call is
// carried out line by line, one call per round. After the last result it reports
// the outcome. Anything else is repeated, with the number of messages.
//
//	for e, err := range demo.New(demo.Options{}).Stream(ctx, request) { … }
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// Provider is the name of this provider.
const Provider = "demo"

// Options say how it answers.
type Options struct {
	Delay time.Duration // between two words; default 10ms, negative: none
}

// Client answers. It may be used by several goroutines.
type Client struct{ delay time.Duration }

// New returns a demo model.
func New(o Options) *Client {
	if o.Delay == 0 {
		o.Delay = 10 * time.Millisecond
	}
	return &Client{max(0, o.Delay)}
}

// Parts returns the JSON of the tools, of the system prompt and of each entry.
// Equal requests have equal parts, and when the entries of one begin with
// those of another, so do its parts.
func (c *Client) Parts(r model.Request) ([][]byte, error) {
	tools, err := model.JSON(r.Tools)
	if err != nil {
		return nil, tidemark.Invalidf("tools: %w", err)
	}
	system, err := model.JSON(r.System)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{tools, system}
	for i, e := range r.Entries {
		part, err := model.JSON(struct {
			Role   tidemark.Role    `json:"role"`
			Blocks []tidemark.Block `json:"blocks"`
		}{e.Role, e.Blocks})
		if err != nil {
			return nil, tidemark.Invalidf("message %d: %w", i+1, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Stream answers word by word. When ctx is done it ends with ctx's error; a
// request that cannot be encoded is tidemark.ErrInvalid.
func (c *Client) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		parts, err := c.Parts(r)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		s := answerTo(r)
		left := false
		emit := func(e model.Event) bool {
			if err := model.Sleep(ctx, c.delay); err != nil {
				yield(model.Event{}, err)
				left = true
			} else if !yield(e, nil) {
				left = true
			}
			return !left
		}
		for _, w := range wordsOf(s.thinking) {
			if !emit(model.Event{Thinking: w}) {
				return
			}
		}
		said := wordsOf(s.text)
		stop := model.StopEnd
		if r.MaxTokens > 0 && len(said) > r.MaxTokens {
			said, stop, s.call = said[:r.MaxTokens], model.StopMaxTokens, nil
			s.text = strings.Join(said, "")
		}
		for _, w := range said {
			if !emit(model.Event{Text: w}) {
				return
			}
		}
		if s.call != nil {
			stop = model.StopTools
			if !emit(model.Event{Call: s.call.Name}) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(model.Event{}, ctx.Err())
			return
		}
		yield(model.Event{Done: s.answer(r, parts, stop)}, nil)
	}
}

// speech is what it is going to say.
type speech struct {
	thinking, text string
	call           *tidemark.Block
}

// answer makes the message. The id of a call is derived from the conversation,
// so that it is reproducible and unique.
func (s speech) answer(r model.Request, parts [][]byte, stop string) *model.Answer {
	sum := sha256.New()
	size := 0
	for _, p := range parts {
		size += len(p)
		fmt.Fprintf(sum, "%d:", len(p))
		sum.Write(p)
	}
	e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: r.Model}
	if e.Model == "" {
		e.Model = Provider
	}
	if s.thinking != "" {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: s.thinking})
	}
	if s.text != "" {
		e.Blocks = append(e.Blocks, tidemark.Text(s.text))
	}
	spoken := len(s.thinking) + len(s.text)
	if s.call != nil {
		call := *s.call
		call.ID = "call_demo_" + hex.EncodeToString(sum.Sum(nil)[:6])
		e.Blocks = append(e.Blocks, call)
		spoken += len(call.Input)
	}
	// Four bytes per token is as good a guess as any for a model without tokens.
	e.Usage = &tidemark.Usage{InputTokens: int64(size+3) / 4, OutputTokens: int64(spoken+3) / 4}
	return &model.Answer{Entry: e, Stop: stop}
}

// wordsOf cuts text after each space, so that the words joined are the same
// text.
func wordsOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(strings.ToValidUTF8(text, "\uFFFD"), " ")
}
