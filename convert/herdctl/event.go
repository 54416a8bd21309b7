package herdctl

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// eventForm is one line of jobs/<id>.jsonl.
func eventForm() form {
	return form{
		{"type", isNever, false},
		{"subtype", isText, false},
		{"content", isText, false},
		{"partial", isBool, false},
		{"usage", isTokens, false},
		{"tool_name", isText, false},
		{"tool_use_id", isText, false},
		{"input", isAny, true},
		{"result", isAny, true},
		{"success", isBool, false},
		{"error", isText, false},
		{"message", isText, false},
		{"code", isText, false},
		{"stack", isText, false},
		{"timestamp", isTime, false},
	}
}

func isTokens(raw json.RawMessage) bool {
	u := sub(raw)
	for _, key := range []string{"input_tokens", "output_tokens"} {
		if n, there := u[key]; there && !isCount(n) {
			return false
		}
	}
	return u != nil
}

func isEventType(s string) bool {
	switch s {
	case tidemark.EventSystem, tidemark.EventAssistant, tidemark.EventToolUse, tidemark.EventToolResult, tidemark.EventError:
		return true
	}
	return false
}

// readEvent makes an event from a line. One of an unknown type becomes a system
// event; one without a time gets the previous time.
func readEvent(o object, before time.Time) tidemark.Event {
	e := eventOf(o, before)
	e.Extra = extra(kept(o, eventObject(e)))
	return e
}

func eventOf(o object, before time.Time) tidemark.Event {
	e := tidemark.Event{
		Type: text(o["type"]), Subtype: text(o["subtype"]), Content: text(o["content"]), Partial: string(o["partial"]) == "true",
		ToolName: text(o["tool_name"]), ToolUseID: text(o["tool_use_id"]), Error: text(o["error"]),
		Message: text(o["message"]), Code: text(o["code"]), Stack: text(o["stack"]), Timestamp: when(o["timestamp"]),
	}
	if !isEventType(e.Type) {
		if e.Subtype == "" {
			e.Subtype = e.Type
		}
		e.Type = tidemark.EventSystem
	}
	if e.Timestamp.IsZero() {
		e.Timestamp = before
	}
	if !isNull(o["input"]) {
		e.Input = compact(o["input"])
	}
	if !isNull(o["result"]) {
		e.Result = compact(o["result"])
	}
	if b := o["success"]; isBool(b) && !isNull(b) {
		success := string(b) == "true"
		e.Success = &success
	}
	if u := sub(o["usage"]); u != nil {
		e.Usage = &tidemark.Usage{InputTokens: count(u["input_tokens"]), OutputTokens: count(u["output_tokens"])}
	}
	return e
}

// eventObject returns an event as herdctl writes it: missing values are omitted,
// because null is not accepted.
func eventObject(e tidemark.Event) object {
	o := object{"type": quoted(e.Type), "timestamp": quoted(stamp(e.Timestamp))}
	for key, s := range map[string]string{"subtype": e.Subtype, "content": e.Content, "tool_name": e.ToolName, "tool_use_id": e.ToolUseID,
		"error": e.Error, "message": e.Message, "code": e.Code, "stack": e.Stack} {
		if s != "" || key == "tool_name" && e.Type == tidemark.EventToolUse || key == "message" && e.Type == tidemark.EventError {
			o[key] = quoted(s)
		}
	}
	if e.Partial {
		o["partial"] = json.RawMessage("true")
	}
	if !isNull(e.Input) {
		o["input"] = e.Input
	}
	if !isNull(e.Result) {
		o["result"] = e.Result
	}
	if e.Success != nil {
		if o["success"] = json.RawMessage("false"); *e.Success {
			o["success"] = json.RawMessage("true")
		}
	}
	if u := e.Usage; u != nil {
		tokens := object{}
		// herdctl counts what comes from a cache, or goes into it, as input.
		if n := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens; n > 0 {
			tokens["input_tokens"] = numeral(n)
		}
		if u.OutputTokens > 0 {
			tokens["output_tokens"] = numeral(u.OutputTokens)
		}
		o["usage"] = form(nil).marshal(tokens)
	}
	return o
}

