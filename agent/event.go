package agent

import (
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
)

// Event is something that happened in a conversation, for programs: a line of
// stream-json, and the basis of what clients of a server receive.
type Event struct {
	Type    string             `json:"type"`
	Subtype string             `json:"subtype,omitempty"`
	Session tidemark.SessionID `json:"session_id,omitempty"`
	Worker  string             `json:"worker,omitempty"`
	Text    string             `json:"text,omitempty"`
	Entry   *tidemark.Entry    `json:"entry,omitempty"`
}

// EventOf is an event of a chat for programs: deltas as they come, entries once
// they are durable. It returns false for events that are only for people.
func EventOf(e chat.Event) (Event, bool) {
	out := Event{Worker: e.Worker}
	switch {
	case e.Created != "":
		out.Type, out.Subtype, out.Session = "system", "init", e.Created
	case e.Text != "":
		out.Type, out.Text = "delta", e.Text
	case e.Thinking != "":
		out.Type, out.Subtype, out.Text = "delta", "thinking", e.Thinking
	case e.Wait != nil:
		out.Type, out.Subtype, out.Text = "system", "retry", WaitText(e)
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

// WaitText says why a provider is asked again, and when.
func WaitText(e chat.Event) string {
	return WithWorker(e.Worker, fmt.Sprintf("%s; asking again in %s", e.Wait.Why, e.Wait.For.Round(100*time.Millisecond)))
}

// WithWorker is a text prefixed with the name of its worker, "" for the
// conversation itself.
func WithWorker(worker, text string) string {
	if worker == "" {
		return text
	}
	return "[" + worker + "] " + text
}
