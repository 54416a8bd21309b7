package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Definition is a tool that was made while a session ran, in the form in
// which the session keeps it.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of type object; empty: takes no arguments
	Command     string          `json:"command"`          // run by bash: the input is JSON on stdin and in TOOL_INPUT
}

// builtin are the names that no definition may take, also on machines
// without python: sessions move between machines.
var builtin = []string{"bash", "python", "read", "write", "edit", "ls", "glob", "grep", "fetch"}

const (
	maxDefinition = 64 << 10
	// maxInputVariable bounds TOOL_INPUT: systems limit a variable to some
	// 128 KiB and refuse to start a program with more.
	maxInputVariable = 100_000
)

// Define adds a tool, or replaces the one of that name. The command runs in a
// bash of its own, in the directory of the session's shell. An invalid
// definition is ErrInvalid.
func (b *Box) Define(d Definition) error {
	schema, err := d.check(b.o.Reserved)
	if err != nil {
		return err
	}
	d.Schema = schema
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.defined, func(o Definition) bool { return o.Name == d.Name }); i >= 0 {
		b.defined[i] = d
		return nil
	}
	b.defined = append(b.defined, d)
	return nil
}

// Undefine removes a defined tool, and reports whether there was one.
func (b *Box) Undefine(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.defined)
	b.defined = slices.DeleteFunc(b.defined, func(d Definition) bool { return d.Name == name })
	return len(b.defined) < n
}

// Defined returns the defined tools in the order of their definition, for
// the checkpoint; Define restores each of them.
func (b *Box) Defined() []Definition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.defined)
}

