package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

const (
	hello = "I am the demo model that is built into Tidemark: a script without a network, so do not expect wit. "
	// Previews are short, so that a long conversation can be listed.
	preview     = 100
	maxListed   = 50
	resultShown = 400
)

// talk is what the script needs of a conversation.
type talk struct {
	users   []string // what the user said
	answers int      // messages of the assistant
	rounds  int      // of them with a call, since the user spoke last
	results []tidemark.Block
	total   int
}

func talkOf(entries []tidemark.Entry) talk {
	var t talk
	for _, e := range entries {
		if e.Kind != "" && e.Kind != tidemark.KindMessage {
			continue
		}
		t.total++
		var results []tidemark.Block
		calls := false
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockToolResult:
				results = append(results, b)
			case tidemark.BlockToolUse:
				calls = true
			}
		}
		switch {
		case e.Role == tidemark.Assistant:
			t.answers++
			if calls {
				t.rounds++
			}
		case len(results) > 0:
			t.results = results
		case e.Role == tidemark.User:
			t.users = append(t.users, e.Text())
			t.rounds, t.results = 0, nil
		}
	}
	return t
}

// answerTo decides what to say.
func answerTo(r model.Request) speech {
	t := talkOf(r.Entries)
	prompt := ""
	if len(t.users) > 0 {
		prompt = strings.TrimSpace(t.users[len(t.users)-1])
	}
	s := t.reply(prompt, r.Tools)
	if t.answers == 0 {
		s.text = hello + s.text
	}
	return s
}

func (t talk) reply(prompt string, tools []model.Tool) speech {
	orders := ordersIn(prompt)
	if len(orders) > 0 && t.rounds < len(orders) {
		return orders[t.rounds].carryOut(tools)
	}
	if len(t.results) > 0 {
		return speech{text: t.outcome()}
	}
	lower := strings.ToLower(prompt)
	switch {
	case strings.Contains(lower, "what have i said so far"):
		return speech{text: t.said()}
	case strings.Contains(lower, "summarise"), strings.Contains(lower, "summarize"), strings.Contains(lower, "summary of"):
		return speech{text: t.summary()}
	case strings.HasPrefix(lower, "think about "):
		topic := shorten(prompt[len("think about "):], preview)
		return speech{thinking: "Let me think about " + topic + ". I am a script, so this is over soon.",
			text: "I thought about " + topic + ", and found nothing. " + t.count()}
	}
	return speech{text: fmt.Sprintf("You said: %q. %s", shorten(prompt, resultShown), t.count())}
}

func (t talk) count() string {
	if t.total == 1 {
		return "This is the first message of the conversation."
	}
	return fmt.Sprintf("I see %d messages.", t.total)
}

// outcome says what the tools answered.
func (t talk) outcome() string {
	var lines []string
	for _, b := range t.results {
		var words []string
		for _, inner := range model.Inside(b) {
			words = append(words, model.InWords(inner))
		}
		text := strings.TrimSpace(unmarked(strings.Join(words, "\n")))
		switch {
		case b.IsError:
			lines = append(lines, "That did not work: "+shorten(text, resultShown))
		case text == "":
			lines = append(lines, "Done. The tool had nothing to say.")
		default:
			lines = append(lines, fmt.Sprintf("Done. The tool answered with %d bytes: %s", len(text), shorten(text, resultShown)))
		}
	}
	return strings.Join(lines, "\n")
}

// said lists what the user said before; only the newest when it is too much.
func (t talk) said() string {
	before := t.users[:len(t.users)-1]
	if len(before) == 0 {
		return "So far you have said nothing but this."
	}
	var out strings.Builder
	out.WriteString("So far you have said:\n")
	from := max(0, len(before)-maxListed)
	if from > 0 {
		fmt.Fprintf(&out, "(%d earlier messages)\n", from)
	}
	for i, text := range before[from:] {
		fmt.Fprintf(&out, "%d. %s\n", from+i+1, shorten(text, preview))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (t talk) summary() string {
	topics := make([]string, 0, maxListed)
	before := t.users[:len(t.users)-1]
	for _, text := range before[max(0, len(before)-maxListed):] {
		topics = append(topics, shorten(text, preview))
	}
	if len(topics) == 0 {
		// The text to summarise may be in the question itself.
		lines := strings.Split(strings.TrimSpace(t.users[len(t.users)-1]), "\n")
		if len(lines) > 1 {
			return fmt.Sprintf("Summary: a text of %d lines that ends with: %s", len(lines), shorten(lines[len(lines)-1], preview))
		}
		return "Summary: nothing has been said yet."
	}
	return fmt.Sprintf("Summary: the user wrote %d messages and got %d answers. It was about: %s.",
		len(before), t.answers, strings.Join(topics, "; "))
}

// shorten returns the beginning of a text in one line.
func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s[:min(len(s), 8*n)]), " ")
	s = strings.ToValidUTF8(s, "")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// unmarked removes the marks that separate tool output from what people say.
func unmarked(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "<data ") && !strings.HasPrefix(line, "</data ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