// readOutput yields the events of a .jsonl file; start is the time of those
// before the first with its own time. An unreadable file is a *Skip.
func readOutput(ctx context.Context, fsys fs.FS, name string, start time.Time) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		before := start
		for line, err := range convert.Lines(fsys, name) {
			if ctx.Err() != nil {
				yield(tidemark.Event{}, ctx.Err())
				return
			}
			if err != nil {
				if !convert.IsSkip(err) {
					err = &convert.Skip{What: name, Why: err}
				}
				if !yield(tidemark.Event{}, err) {
					return
				}
				continue
			}
			objects, bad := parseLine(line.Text)
			for _, o := range objects {
				e := readEvent(o, before)
				before = e.Timestamp
				if !yield(e, nil) {
					return
				}
			}
			if bad != nil && !yield(tidemark.Event{}, convert.Skipf(name, "line %d: %w", line.Number, bad)) {
				return
			}
		}
	}
}

// parseLine returns the objects of a line: one or, when a writer died within a
// line and the next one continued on it, those that are complete. The error says
// what is not.
func parseLine(b []byte) (objects []object, bad error) {
	if !utf8.Valid(b) {
		return nil, tidemark.Invalidf("is not UTF-8")
	}
	if err := checkParts(b); err != nil {
		return nil, err
	}
	var o object
	err := json.Unmarshal(b, &o)
	switch {
	case err == nil && text(o["type"]) == "":
		return nil, tidemark.Invalidf("has no type")
	case err == nil:
		return []object{o}, nil
	}
	objects, whole := salvage(b)
	if whole {
		return objects, nil
	}
	return objects, tidemark.Invalidf("is torn: %w", err)
}

// maxGlued bounds the positions at which a torn line is tried: each may be read
// to the end of the line in vain.
const maxGlued = 32

// salvage returns the complete events inside a line that is not one event, and
// whether they cover the line.
func salvage(b []byte) (objects []object, whole bool) {
	whole = true
	for tries := 0; len(bytes.TrimSpace(b)) > 0; tries++ {
		if tries == maxGlued {
			return objects, false
		}
		var o object
		dec := json.NewDecoder(bytes.NewReader(b))
		// A torn event contains objects that are not events: they have no time.
		if err := dec.Decode(&o); err == nil && isEventType(text(o["type"])) && isTime(o["timestamp"]) {
			objects = append(objects, o)
			b = b[dec.InputOffset():]
			continue
		}
		whole = false
		next := bytes.Index(b[1:], []byte(`{"type":"`))
		if next < 0 {
			break
		}
		b = b[1+next:]
	}
	return objects, whole
}

// subtypeLog marks an event that is a verbatim line of logs/<agent>.log.
const subtypeLog = "log"

// readLog yields the lines of a log. The time of a line is what it begins with,
// or that of the previous line; start is that of the file.
func readLog(fsys fs.FS, name string, start time.Time) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		before := start
		for line, err := range convert.Lines(fsys, name) {
			e := tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeLog, Content: strings.ToValidUTF8(string(line.Text), "\uFFFD")}
			if err != nil && !convert.IsSkip(err) {
				err = &convert.Skip{What: name, Why: err}
			}
			if at := leadingTime(e.Content); !at.IsZero() {
				before = at
			}
			if e.Timestamp = before; err != nil {
				e = tidemark.Event{}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func leadingTime(line string) time.Time {
	word, _, _ := strings.Cut(strings.TrimPrefix(line, "["), " ")
	word = strings.TrimRight(word, "]:,")
	if len(word) < len("2006-01-02T15:04:05") {
		return time.Time{}
	}
	return when(quoted(word))
}

// logLine returns an event as a line of a log: verbatim, or as herdctl writes
// output as text.
func logLine(e tidemark.Event) string {
	if e.Type == tidemark.EventSystem && e.Subtype == subtypeLog {
		return strings.ReplaceAll(e.Content, "\n", "\n  ")
	}
	parts := []string{e.Content, e.ToolName, string(e.Input), string(e.Result), e.Error, e.Message}
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, strings.ReplaceAll(p, "\n", "\n  "))
		}
	}
	return "[" + stamp(e.Timestamp) + "] [" + strings.ToUpper(e.Type) + "] " + strings.Join(said, " ")
}
