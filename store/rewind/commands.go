package rewind

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// Command is a call of a tool, or a command that the person typed, whose effects
// are not known, and stay.
type Command struct {
	Tool   string          `json:"tool"`
	Worker string          `json:"worker,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
}

// commands collects the calls that began and were no changes of files.
type commands struct {
	since  time.Time // of the first entry
	inputs map[string]json.RawMessage
	found  []Command
}

func newCommands() *commands { return &commands{inputs: make(map[string]json.RawMessage)} }

// outward are the effects, as package tool names them, that a snapshot says
// nothing about.
var outward = map[string]bool{"runs": true, "network": true}

// see looks at an entry of the conversation.
func (c *commands) see(e tidemark.Entry) {
	if c.since.IsZero() {
		c.since = e.At
	}
	c.take("", e)
}

// typedIntro begins the message about a command that the person typed.
const typedIntro = "I ran a command in the project myself: "

// Typed is the message about a command that the person runs themselves. It is
// found again by its mark; the command is in the text alone, where secrets are
// looked for.
func Typed(command string) tidemark.Entry {
	e := tidemark.Say(tidemark.User, typedIntro+command)
	e.Extra = json.RawMessage(`{"chat":{"typed":true}}`)
	return e
}

// outputIntro begins the message about what such a command put out.
const outputIntro = "What it put out:\n"

// PutOut is the message about what a command put out that the person ran; data is
// that, with marks around it which say so. failed means that the command did.
func PutOut(data string, failed bool) tidemark.Entry {
	e := tidemark.Say(tidemark.User, outputIntro+data)
	e.Extra = json.RawMessage(`{"chat":{"put_out":true}}`)
	if failed {
		e.Extra = json.RawMessage(`{"chat":{"put_out":true,"failed":true}}`)
	}
	return e
}

// AsCall is a message about a command that the person ran, or about what it put out,
// as a call and its result, to be shown as those of the agent are; any other entry as
// it is.
func AsCall(e tidemark.Entry) tidemark.Entry {
	var extra struct {
		Chat struct {
			Typed  bool `json:"typed"`
			PutOut bool `json:"put_out"`
			Failed bool `json:"failed"`
		} `json:"chat"`
	}
	if e.Role != tidemark.User || len(e.Extra) == 0 || json.Unmarshal(e.Extra, &extra) != nil {
		return e
	}
	id := func(seq int64) string { return "typed-" + strconv.FormatInt(seq, 10) }
	if command, ok := strings.CutPrefix(e.Text(), typedIntro); ok && extra.Chat.Typed {
		if input, err := json.Marshal(map[string]string{"command": command}); err == nil {
			e.Blocks = []tidemark.Block{{Type: tidemark.BlockToolUse, ID: id(e.Seq), Name: "bash", Input: input}}
		}
	} else if text, ok := strings.CutPrefix(e.Text(), outputIntro); ok && extra.Chat.PutOut {
		e.Blocks = []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: id(e.Parent), Text: unmarked(text), IsError: extra.Chat.Failed}}
	}
	return e
}

// TypedWords is the command, if a message with these first words is about one that the
// person ran.
func TypedWords(words string) (command string, ok bool) { return strings.CutPrefix(words, typedIntro) }

// PutOutWords reports whether a message with these first words is about what such a
// command put out.
func PutOutWords(words string) bool { return strings.HasPrefix(words, strings.TrimSpace(outputIntro)) }

// unmarked is what stands between the marks of data, which are lines of their own. A
// text that was cut has no second one.
func unmarked(text string) string {
	mark, rest, ok := strings.Cut(text, "\n")
	if !ok || !strings.HasPrefix(mark, "<") {
		return text
	}
	return strings.TrimSuffix(rest, "\n</"+mark[1:])
}

func (c *commands) take(worker string, e tidemark.Entry) {
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolUse {
			c.inputs[b.ID] = b.Input
		}
	}
	var extra struct {
		Chat struct {
			ID     string `json:"id"`
			Tool   string `json:"tool"`
			Effect string `json:"effect"`
			Typed  bool   `json:"typed"`
		} `json:"chat"`
	}
	if len(e.Extra) == 0 || json.Unmarshal(e.Extra, &extra) != nil {
		return
	}
	command, said := strings.CutPrefix(e.Text(), typedIntro)
	switch {
	case e.Kind == "call" && outward[extra.Chat.Effect]:
		c.found = append(c.found, Command{extra.Chat.Tool, worker, c.inputs[extra.Chat.ID]})
	case e.Role == tidemark.User && extra.Chat.Typed && said:
		if input, err := json.Marshal(map[string]string{"command": command}); err == nil {
			c.found = append(c.found, Command{"bash", worker, input})
		}
	}
}

// all returns the commands, also those of workers since the first entry.
func (c *commands) all(ctx context.Context, v *store.View) ([]Command, error) {
	if c.since.IsZero() {
		return nil, nil
	}
	workers, err := v.WorkerInfos(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if w.UpdatedAt.Before(c.since) {
			continue
		}
		of, err := v.Worker(ctx, w.Name)
		if err != nil {
			return nil, err
		}
		for e, err := range of.Log(ctx) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return nil, err
			}
			if err == nil && !e.At.Before(c.since) {
				c.take(w.Name, e)
			}
		}
	}
	return c.found, nil
}
