package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Subtypes of the system events that this package makes itself.
const (
	subtypeStderr  = "stderr"       // a line of the program's standard error
	subtypeStdout  = "stdout"       // a line of its standard output in an unexpected form
	subtypeJSON    = "json"         // a line of a command that is JSON of its own kind
	subtypeLimit   = "output_limit" // output was left out
	subtypeIgnored = "ignored"      // a setting of the task that the program does not support
	subtypeNotice  = "warning"      // a warning of the program about itself
	subtypeThink   = "thinking"     // of an assistant event: thinking, not said
)

// sink passes events on, one at a time and no more than the task keeps.
type sink struct {
	emitTo func(tidemark.Event) error
	fail   context.CancelCauseFunc // ends the run when an event cannot be kept

	mu      sync.Mutex
	room    int64
	over    bool
	left    int64 // bytes left out
	events  int64 // events left out
	stopped bool
}

func newSink(t Task, fail context.CancelCauseFunc) *sink {
	return &sink{emitTo: t.Emit, fail: fail, room: t.OutputBytes}
}

// notKept is the cause of a run that was ended because an event or its
// process could not be recorded.
type notKept struct{ err error }

func (e *notKept) Error() string { return e.err.Error() }
func (e *notKept) Unwrap() error { return e.err }

// eventOverhead is roughly the size of an event's field names.
const eventOverhead = 100

func sizeOf(e tidemark.Event) int64 {
	return eventOverhead + int64(len(e.Content)+len(e.Input)+len(e.Result)+len(e.Error)+len(e.Message)+len(e.Stack)+len(e.Extra))
}

// emit passes e on, unless the task's limit is reached. That is reported
// once when it happens; close reports how much was left out.
func (s *sink) emit(e tidemark.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := sizeOf(e)
	if s.over || size > s.room {
		if !s.over {
			s.over = true
			s.send(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeLimit,
				Content: "the output is over the limit of the run: from here on it is counted, not kept"})
		}
		s.left += size
		s.events++
		return
	}
	s.room -= size
	s.send(e)
}

// must passes e on even beyond the limit. It is for events that come once.
func (s *sink) must(e tidemark.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(e)
}

func (s *sink) send(e tidemark.Event) {
	if s.emitTo == nil || s.stopped {
		return
	}
	e.Timestamp = time.Now().UTC()
	e.Content, e.Error, e.Message = clean(e.Content), clean(e.Error), clean(e.Message)
	if err := s.emitTo(e); err != nil {
		s.stopped = true
		s.fail(&notKept{fmt.Errorf("keeping an event: %w", err)})
	}
}

// close reports what was left out, and returns how much. Nothing is passed
// on after it.
func (s *sink) close() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events > 0 {
		s.send(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeLimit,
			Content: fmt.Sprintf("%d events with %d bytes are not kept", s.events, s.left)})
	}
	s.stopped = true
	return s.left
}

// cut reports a line of which only a part was kept.
func (s *sink) cut(left int64) {
	if left == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += left
	if !s.over {
		s.send(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeLimit,
			Content: fmt.Sprintf("a line was cut: its first %d bytes are kept, %d are not", maxLine, left)})
	}
}

// notice emits a short system event.
func (s *sink) notice(subtype, format string, args ...any) {
	s.emit(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtype, Content: fmt.Sprintf(format, args...)})
}

// clean makes text that every store and every reader accepts: some cannot
// keep a zero byte.
func clean(s string) string {
	if !strings.ContainsRune(s, 0) {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// maxSummary bounds how much of an agent's last text is kept in its job.
const maxSummary = 16 << 10

func summary(s string) string {
	return text.Shorten(strings.TrimSpace(clean(s)), maxSummary)
}

// short shortens text for error messages.
func short(s string) string {
	return text.Shorten(strings.TrimSpace(s), 400)
}

// extra encodes the fields of an event that have no place of their own.
func extra(fields map[string]any) json.RawMessage {
	for k, v := range fields {
		if v == nil || v == "" {
			delete(fields, k)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil // unreachable: the fields come from JSON
	}
	return b
}

// object returns the fields of a line that is a JSON object.
func object(line []byte) (map[string]json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return nil, false
	}
	return fields, true
}

// str returns a field that is a string, "" for anything else.
func str(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
