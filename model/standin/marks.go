package standin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// plan is what the marks of a prompt say.
type plan struct {
	answers []answer
	fault   fault
	slow    time.Duration
	usage   *figures
	stop    string
}

type answer struct {
	text, thoughts string
	calls          []call
	ops            []string // commands
	usage          *figures
	stop           string
}

type call struct {
	name, space string
	input       json.RawMessage
}

type figures struct{ in, out, cacheRead, cacheWrite int }

type fault struct {
	status, times                        int
	retryAfter                           string
	midstream, drop, hang, html, garbage bool
}

func (f fault) happens() bool { return f.status != 0 || f.drop || f.hang || f.html || f.garbage }

const opens, closes = "[[fake ", "]]"

// parse reads the marks of a prompt.
func parse(prompt string) (p plan) {
	thoughts := ""
	for {
		_, rest, found := strings.Cut(prompt, opens)
		if !found {
			break
		}
		mark, after := cut(rest)
		prompt = after
		word, args, _ := strings.Cut(mark, " ")
		more := word == "and" && len(p.answers) > 0
		if more {
			word, args, _ = strings.Cut(args, " ")
		}
		var a answer
		switch word {
		case "think":
			thoughts = args
			continue
		case "say":
			a.text = args
		case "call":
			name, input, _ := strings.Cut(args, " ")
			a.calls = []call{{name, "", json.RawMessage(input)}}
		case "op":
			var in struct{ Cmd string }
			_, input, _ := strings.Cut(args, " ")
			if json.Unmarshal([]byte(input), &in) != nil {
				in.Cmd = input
			}
			a.ops = []string{in.Cmd}
		default:
			p.options(strings.Fields(mark))
			continue
		}
		if more {
			last := &p.answers[len(p.answers)-1]
			last.calls, last.ops = append(last.calls, a.calls...), append(last.ops, a.ops...)
			continue
		}
		a.thoughts, thoughts = thoughts, ""
		p.answers = append(p.answers, a)
	}
	return p
}

// cut returns a mark and what follows it. Text in braces may look like its end.
func cut(rest string) (mark, after string) {
	end := strings.Index(rest, closes)
	if brace := strings.Index(rest, "{"); brace >= 0 && brace < end {
		d := json.NewDecoder(strings.NewReader(rest[brace:]))
		var v json.RawMessage
		if d.Decode(&v) == nil {
			at := brace + int(d.InputOffset())
			if more := strings.Index(rest[at:], closes); more >= 0 {
				end = at + more
			}
		}
	}
	if end < 0 {
		return rest, ""
	}
	return rest[:end], rest[end+len(closes):]
}

func (p *plan) options(words []string) {
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value) // words have none
		if p.usage == nil && (name == "in" || name == "out" || strings.HasPrefix(name, "cache_")) {
			p.usage = new(figures)
		}
		switch name {
		case "error":
			p.fault.status = n
		case "times":
			p.fault.times = n
		case "retry_after":
			p.fault.retryAfter = value
		case "midstream":
			p.fault.midstream = true
		case "drop":
			p.fault.drop = true
		case "hang":
			p.fault.hang = true
		case "html":
			p.fault.html = true
		case "garbage":
			p.fault.garbage = true
		case "slow":
			p.slow = time.Duration(n) * time.Millisecond
		case "long":
			p.answers = append(p.answers, answer{text: strings.Repeat("The tide goes out and comes in again. ", n/38+1)})
		case "stop":
			p.stop = value
		case "in":
			p.usage.in = n
		case "out":
			p.usage.out = n
		case "cache_read":
			p.usage.cacheRead = n
		case "cache_write":
			p.usage.cacheWrite = n
		}
	}
}

// answer returns the next one.
func (p plan) answer(h heard) (a answer) {
	switch {
	case h.answers < len(p.answers):
		a = p.answers[h.answers]
	case len(p.answers) > 0:
		a = answer{text: "There is nothing more to say."}
	default:
		a = answer{text: h.repeated()}
	}
	for _, cmd := range a.ops {
		if c, ok := h.calledFor(cmd); ok {
			a.calls = append(a.calls, c)
		}
	}
	if a.text == "" && a.thoughts == "" && len(a.calls) == 0 {
		a.text = "No tool here can do that."
	}
	a.usage, a.stop = p.usage, p.stop
	if a.usage == nil {
		a.usage = &figures{in: h.bytes/4 + 1, out: len(a.text)/4 + 1}
	}
	return a
}

// repeated repeats what was heard: the last of it, or all on request.
func (h heard) repeated() string {
	if len(h.said) == 0 {
		return "You said nothing."
	}
	last := h.said[len(h.said)-1]
	if !strings.Contains(last, "What have I said so far?") {
		return fmt.Sprintf("You said: %s", last)
	}
	var b strings.Builder
	b.WriteString("So far you have said:\n")
	for i, s := range h.said {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	return b.String()
}

// typed reports whether a text was typed by somebody, and not added by a
// program.
func typed(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && !strings.HasPrefix(s, "<") && !strings.HasPrefix(s, "# AGENTS.md")
}