// check returns the schema in the form in which it is kept.
func (d Definition) check(reserved []string) (json.RawMessage, error) {
	switch {
	case !isToolName(d.Name):
		return nil, tidemark.Invalidf("tool %.80q: a name has letters, digits, _ and -, begins with a letter, and is at most 64 long", d.Name)
	case slices.Contains(builtin, d.Name) || slices.Contains(reserved, d.Name):
		return nil, tidemark.Invalidf("tool %q: there is a built-in tool of this name", d.Name)
	case strings.TrimSpace(d.Command) == "" || strings.Contains(d.Command, "\x00"):
		return nil, tidemark.Invalidf("tool %q: it has no command, or one with a NUL in it", d.Name)
	case len(d.Description)+len(d.Schema)+len(d.Command) > maxDefinition:
		return nil, tidemark.Invalidf("tool %q: its definition is longer than %d bytes", d.Name, maxDefinition)
	case len(bytes.TrimSpace(d.Schema)) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	var schema struct {
		Type     string   `json:"type"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(d.Schema, &schema); err != nil || schema.Type != "object" {
		return nil, tidemark.Invalidf("tool %q: its schema is not a JSON Schema of type object", d.Name)
	}
	var kept bytes.Buffer
	if err := json.Compact(&kept, d.Schema); err != nil {
		return nil, tidemark.Invalidf("tool %q: its schema: %w", d.Name, err)
	}
	return kept.Bytes(), nil
}

func isToolName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !isLetter(c) && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func (b *Box) definedTool(d Definition) Tool {
	return Tool{
		Name:        d.Name,
		Description: d.Description,
		Schema:      d.offered(),
		Effect:      Runs,
		Command:     d.Command,
		Widens: func(input json.RawMessage) sandbox.Widening {
			if d.ownsSandbox() {
				return sandbox.Widening{}
			}
			return b.widening(requestIn(input))
		},
		EachTime: b.unfenced,
		// The scope is the command, so that an approval does not outlive a new
		// definition.
		Scope: func(json.RawMessage) string { return ExactScope(d.Command) },
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			fields, err := readObject(input)
			if err != nil {
				return failed(err.Error()), nil
			}
			var schema struct {
				Required []string `json:"required"`
			}
			if err := json.Unmarshal(d.Schema, &schema); err != nil {
				return failed("its schema is damaged: " + err.Error()), nil
			}
			for _, name := range schema.Required {
				if _, ok := fields[name]; !ok {
					return failed(fmt.Sprintf("the argument %q is missing", name)), nil
				}
			}
			var asked request
			if raw, ok := fields["sandbox"]; ok && !d.ownsSandbox() {
				if err := readRequest(raw, &asked); err != nil {
					return failed("the argument \"sandbox\": " + err.Error()), nil
				}
				delete(fields, "sandbox")
				if input, err = json.Marshal(fields); err != nil {
					return failed(err.Error()), nil
				}
			}
			more, err := b.widened(ctx, asked)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.runDefined(ctx, d, input, more)
		},
	}
}

// properties returns the properties of the schema, by name.
func (d Definition) properties() (all map[string]json.RawMessage, schema map[string]json.RawMessage) {
	if json.Unmarshal(d.Schema, &schema) != nil || json.Unmarshal(schema["properties"], &all) != nil {
		return nil, schema
	}
	return all, schema
}

// ownsSandbox reports whether the tool itself takes an argument of this name.
func (d Definition) ownsSandbox() bool {
	all, _ := d.properties()
	_, own := all["sandbox"]
	return own
}

// offered is the schema that a model sees: a call may ask for more than the
// sandbox allows, unless the tool uses that name itself.
func (d Definition) offered() json.RawMessage {
	all, schema := d.properties()
	if _, own := all["sandbox"]; own || schema == nil {
		return d.Schema
	}
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	all["sandbox"] = json.RawMessage(requestSchema)
	properties, err := json.Marshal(all)
	if err != nil {
		return d.Schema
	}
	schema["properties"] = properties
	offered, err := json.Marshal(schema)
	if err != nil {
		return d.Schema
	}
	return offered
}

// begin registers a process that Close and Reset have to end. It returns
// false when the box is closed.
func (b *Box) begin(w *warm) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running = append(b.running, w)
	}
	return !b.closed
}

func (b *Box) finish(w *warm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = slices.DeleteFunc(b.running, func(o *warm) bool { return o == w })
}

// endDefined ends the defined tools that are running.
func (b *Box) endDefined() {
	b.mu.Lock()
	running := slices.Clone(b.running)
	b.mu.Unlock()
	for _, w := range running {
		w.kill()
	}
}

func (b *Box) runDefined(ctx context.Context, d Definition, input json.RawMessage, more sandbox.Widening) (Result, error) {
	if ctx.Err() != nil {
		return failed("stopped before it began"), ctx.Err()
	}
	if b.o.Shell == "" {
		return failed("there is no bash here, and defined tools need one"), nil
	}
	if len(bytes.TrimSpace(input)) == 0 || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	state := b.State()
	env := state.environ(b.o.Environ)
	if len(input) <= maxInputVariable {
		env = append(env, "TOOL_INPUT="+string(input))
	}
	return b.runAlone(ctx, alone{name: d.Name, command: d.Command, input: string(input), dir: absolute(b.o.Root, state.Dir), environ: env, timeout: b.o.Timeout, more: more})
}

// alone is a command that runs in a bash of its own.
type alone struct {
	name, command, input, dir string
	environ                   []string
	timeout                   time.Duration
	more                      sandbox.Widening // what it may have beyond the sandbox
	note                      string           // note to add to the result
}

// runAlone runs a command in a bash that shares nothing with the session's.
func (b *Box) runAlone(ctx context.Context, a alone) (Result, error) {
	var notes []string
	dir, moved := b.o.folder(a.dir)
	if moved {
		notes = append(notes, "the folder of the shell is gone, or not in the sandbox; this ran in the root of the workspace")
	}
	if a.note != "" {
		notes = append(notes, a.note)
	}
	w, err := startWarm(b.o, program{path: b.o.Shell, args: []string{"--noprofile", "--norc", "-c", "exec 2>&1\n" + a.command}, dir: dir, environ: a.environ, more: a.more})
	if err != nil {
		return failed(a.name + " cannot be started: " + err.Error()), nil
	}
	w.once = true
	if !b.begin(w) {
		w.kill()
		return failed(errClosed.Error()), errClosed
	}
	defer b.finish(w)
	o, err := w.run(ctx, func(string) string { return a.input }, a.timeout, b.live(a.name))
	if o.notStarted != "" {
		return failed(a.name + " cannot be started: " + o.notStarted), err
	}
	res := Result{Text: o.text, Truncated: o.truncated, IsError: err != nil || o.timedOut || !o.state.Success()}
	switch {
	case err != nil:
		notes = append(notes, "stopped")
	case o.timedOut:
		notes = append(notes, fmt.Sprintf("stopped after %s", a.timeout))
	case !o.state.Success() && o.state.Exited():
		notes = append(notes, fmt.Sprintf("exit code %d", o.state.ExitCode()))
	case !o.state.Success():
		notes = append(notes, o.state.String())
	}
	return res.ended(w, notes, a.command), err
}
