package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// heartbeat is how often a quiet stream sends a sign of life: more
// often than proxies time out.
const heartbeat = 15 * time.Second

// writeTimeout is how long a client may take to read what was sent.
const writeTimeout = 30 * time.Second

// Event is one message of a stream.
type Event struct {
	ID    int64  // 0: none
	Stamp string // added to the ID, to tell what has the same one after a failover
	Name  string // "": message
	Data  any
	sent  string // its encoded form, if that exists already
}

// Stream answers with server-sent events until follow returns, the client
// leaves or the server drains. follow may call send from several goroutines.
func (s *Server) Stream(w http.ResponseWriter, r *http.Request, follow func(ctx context.Context, send func(Event) error) error) {
	out := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	write := func(text string) error {
		out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return out.Flush()
	}
	if write(": tidemark\n\n") != nil {
		return
	}
	events, done := make(chan Event), make(chan error, 1)
	go func() {
		done <- follow(ctx, func(e Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var text string
		select {
		case e := <-events:
			var err error
			if text, err = e.text(); err != nil {
				text, _ = Event{Name: "problem", Data: request.Problem(err)}.text()
			}
		case <-beat.C:
			text = ": alive\n\n"
		case err := <-done:
			switch {
			case ctx.Err() != nil: // that is why it ended
				write(lastWord(ctx))
			case err != nil:
				request.Note(ctx, "error", err.Error())
				text, _ = Event{Name: "problem", Data: request.Problem(err)}.text()
				write(text)
			default:
				write("event: end\ndata: {}\n\n")
			}
			return
		case <-s.shutdown.Begun():
			write(comeBack)
			return
		case <-ctx.Done():
			write(lastWord(ctx))
			return
		}
		if write(text) != nil {
			return
		}
	}
}

// comeBack is for clients that should reconnect: to another server, or with
// their present rights.
const comeBack = "retry: 1000\nevent: bye\ndata: {}\n\n"

// lastWord is the last message of a stream whose context ended; "" for a
// client that left.
func lastWord(ctx context.Context) string {
	err := request.RefusedSince(ctx)
	switch {
	case errors.Is(context.Cause(ctx), request.ErrOtherRights):
		return comeBack
	case err != nil:
		text, _ := Event{Name: "problem", Data: request.Problem(err)}.text()
		return text
	}
	return ""
}

// text is the encoded form of an event: HTML unchanged, for pages that insert
// it, and anything else as JSON.
func (e Event) text() (string, error) {
	if e.sent != "" {
		return e.sent, nil
	}
	var data []byte
	if html, ok := e.Data.(template.HTML); ok {
		// Each line becomes a data line; the browser joins them again.
		data = []byte(strings.ReplaceAll(strings.ReplaceAll(string(html), "\r", ""), "\n", "\ndata: "))
	} else {
		var err error
		if data, err = json.Marshal(e.Data); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	switch {
	case e.Name == resetEvent:
		b.WriteString("id:\n") // the client begins again
	case e.Stamp != "":
		fmt.Fprintf(&b, "id: %d-%s\n", e.ID, e.Stamp)
	case e.ID != 0:
		fmt.Fprintf(&b, "id: %d\n", e.ID)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, "event: %s\n", e.Name)
	}
	fmt.Fprintf(&b, "data: %s\n\n", data)
	return b.String(), nil
}

// resetEvent says that what the client has is no longer so, and that all comes
// again.
const resetEvent = "reset"

// LastEvent is the id of the last event that the client saw, and its stamp, if it
// had one: its header, or ?after= for clients that cannot set one; 0 if there is
// none.
func LastEvent(r *http.Request) (id int64, stamp string, err error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, "", nil
	}
	number, stamp, _ := strings.Cut(text, "-")
	id, err = strconv.ParseInt(number, 10, 64)
	if err != nil || id < 0 {
		return 0, "", tidemark.Invalidf("Last-Event-ID %q: want a number, or the id of an event", text)
	}
	return id, stamp, nil
}
