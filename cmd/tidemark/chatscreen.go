package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

// chatScreen shows what happens in a chat. What the model and its tools say is
// foreign text: it goes through package render, and never as it is.
type chatScreen struct {
	*app
	side   io.Writer // notices: stderr, or the console
	format string    // of -p; "": a conversation
	over   func()    // told when all that is left of a turn is to keep it; nil: nobody is

	resized atomic.Bool // the terminal has another width

	mu       sync.Mutex
	body     io.Writer        // answers: stdout, or the console; nil: they are not streamed
	text     *render.Terminal // the answer that is being shown
	thinking bool
	view     string // the worker that is looked at, "" for the conversation
	shown    int    // lines of the running tool's output
	line     []byte // of JSON, used again and again
}

// note says one line.
func (s *chatScreen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(format, args...)
}

func (s *chatScreen) noteLocked(format string, args ...any) {
	s.flush()
	fmt.Fprintln(s.side, render.CleanLine(fmt.Sprintf(format, args...)))
}

// dim says one line that is less important.
func (s *chatScreen) dim(text string) {
	if s.quiet {
		return
	}
	s.flush()
	fmt.Fprintln(s.side, s.style("2", render.CleanLine(strings.ReplaceAll(text, "\t", "    "))))
}

func (s *chatScreen) style(code, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// plain makes a text harmless that goes out as it is.
func (s *chatScreen) plain(text string) string {
	if !s.terminal {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return render.Clean(text)
}

// flush ends the answer that is being shown.
func (s *chatScreen) flush() {
	s.thinking = false
	if s.text != nil {
		s.text.Flush()
		s.text = nil
	}
}

// pause ends the answer that is being shown, before something else is.
func (s *chatScreen) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

// look changes the thread that is looked at.
func (s *chatScreen) look(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
	s.view = worker
}

// show is told by the chat what happens.
func (s *chatScreen) show(e chat.Event) {
	if (e.Answered || e.Ended != nil) && e.Worker == "" && s.over != nil {
		s.over()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.format == "stream-json" {
		s.stream(e)
		return
	}
	if e.Created != "" {
		s.noteLocked("Session: %s", e.Created)
		return
	}
	if e.Notice != "" {
		s.noteLocked("%s", withWorker(e.Worker, e.Notice))
		return
	}
	if s.format != "" {
		if e.Wait != nil {
			s.dim(waitText(e))
		}
		return
	}
	if e.Worker != s.view {
		if e.Ended != nil && e.Worker != "" {
			s.dim(fmt.Sprintf("[%s] %s", e.Worker, firstLine(e.Ended.Text)))
		}
		return
	}
	s.live(e)
}

// live shows what happens in the thread that is looked at.
func (s *chatScreen) live(e chat.Event) {
	switch {
	case e.Text != "":
		if s.text == nil {
			s.flush()
			s.text = render.NewTerminal(s.body, &render.TerminalOptions{Columns: s.width(), Color: s.color})
		}
		if s.resized.Swap(false) {
			s.text.SetColumns(s.width())
		}
		s.text.WriteString(e.Text)
	case e.Thinking != "":
		if !s.thinking {
			s.dim("(thinking)")
			s.thinking = true
		}
	case e.Call != nil:
		s.shown = 0
		s.dim("▸ " + callText(e.Call.Tool, e.Call.Input))
	case e.Output != "":
		for line := range strings.Lines(e.Output) {
			if s.shown++; s.shown > maxShown {
				break
			}
			s.dim("  " + strings.TrimRight(line, "\n"))
		}
	case e.Result != nil:
		if e.Result.IsError {
			s.dim("  ✗ " + firstLine(e.Result.Text))
		} else if s.shown == 0 && e.Result.Text != "" {
			s.dim("  " + firstLine(e.Result.Text))
		} else if s.shown > maxShown {
			s.dim(fmt.Sprintf("  … %d lines more", s.shown-maxShown))
		}
	case e.Wait != nil:
		s.dim(waitText(e))
	case e.Ended != nil:
		s.flush()
		if e.Ended.Stop == chat.StopCancelled {
			s.dim("(stopped)")
		}
	}
}

// maxShown is how many lines of a tool's output are shown as it runs; all of it
// is in the session.
const maxShown = 12

// width is how wide text may be; in a pipe nothing is wrapped.
func (s *chatScreen) width() int {
	if c, ok := s.body.(interface{ Columns() int }); ok && s.terminal {
		return c.Columns()
	}
	return -1
}

func withWorker(worker, text string) string {
	if worker == "" {
		return text
	}
	return "[" + worker + "] " + text
}

func waitText(e chat.Event) string {
	return withWorker(e.Worker, fmt.Sprintf("%s; asking again in %s", e.Wait.Why, e.Wait.For.Round(100_000_000)))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return render.Truncate(render.CleanLine(line), 100)
}

// callText is a tool call in one line.
func callText(tool string, input json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) == nil {
		for _, name := range []string{"command", "path", "url", "pattern", "name", "key", "code"} {
			if v, ok := fields[name].(string); ok {
				return tool + ": " + firstLine(v)
			}
		}
	}
	return tool + ": " + firstLine(rawText(input))
}

// rawText is JSON as people read it: a text without its quotes.
func rawText(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

// askText is what a call wants, in one line.
func askText(a chat.ApprovalRequest) string {
	return withWorker(a.Worker, callText(a.Tool, a.Input))
}

// streamed is one line of stream-json.
type streamed struct {
	Type    string             `json:"type"`
	Subtype string             `json:"subtype,omitempty"`
	Session tidemark.SessionID `json:"session_id,omitempty"`
	Worker  string             `json:"worker,omitempty"`
	Text    string             `json:"text,omitempty"`
	Entry   *tidemark.Entry    `json:"entry,omitempty"`
}

// delta prints more of an answer. There are thousands of them.
func (s *chatScreen) delta(text string) {
	line, err := jsontext.AppendQuote(append(s.line[:0], `{"type":"delta","text":`...), text)
	if err != nil {
		return // it is not UTF-8, and comes once more with the whole answer
	}
	s.line = append(line, "}\n"...)
	s.out.Write(s.line)
}

// stream prints an event as a line of JSON.
func (s *chatScreen) stream(e chat.Event) {
	if e.Text != "" && e.Worker == "" {
		s.delta(e.Text)
	} else if out, ok := streamedOf(e); ok {
		s.jsonLine(out)
	}
}

// streamedOf is an event for programs: deltas as they come, entries once they
// are durable. Some are only for people.
func streamedOf(e chat.Event) (streamed, bool) {
	out := streamed{Worker: e.Worker}
	switch {
	case e.Created != "":
		out.Type, out.Subtype, out.Session = "system", "init", e.Created
	case e.Text != "":
		out.Type, out.Text = "delta", e.Text
	case e.Thinking != "":
		out.Type, out.Subtype, out.Text = "delta", "thinking", e.Thinking
	case e.Wait != nil:
		out.Type, out.Subtype, out.Text = "system", "retry", waitText(e)
	case e.Notice != "":
		out.Type, out.Subtype, out.Text = "system", "notice", e.Notice
	case e.Kept != nil && e.Kept.Kind == tidemark.KindMessage:
		out.Type, out.Entry = string(e.Kept.Role), e.Kept
	case e.Kept != nil:
		out.Type, out.Subtype, out.Entry = "system", e.Kept.Kind, e.Kept
	default:
		return out, false
	}
	return out, true
}
