package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

const overloaded = `{"error":{"message":"Overloaded","type":"overloaded_error","code":null}}`

func TestFaultThatMayPassIsAskedAgain(t *testing.T) {
	busy := `{"error":{"type":"rate_limit_exceeded","message":"slow down"}}`
	for name, c := range map[string]struct {
		faults []http.HandlerFunc
		least  time.Duration // of the first wait
		why    string
	}{
		"429 with retry-after":      {[]http.HandlerFunc{page(429, busy, "Retry-After", "7")}, 7 * time.Second, "slow down"},
		"429 with retry-after-ms":   {[]http.HandlerFunc{page(429, busy, "Retry-After-Ms", "2500")}, 2500 * time.Millisecond, "slow down"},
		"429 that asks for an hour": {[]http.HandlerFunc{page(429, busy, "Retry-After", "3600")}, 30 * time.Second, "slow down"},
		"529 three times":           {[]http.HandlerFunc{page(529, overloaded), page(529, overloaded), page(529, overloaded)}, 0, "529: Overloaded"},
		"408":                       {[]http.HandlerFunc{page(408, "")}, 0, "408"},
		"409":                       {[]http.HandlerFunc{page(409, "")}, 0, "409"},
		"500 with a proxy's page":   {[]http.HandlerFunc{page(502, "<html><h1>Bad\x1b[31m gateway</h1>")}, 0, "502: Bad[31m gateway"},
		"cut before the answer":     {[]http.HandlerFunc{cut}, 0, "connection was lost"},
		"cut in the answer":         {[]http.HandlerFunc{then(half(), cut)}, 0, "connection was lost"},
		"ended in the answer":       {[]http.HandlerFunc{half()}, 0, "connection was lost"},
		"ended in an event":         {[]http.HandlerFunc{then(half(), write("data: {\"choices\":["))}, 0, "connection was lost"},
		"empty answer":              {[]http.HandlerFunc{page(200, "")}, 0, "connection was lost"},
		"error event":               {[]http.HandlerFunc{then(half(), events(overloaded))}, 0, "529: Overloaded"},
		"error event of no type":    {[]http.HandlerFunc{then(half(), events(`{"error":"engine died"}`))}, 0, "500: engine died"},
		"error in a choice":         {[]http.HandlerFunc{events(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`)}, 0, "502: upstream"},
		"half an answer at once":    {[]http.HandlerFunc{page(200, `{"choices":[`, "Content-Length", "5000")}, 0, "connection was lost"},
		"silence before the answer": {[]http.HandlerFunc{hang}, 0, "no word for 1m0s"},
		"silence in the answer":     {[]http.HandlerFunc{then(half(), hang)}, 0, "no word for 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := client(t, Options{Retry: patient()}, append(c.faults, saying("hello"))...)
				h := hear(client.Stream(t.Context(), ask("hi")))
				if h.err != nil || h.text != "hello" || h.answer == nil || h.answer.Entry.Text() != "hello" {
					t.Fatalf("heard %+v", h)
				}
				if len(h.waits) != len(c.faults) || server.asked() != len(c.faults)+1 {
					t.Fatalf("%d waits and %d requests after %d faults", len(h.waits), server.asked(), len(c.faults))
				}
				w := h.waits[0]
				if w.For < max(c.least, time.Second/2) || w.For > 30*time.Second || w.Attempt != 1 {
					t.Errorf("waits %v after attempt %d, want at least %v", w.For, w.Attempt, c.least)
				}
				wantError(t, w.Why, nil, c.why)
				for _, b := range server.bodies[1:] {
					if b != server.bodies[0] {
						t.Error("another attempt sent another request")
					}
				}
			})
		})
	}
}

func TestFaultThatStaysIsAnError(t *testing.T) {
	tooLong := `{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"You sent 250000 tokens, please send fewer"}}`
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		cause error
		words []string
	}{
		"400":                  {page(400, `{"error":{"message":"no such field"}}`), nil, []string{"400", "no such field"}},
		"prompt too long":      {page(400, tooLong), model.ErrTooLong, []string{"250000 tokens"}},
		"413":                  {page(413, "{}"), model.ErrTooLong, nil},
		"401":                  {page(401, `{"error":{"message":"bad key sk-secret"}}`), tidemark.ErrDenied, []string{"bad key [key]"}},
		"403":                  {page(403, `{}`), tidemark.ErrDenied, nil},
		"404":                  {page(404, `{"error":{"message":"model: claude-x"}}`), tidemark.ErrNotFound, []string{"claude-x"}},
		"redirect":             {page(302, "", "Location", "http://elsewhere.test/"), nil, []string{"302"}},
		"a page":               {page(200, "<html><body>Log in to <b>WiFi</b></body></html>"), nil, []string{"instead of a stream", "Log in to WiFi"}},
		"nonsense":             {page(200, "hello, I am no model\n"), nil, []string{"something else", "I am no model"}},
		"half a JSON":          {then(half(), events(`{"choices": not`)), nil, []string{"makes no sense"}},
		"wrong types":          {events(`{"choices":7}`), nil, []string{"makes no sense"}},
		"bytes that are none":  {events("\xff\xfe"), nil, []string{"makes no sense"}},
		"nothing but the end":  {events("[DONE]"), nil, []string{"before it began"}},
		"another JSON":         {page(200, `{"hello":"world"}`), nil, []string{"without a choice"}},
		"a list":               {page(200, `["x"]`), nil, []string{"instead of a stream"}},
		"error under 200":      {page(200, `{"error":{"message":"bad key","code":401}}`), tidemark.ErrDenied, []string{"401: bad key"}},
		"llama.cpp too long":   {page(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), model.ErrTooLong, nil},
		"no money left":        {page(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), nil, []string{"429: You exceeded"}},
		"detail":               {page(422, `{"detail":"nope"}`), nil, []string{"nope"}},
		"error event of ours":  {then(half(), events(tooLong)), model.ErrTooLong, []string{"400"}},
		"told not to retry":    {page(500, "{}", "X-Should-Retry", "false"), nil, []string{"500"}},
		"control characters":   {page(400, "{\"error\":{\"message\":\"a\\u001b]0;title\\u0007b\\u202e\"}}"), nil, []string{"a]0;titleb"}},
		"an error without end": {page(400, strings.Repeat("no ", 20<<20)), nil, []string{"no no"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := client(t, Options{Key: "sk-secret", Retry: patient()}, c.fault)
				h := hear(client.Stream(t.Context(), ask("hi")))
				wantError(t, h.err, c.cause, c.words...)
				if len(h.waits) > 0 || server.asked() != 1 || h.answer != nil {
					t.Errorf("%d waits, %d requests, answer %v", len(h.waits), server.asked(), h.answer)
				}
				if len(h.err.Error()) > 1000 {
					t.Errorf("an error of %d bytes", len(h.err.Error()))
				}
			})
		})
	}
}

func TestAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := client(t, Options{Name: "local", Retry: patient()}, page(529, overloaded))
		h := hear(client.Stream(t.Context(), ask("hi")))
		wantError(t, h.err, nil, "local answered 529: Overloaded")
		if server.asked() != 4 || len(h.waits) != 3 {
			t.Errorf("%d requests, %d waits", server.asked(), len(h.waits))
		}
	})
}

func TestEndlessAnswerIsCutOff(t *testing.T) {
	forever := func(piece string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
			}
		}
	}
	long := strings.Repeat("x", 64<<10)
	delta := func(d string) string { return `data: {"choices":[{"index":0,"delta":` + d + "}]}\n\n" }
	for name, h := range map[string]http.HandlerFunc{
		"text":      forever(delta(`{"content":"` + long + `"}`)),
		"thinking":  forever(delta(`{"reasoning":"` + long + `"}`)),
		"arguments": forever(delta(`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"` + long + `"}}]}`)),
		"calls":     forever(strings.Repeat(delta(`{"tool_calls":[{"function":{"name":"x"}}]}`), 100)),
		"one line":  forever(long),
		"one event": forever("data: " + long + "\n"),
		"at once":   then(write(`{"x":"`), forever(long)),
	} {
		t.Run(name, func(t *testing.T) {
			client, server := client(t, Options{Retry: patient()}, h)
			var err error
			for _, err = range client.Stream(t.Context(), ask("hi")) {
			}
			wantError(t, err, model.ErrEndless)
			if server.asked() != 1 {
				t.Errorf("asked %d times", server.asked())
			}
		})
	}
}

func TestCancellingEndsAtOnce(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"while it waits for the next attempt": page(429, "{}", "Retry-After", "20"),
		"before the answer":                   hang,
		"in the answer":                       then(half(), hang),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := client(t, Options{Retry: patient()}, h)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				got := hear(client.Stream(ctx, ask("hi")))
				if !errors.Is(got.err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
					t.Errorf("%v after %v", got.err, time.Since(begin))
				}
			})
		})
	}
}

func TestListenerWhoLeavesEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		client, _ := client(t, Options{}, then(half(), hang, func(http.ResponseWriter, *http.Request) { close(gone) }))
		for e := range client.Stream(t.Context(), ask("hi")) {
			if e.Text == "void" {
				break
			}
		}
		<-gone
	})
}

func TestSlowListenerIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := client(t, Options{Retry: patient()}, saying("hello"))
		for e, err := range client.Stream(t.Context(), ask("hi")) {
			if err != nil || e.Wait != nil {
				t.Fatalf("event %+v, error %v", e, err)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestAddressThatIsNoneIsToldWithoutAsking(t *testing.T) {
	for _, base := range []string{"localhost:8080", "ftp://x", "http://", "%"} {
		h := hear(New(Options{BaseURL: base}).Stream(t.Context(), ask("hi")))
		if !errors.Is(h.err, tidemark.ErrInvalid) {
			t.Errorf("base %q: %v", base, h.err)
		}
	}
}
