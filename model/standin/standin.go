// Package standin is a stand-in for a model, which tests of programs talk to
// over HTTP as they would to a real one, and finds the real agents that it is
// put before. It never asks a model. Only tests and the workshop use it.
//
//	url := standin.Start(t)
package standin

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Start starts a stand-in for a model, which ends with the test, and returns
// its address. It speaks the protocols of Anthropic (…/messages), of OpenAI
// (…/chat/completions, …/responses) and of Google (…:generateContent,
// …:streamGenerateContent), accepts any key and any model, and keeps no
// conversation: the user's last message says what to answer, and the number of
// answers since then says which answer is next. So resuming, branching and
// asking again work as with a real model.
//
// What to answer is given in marks, [[fake …]]:
//
//	say TEXT                 an answer; the next mark is the next answer
//	think TEXT               thoughts before the next answer
//	call NAME {…}            a call of a tool; and call NAME {…}: one more in the same answer
//	op bash {"cmd":"…"}      a call of whatever runs commands among the tools that are offered
//	op bash COMMAND          the same, for agents that quote what they are told
//	error=429 times=2        fails so often, or always without times; retry_after=SECONDS, midstream
//	drop, hang, garbage, html  cuts the answer off, says nothing, says nonsense, answers as a proxy would
//	slow=MS long=BYTES stop=max_tokens in=N out=N cache_read=N cache_write=N
//
// It has one model, Model, and tells about it as each kind of server does: in the
// list of models, and as Ollama and llama.cpp do beside it.
//
// Without a mark it repeats what it heard; asked "What have I said so far?" it
// lists everything that it was sent.
func Start(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// Handler is what Start serves, for programs of the workshop.
func Handler() http.Handler { return &server{failed: map[string]int{}} }

type server struct {
	mu     sync.Mutex
	failed map[string]int // how often, by request
	asked  int
}

// heard is the content of a request, whatever its protocol.
type heard struct {
	wire    wire
	model   string
	stream  bool
	said    []string // by the user
	answers int      // since the last of them
	tools   []offered
	bytes   int
}

// offered is a tool that may be called.
type offered struct {
	name, space string
	schema      schema
}

type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return
	}
	var h heard
	switch {
	case tellsOfModels(w, r):
		return
	case r.Method != http.MethodPost:
		http.NotFound(w, r)
		return
	case strings.HasSuffix(r.URL.Path, "/messages/count_tokens"):
		fmt.Fprintf(w, `{"input_tokens":%d}`, len(b)/4)
		return
	case strings.HasSuffix(r.URL.Path, "/messages"):
		h, err = hearMessages(b)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		h, err = hearChat(b)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		h, err = hearResponses(b)
	case geminiMethod(r.URL.Path) == "countTokens":
		fmt.Fprintf(w, `{"totalTokens":%d}`, len(b)/4)
		return
	case strings.HasSuffix(geminiMethod(r.URL.Path), "enerateContent"):
		h, err = hearGemini(r.URL, b)
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.bytes = len(b)
	s.mu.Lock()
	s.asked++
	n := s.asked
	s.mu.Unlock()
	s.answer(w, r, h, n)
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, h heard, n int) {
	prompt := ""
	if len(h.said) > 0 {
		prompt = h.said[len(h.said)-1]
	}
	p := parse(prompt)
	a := p.answer(h)
	f := p.fault
	if f.happens() && f.times > 0 {
		s.mu.Lock()
		key := h.wire.name() + h.model + prompt
		s.failed[key]++
		if s.failed[key] > f.times {
			f = fault{}
		}
		s.mu.Unlock()
	}
	switch {
	case f.hang:
		<-r.Context().Done()
	case f.garbage:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"half of it\": \n\n")
	case f.html:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.status)
		fmt.Fprintf(w, "<html><body>%d: fakeproxy cannot reach it</body></html>\n", f.status)
	case f.status != 0 && !f.midstream:
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		_, _ = w.Write(text(h.wire.failure(f.status)))
	case !h.stream:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text(h.wire.whole(h, a, n)))
	default:
		send(w, r, h.wire, h.wire.events(h, a, n), f, p.slow)
	}
}

// event is a piece of a stream.
type event struct {
	name string
	data any // a string is sent as it is
}

// send plays a stream, or half of it.
func send(w http.ResponseWriter, r *http.Request, by wire, all []event, f fault, slow time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	put := func(e event) {
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		if s, ok := e.data.(string); ok {
			fmt.Fprintf(w, "data: %s\n\n", s)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", text(e.data))
	}
	for i, e := range all {
		if i == len(all)/2 && (f.midstream || f.drop) {
			flush()
			if f.drop {
				panic(http.ErrAbortHandler)
			}
			put(by.late(f.status))
			return
		}
		if slow > 0 {
			flush()
			select {
			case <-time.After(slow):
			case <-r.Context().Done():
				return
			}
		}
		put(e)
	}
}

func text(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // our own values
	}
	return bytes.TrimSpace(b.Bytes())
}

// pieces splits a text for a stream, never within a character.
func pieces(s string) (all []string) {
	for part := range slices.Chunk([]rune(s), 40) {
		all = append(all, string(part))
	}
	return all
}

// calledFor makes a call of a tool that runs commands.
func (h heard) calledFor(cmd string) (call, bool) {
	for _, name := range []string{"bash", "exec_command", "shell_command", "shell", "run_shell_command"} {
		for _, o := range h.tools {
			if !strings.EqualFold(o.name, name) {
				continue
			}
			in := map[string]any{}
			for _, p := range o.schema.Required {
				in[p] = o.schema.Properties[p].least()
			}
			for _, p := range []string{"command", "cmd"} {
				switch s, ok := o.schema.Properties[p]; {
				case ok && s.Type == "array":
					in[p] = []string{"bash", "-lc", cmd}
				case ok:
					in[p] = cmd
				}
			}
			return call{o.name, o.space, text(in)}, true
		}
	}
	return call{}, false
}

// least is a small value that a schema allows.
func (s schema) least() any {
	switch s.Type {
	case "integer", "number":
		return 1
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	}
	return "x"
}
