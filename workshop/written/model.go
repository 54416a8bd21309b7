package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

// listener is the model that tools are told to ask: the stand-in, which keeps what
// it was sent.
type listener struct {
	*httptest.Server
	mu   sync.Mutex
	sent [][]byte
}

func startModel() *listener {
	l := &listener{}
	answers := standin.Handler()
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.sent = append(l.sent, body)
		l.mu.Unlock()
		if strings.Contains(r.URL.Path, ":") {
			answerAsGemini(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answers.ServeHTTP(w, r)
	}))
	return l
}

// answerAsGemini answers in the form of Google's interface, which the stand-in does
// not speak.
func answerAsGemini(w http.ResponseWriter, r *http.Request) {
	const answer = `{"candidates":[{"content":{"role":"model","parts":[{"text":"You said much."}]},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12},"totalTokens":9,"modelVersion":"m"}`
	if strings.Contains(r.URL.Path, ":stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: "+answer+"\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer)
}

// asked returns the longest request in which the question is: tools also ask for
// titles.
func (l *listener) asked() (longest []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.sent {
		if bytes.Contains(b, []byte(question)) && len(b) > len(longest) {
			longest = b
		}
	}
	return longest
}

// flat lists the texts of a request, and the inputs of calls in one form.
func flat(all []string, key string, v any) []string {
	switch v := v.(type) {
	case string:
		if key == "arguments" {
			return append(all, string(convert.Canonical([]byte(v))))
		}
		return append(all, v)
	case []any:
		for _, one := range v {
			all = flat(all, key, one)
		}
	case map[string]any:
		if key == "args" || key == "input" {
			if b, err := convert.Encode(v); err == nil {
				return append(all, string(b))
			}
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "tools" && k != "systemInstruction" {
				all = flat(all, k, v[k])
			}
		}
	case json.Number:
		return append(all, v.String())
	}
	return all
}
