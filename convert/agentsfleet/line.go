package agentsfleet

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// object is a JSON object with raw values.
type object map[string]json.RawMessage

// untimed, in the Extra of a line or session, says that its time was not in the
// file, so that export does not make one up.
const untimed = "tidemark_untimed"

// unsaid is the same for the time of a session's last change.
const unsaid = "tidemark_unsaid"

// stamp is the layout in which agents-fleet writes times.
const stamp = "2006-01-02T15:04:05.000Z"

// The keys under which a line may hold each field, the documented or observed
// one first.
var (
	timeKeys   = []string{"timestamp", "ts", "time", "createdAt", "created_at", "at"}
	callKeys   = []string{"toolCallId", "tool_call_id", "toolUseId", "callId", "id"}
	resultKeys = []string{"content", "result", "output"}
)

// entryOf returns the entry of a line of a transcript. Whatever the entry does
// not represent exactly stays in its Extra. A line without a time gets the time
// before.
func entryOf(line []byte, id string, before time.Time) (convert.Entry, error) {
	if err := checkParts(line); err != nil {
		return convert.Entry{}, err
	}
	var rest object
	if err := json.Unmarshal(line, &rest); err != nil || rest == nil {
		return convert.Entry{}, tidemark.Invalidf("is no JSON object")
	}
	e := convert.Entry{ID: id}
	e.At = rest.takeTime("timestamp")
	for _, k := range timeKeys {
		if e.At.IsZero() {
			e.At, _ = parseTime(rest[k])
			rest[untimed] = json.RawMessage("true")
		}
	}
	if e.At.IsZero() {
		e.At = before
	}
	e.Model = rest.take("model")
	role := tidemark.Role(rest.take("role"))
	switch {
	case !role.Valid():
		e.Kind = "note"
		if role != "" {
			rest.set("role", role)
		}
	case role == tidemark.System && isKind(rest.text("kind")):
		e.Kind = rest.take("kind")
	default:
		e.Kind, e.Role = tidemark.KindMessage, role
	}
	if role == tidemark.Tool {
		e.Blocks = rest.takeTool("call-" + id)
	} else {
		e.Blocks = rest.takeContent()
	}
	e.Extra = rest.extra()
	return e, nil
}

// isKind reports whether s is the kind of another tool's entry that was exported
// here.
func isKind(s string) bool {
	_, err := tidemark.Entry{Kind: s}.Line()
	return err == nil && s != tidemark.KindBranch && s != tidemark.KindGap
}

// takeContent returns the content. Content that is a list of parts, as providers
// have it, is shown as far as it is known, and kept.
func (o object) takeContent() []tidemark.Block {
	if text := o.take("content"); text != "" {
		return []tidemark.Block{tidemark.Text(text)}
	}
	var parts []struct{ Type, Text, Thinking string }
	if len(o["content"]) == 0 || json.Unmarshal(o["content"], &parts) != nil {
		return nil
	}
	var blocks []tidemark.Block
	for _, p := range parts {
		switch {
		case p.Type == "text" && p.Text != "":
			blocks = append(blocks, tidemark.Text(p.Text))
		case p.Type == "thinking" && p.Thinking != "":
			blocks = append(blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: p.Thinking})
		}
	}
	return blocks
}

// takeTool returns the tool call and result of a line. The known lines have a
// name and args; a line with only content is a result.
func (o object) takeTool(id string) (blocks []tidemark.Block) {
	for _, k := range callKeys {
		if given := o.text(k); given != "" {
			id = given
			break
		}
	}
	args, called := o["args"]
	if called {
		// One form, however the line was written.
		var b bytes.Buffer
		if json.Compact(&b, args) == nil {
			args = b.Bytes()
		}
	}
	var result *tidemark.Block
	for _, k := range resultKeys {
		if text := o.text(k); text != "" {
			result = &tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: text, IsError: o.isError()}
			if k == "content" {
				delete(o, k)
			}
			break
		}
	}
	if name := o.text("name"); name != "" && (called || result == nil) {
		blocks = append(blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: args})
		delete(o, "name")
		delete(o, "args")
	}
	if result != nil {
		blocks = append(blocks, *result)
	}
	return blocks
}

func (o object) isError() bool {
	return string(o["isError"]) == "true" || string(o["success"]) == "false"
}

// text returns the string under a key, "" when there is something else.
func (o object) text(key string) string { return convert.Object(o).Text(key) }

// take removes a string and returns it. Another value, or an empty string,
// stays.
func (o object) take(key string) string {
	s := o.text(key)
	if s != "" {
		delete(o, key)
	}
	return s
}

// takeTime returns the time under a key, and removes it when export can write it
// back from that alone.
func (o object) takeTime(key string) time.Time {
	t, text := parseTime(o[key])
	if !t.IsZero() && t.Format(stamp) == text {
		delete(o, key)
	}
	return t
}

