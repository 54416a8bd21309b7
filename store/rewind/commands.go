package rewind

import (
	"context"
	"encoding/json"
	"errors"
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
