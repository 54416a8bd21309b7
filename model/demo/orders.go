package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// order is something that the user wants done with a tool.
type order struct {
	what  string            // in a sentence: I will WHAT.
	tools []string          // names of tools that can do it, the best first
	args  map[string]string // values by what they mean: path, content, command …
	raw   json.RawMessage   // the arguments as the user gave them
}

// ordersIn returns the orders in a message: one for each line when every line is
// one, else the whole message if it is one.
func ordersIn(prompt string) []order {
	var all []order
	for line := range strings.Lines(prompt) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, ok := parse(strings.TrimSpace(line))
		if !ok {
			all = nil
			break
		}
		all = append(all, o)
	}
	if len(all) > 0 {
		return all
	}
	if o, ok := parse(prompt); ok {
		return []order{o}
	}
	return nil
}

// parse reads one order.
func parse(s string) (order, bool) {
	verb, rest, _ := strings.Cut(s, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(verb) {
	case "list":
		return list(rest)
	case "read":
		return order{what: "read " + shorten(rest, preview), tools: []string{"read", "read_file", "view", "cat"},
			args: map[string]string{"path": rest}}, rest != "" && !strings.Contains(rest, "\n")
	case "write":
		path, text, ok := strings.Cut(rest, ": ") // a path may have a colon: session:memory/notes.md
		if !ok || strings.Contains(path, "\n") {
			path, text, ok = strings.Cut(rest, ":")
		}
		path = strings.TrimSpace(path)
		return order{what: "write " + shorten(path, preview), tools: []string{"write", "write_file", "create", "create_file"},
			args: map[string]string{"path": path, "content": text}}, ok && path != "" && !strings.Contains(path, "\n")
	case "run":
		return order{what: "run " + shorten(rest, preview), tools: shells(), args: map[string]string{"command": rest}}, rest != ""
	case "search":
		return order{what: "search for " + shorten(rest, preview), tools: []string{"grep", "search", "search_files"},
			args: map[string]string{"pattern": rest}}, rest != "" && !strings.Contains(rest, "\n")
	case "fetch":
		return order{what: "fetch " + shorten(rest, preview), tools: []string{"fetch", "web_fetch", "http"},
			args: map[string]string{"url": rest}}, rest != "" && !strings.Contains(rest, " ")
	case "remember":
		return order{what: "remember that", tools: []string{"remember", "memory", "memory_write", "save_memory", "core_memory"},
			args: map[string]string{"content": rest}}, rest != ""
	case "call":
		name, args, _ := strings.Cut(rest, " ")
		o := order{what: "call " + shorten(name, preview), tools: []string{name}, raw: json.RawMessage("{}")}
		var tight bytes.Buffer
		if args = strings.TrimSpace(args); args != "" {
			if json.Compact(&tight, []byte(args)) != nil || tight.Bytes()[0] != '{' {
				return o, false
			}
			o.raw = tight.Bytes()
		}
		return o, name != ""
	}
	return order{}, false
}

func shells() []string {
	return []string{"bash", "shell", "run", "run_command", "exec", "exec_command", "terminal"}
}

// list reads "list files" and "list files in DIR". A tool that runs commands
// can list too.
func list(rest string) (order, bool) {
	const files = "files"
	if len(rest) < len(files) || !strings.EqualFold(rest[:len(files)], files) {
		return order{}, false
	}
	dir := strings.TrimSpace(rest[len(files):])
	if in, ok := strings.CutPrefix(dir, "in "); ok {
		dir = strings.TrimSpace(in)
	} else if dir != "" {
		return order{}, false
	}
	o := order{what: "list the files", tools: append([]string{"ls", "list", "list_files", "list_dir", "glob"}, shells()...),
		args: map[string]string{"pattern": "*", "command": "ls"}}
	if dir != "" {
		o.what += " in " + shorten(dir, preview)
		o.args["path"], o.args["command"] = dir, "ls -- '"+strings.ReplaceAll(dir, "'", `'\''`)+"'"
	}
	return o, !strings.Contains(dir, "\n")
}

// carryOut calls the best tool that is offered, or says that there is none.
func (o order) carryOut(tools []model.Tool) speech {
	t, ok := o.choose(tools)
	if !ok {
		return speech{text: fmt.Sprintf("I would %s, but was offered no tool for it.", o.what)}
	}
	input := o.raw
	if input == nil {
		input = o.fill(t.Schema)
	}
	return speech{text: "I will " + o.what + ".", call: &tidemark.Block{Type: tidemark.BlockToolUse, Name: t.Name, Input: input}}
}

// choose returns the tool with the best name, or else one whose name contains
// such a name, like update_memory; words that are part of too many others do not
// count for that.
func (o order) choose(tools []model.Tool) (model.Tool, bool) {
	const telling = 6
	same := func(name string) func(model.Tool) bool {
		return func(t model.Tool) bool { return strings.EqualFold(t.Name, name) }
	}
	within := func(name string) func(model.Tool) bool {
		return func(t model.Tool) bool {
			return o.raw == nil && len(name) >= telling && strings.Contains(strings.ToLower(t.Name), name)
		}
	}
	for _, fits := range []func(string) func(model.Tool) bool{same, within} {
		for _, name := range o.tools {
			if i := slices.IndexFunc(tools, fits(name)); i >= 0 {
				return tools[i], true
			}
		}
	}
	return model.Tool{}, false
}

// meanings are the property names for what an order carries.
func meanings() []struct {
	what  string
	names []string
} {
	return []struct {
		what  string
		names []string
	}{
		{"path", []string{"path", "file_path", "filePath", "file", "filename", "absolute_path", "dir", "directory"}},
		{"content", []string{"content", "contents", "text", "value", "fact", "note"}},
		{"command", []string{"command", "cmd", "script"}},
		{"pattern", []string{"pattern", "query", "glob", "regex"}},
		{"url", []string{"url", "uri"}},
	}
}

// property is what the script needs to know of a schema.
type property struct {
	Type any               `json:"type"`
	Enum []json.RawMessage `json:"enum"`
}

// fill makes arguments that fit a schema: the values of the order under the
// schema's names for them, and something small for other required properties.
func (o order) fill(schema json.RawMessage) json.RawMessage {
	var shape struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	_ = json.Unmarshal(schema, &shape) // without a schema the usual names are used
	args := make(map[string]any)
	for _, m := range meanings() {
		value, ok := o.args[m.what]
		if !ok {
			continue
		}
		if len(shape.Properties) == 0 {
			args[m.what] = value
			continue
		}
		for _, name := range m.names {
			if _, ok := shape.Properties[name]; ok {
				args[name] = value
				break
			}
		}
	}
	for _, name := range shape.Required {
		if _, ok := args[name]; !ok {
			args[name] = shape.Properties[name].smallest()
		}
	}
	raw, err := model.JSON(args)
	if err != nil {
		return json.RawMessage("{}") // an enum in a broken schema
	}
	return raw
}

func (p property) smallest() any {
	if len(p.Enum) > 0 {
		return p.Enum[0]
	}
	switch p.Type {
	case "integer", "number":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	}
	return "demo"
}