// parseTime reads RFC 3339, or a number of milliseconds or seconds.
func parseTime(raw json.RawMessage) (t time.Time, text string) {
	var number float64
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &text) == nil:
		t, _ = time.Parse(time.RFC3339Nano, text)
	case json.Unmarshal(raw, &number) == nil && number > 1e11 && number < 2e14:
		t = time.UnixMilli(int64(number))
	case json.Unmarshal(raw, &number) == nil && number > 1e8 && number < 2e11:
		t = time.UnixMicro(int64(number * 1e6))
	}
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, text
	}
	return t.UTC().Truncate(time.Microsecond), text
}

func (o object) set(key string, value any) { convert.Object(o).Set(key, value) }

// offer sets a key that is missing.
func (o object) offer(key string, value any) {
	if _, there := o[key]; !there {
		o.set(key, value)
	}
}

// extra returns o as the Extra of an entry or session.
func (o object) extra() json.RawMessage {
	b, err := o.appendLine([]byte(`{"` + toolName + `":`))
	if err != nil {
		return nil
	}
	return append(b, '}')
}

// kept returns what extra kept; own is false for what came from elsewhere.
func kept(extra json.RawMessage) (o object, own bool) {
	var tools map[string]json.RawMessage
	if json.Unmarshal(extra, &tools) == nil && json.Unmarshal(tools[toolName], &o) == nil && o != nil {
		return o, true
	}
	return object{}, false
}

// saysSomething reports whether extra holds anything of any tool.
func saysSomething(extra json.RawMessage) bool {
	var tools map[string]json.RawMessage
	if json.Unmarshal(extra, &tools) != nil {
		return len(extra) > 0
	}
	for _, v := range tools {
		if string(v) != "{}" {
			return true
		}
	}
	return false
}

// appendLine appends o as JSON on one line: the keys of first before the others,
// which are sorted.
func (o object) appendLine(b []byte, first ...string) ([]byte, error) {
	keys := slices.DeleteFunc(slices.Clone(first), func(k string) bool { _, there := o[k]; return !there })
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(first, k) {
			keys = append(keys, k)
		}
	}
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := convert.Encode(k)
		if err != nil {
			return b, err
		}
		value, err := convert.Encode(o[k])
		if err != nil {
			return b, tidemark.Invalidf("key %.40q: %w", k, err)
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// linesOf returns the lines that an entry is exported as. One that came from
// agents-fleet is one line again.
func linesOf(e tidemark.Entry, lost convert.Losses) []object {
	rest, own := kept(e.Extra)
	_, hidden := rest[untimed]
	delete(rest, untimed)
	if !own {
		return foreignLines(e, lost)
	}
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockToolUse:
			rest.offer("name", b.Name)
			if b.Input != nil {
				rest.offer("args", b.Input)
			}
		case tidemark.BlockToolResult:
			if rest["result"] == nil && rest["output"] == nil {
				rest.offer("content", b.Text)
			}
		}
	}
	if text := e.Text(); text != "" {
		rest.offer("content", text)
	}
	return []object{rest.finish(e, !hidden)}
}

// finish adds what every line of an entry has.
func (o object) finish(e tidemark.Entry, timed bool) object {
	switch {
	case e.Role != "":
		o.offer("role", e.Role)
	case e.Kind != "note":
		o.offer("role", tidemark.System)
		o.offer("kind", e.Kind)
	}
	if timed && !e.At.IsZero() {
		o.offer("timestamp", e.At.UTC().Format(stamp))
	}
	if e.Model != "" {
		o.offer("model", e.Model)
	}
	return o
}

// foreignLines writes an entry of another tool in the form of agents-fleet: the
// text on one line, and each call and result on a line of its own.
func foreignLines(e tidemark.Entry, lost convert.Losses) (lines []object) {
	if e.Usage != nil {
		lost.Add("token counts")
	}
	if saysSomething(e.Extra) {
		lost.Add("what other tools keep with an entry")
	}
	var tools []object
	for _, b := range e.Blocks {
		o := object{}
		switch b.Type {
		case tidemark.BlockText:
			continue
		case tidemark.BlockToolUse:
			o.set("name", b.Name)
			o.set("args", json.RawMessage("{}"))
			if len(b.Input) > 0 {
				o.set("args", b.Input)
			}
			o.set("toolCallId", b.ID)
		case tidemark.BlockToolResult:
			o.set("content", lost.ResultText(b))
			o.set("toolCallId", b.ToolUseID)
			if b.IsError {
				o.set("isError", true)
			}
		default:
			lost.Add(b.Type + " blocks")
			continue
		}
		o.set("role", tidemark.Tool)
		tools = append(tools, o.finish(e, true))
	}
	if text := e.Text(); text != "" || len(tools) == 0 {
		o := object{}
		o.set("content", text)
		if e.Kind == "note" {
			o.set("role", tidemark.System)
			o.set("kind", e.Kind)
		}
		lines = append(lines, o.finish(e, true))
	}
	return append(lines, tools...)
}
