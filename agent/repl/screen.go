package repl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// screen shows what happens in a chat. Text from the model and its tools
// is foreign: it always goes through package render.
type screen struct {
	Display
	side   io.Writer // notices: stderr, or the console
	format string    // output format of -p; "": a conversation
	over   func()    // called when a turn only has to be kept; may be nil

	resized atomic.Bool // the width of the terminal changed

	mu       sync.Mutex
	body     io.Writer        // answers: stdout, or the console; nil: they are not streamed
	text     *render.Terminal // the answer being shown
	thinking bool
	view     string // the worker that is shown, "" for the conversation
	shown    int    // lines of the running tool's output
	line     []byte // buffer for JSON, reused

	// progress shows rows until it is called again; nil where nothing can be
	// drawn again: in a pipe, on a plain terminal.
	progress func(rows ...string)
	tasks    func() []store.Task // the task list; may be nil
	activity activity
	hidden   bool     // the person is asked something
	running  *running // the call that runs
	approved string   // the call that the person last approved
	folds    []folded
	unfolded int // index of the call that was unfolded last, or the number of them
}

// becomes shows what happens from now on, "" for nothing.
func (s *screen) becomes(what string) {
	if s.progress != nil && s.activity.what != what {
		s.activity.becomes(what, time.Now())
		s.draw()
	}
}

// tick moves the sign of life.
func (s *screen) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.activity.spins++
	s.draw()
}

// begin shows that something begins that takes a while; end, that it is over.
func (s *screen) begin(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.becomes(what)
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.becomes("")
	s.running = nil
}

// hide hides the sign of life while the person is asked something.
func (s *screen) hide(hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = hidden
	s.draw()
}

func (s *screen) draw() {
	if s.progress == nil {
		return
	}
	if s.hidden {
		s.progress()
		return
	}
	s.progress(s.activity.rows(s.width(), time.Now())...)
}

// note prints one line.
func (s *screen) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(format, args...)
}

func (s *screen) noteLocked(format string, args ...any) {
	s.flush()
	fmt.Fprintln(s.side, s.wrapped(render.CleanLine(fmt.Sprintf(format, args...))))
}

// dim prints one less important line.
func (s *screen) dim(text string) {
	if s.Quiet {
		return
	}
	s.flush()
	fmt.Fprintln(s.side, s.style("2", render.CleanLine(strings.ReplaceAll(text, "\t", "    "))))
}

func (s *screen) style(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wrapped breaks a line between words, on a terminal.
func (s *screen) wrapped(text string) string {
	if columns := s.width(); columns > 0 {
		return strings.Join(render.Wrap(text, columns-1), "\n")
	}
	return text
}

// plain makes a text harmless that is printed unstyled.
func (s *screen) plain(text string) string {
	if !s.Terminal {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return render.Clean(text)
}

// flush ends the answer being shown.
func (s *screen) flush() {
	s.thinking = false
	if s.text != nil {
		s.text.Flush()
		s.text = nil
	}
}

// pause ends the answer being shown, before something else is.
func (s *screen) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

// look switches to another thread.
func (s *screen) look(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
	s.view = worker
}

// show handles an event of the chat.
func (s *screen) show(e chat.Event) {
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
		if !s.Quiet || s.format == "" {
			s.noteLocked("Session: %s", e.Created)
		}
		return
	}
	if e.Notice != "" {
		s.noteLocked("%s", agent.WithWorker(e.Worker, e.Notice))
		return
	}
	if s.format != "" {
		if e.Wait != nil {
			s.dim(agent.WaitText(e))
		}
		return
	}
	if e.Worker != s.view {
		if e.Ended != nil && e.Worker != "" {
			s.dim(fmt.Sprintf("[%s] %s", e.Worker, render.Phrase(e.Ended.Text)))
		}
		return
	}
	s.live(e)
}

// live shows what happens in the current thread.
func (s *screen) live(e chat.Event) {
	switch {
	case e.Text != "":
		if s.text == nil {
			s.flush()
			s.text = render.NewTerminal(s.body, &render.TerminalOptions{Columns: s.width(), Color: s.Color})
		}
		if s.resized.Swap(false) {
			s.text.SetColumns(s.width())
		}
		s.text.WriteString(e.Text)
		s.becomes("answering")
	case e.Thinking != "":
		if !s.thinking && s.progress == nil {
			s.dim("(thinking)")
		}
		s.thinking = true
		s.becomes("thinking")
	case e.Call != nil:
		s.call(*e.Call)
	case e.Output != "":
		s.output(e.Output)
	case e.Result != nil:
		s.result(*e.Result)
		s.becomes("waiting for the model")
	case e.Wait != nil:
		s.dim(agent.WaitText(e))
	case e.Ended != nil:
		s.becomes("")
		s.flush()
		if e.Ended.Stop == chat.StopCancelled {
			s.dim("(stopped)")
		}
	}
}

// maxShown is how many lines of a tool's output are shown while it runs; all of
// it is in the session.
const maxShown = 12

// width is the width for text; in a pipe nothing is wrapped.
func (s *screen) width() int {
	if c, ok := s.body.(interface{ Columns() int }); ok && s.Terminal {
		return c.Columns()
	}
	return -1
}

// delta prints more of an answer. There are thousands of them.
func (s *screen) delta(text string) {
	line, err := jsontext.AppendQuote(append(s.line[:0], `{"type":"delta","text":`...), text)
	if err != nil {
		return // not UTF-8; it comes again with the whole answer
	}
	s.line = append(line, "}\n"...)
	s.Out.Write(s.line)
}

// stream prints an event as a line of JSON.
func (s *screen) stream(e chat.Event) {
	if e.Text != "" && e.Worker == "" {
		s.delta(e.Text)
	} else if out, ok := agent.EventOf(e); ok {
		writeJSON(s.Out, out)
	}
}

// writeJSON writes a value as one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
