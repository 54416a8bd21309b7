package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`

func TestFaultThatMayPassIsAskedAgain(t *testing.T) {
	busy := `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`
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
		"ended in an event":         {[]http.HandlerFunc{then(half(), write("data: {\"type\":\"mess"))}, 0, "connection was lost"},
		"empty answer":              {[]http.HandlerFunc{page(200, "")}, 0, "connection was lost"},
		"error event":               {[]http.HandlerFunc{then(half(), events("error "+overloaded))}, 0, "529: Overloaded"},
		"error event of no type":    {[]http.HandlerFunc{then(half(), events(`error {"type":"error"}`))}, 0, "500"},
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
	tooLong := `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 250000 tokens > 200000 maximum"}}`
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
		"half a JSON":          {then(half(), events(`x {"type": not`)), nil, []string{"makes no sense"}},
		"wrong types":          {events(`x {"type":7}`), nil, []string{"makes no sense"}},
		"bytes that are none":  {events("x \xff\xfe"), nil, []string{"makes no sense"}},
		"no stream":            {page(200, `{"type":"message","content":[]}`), nil, []string{"instead of a stream"}},
		"error event of ours":  {then(half(), events("error "+tooLong)), model.ErrTooLong, []string{"400"}},
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
		client, server := client(t, Options{Retry: patient()}, page(529, overloaded))
		h := hear(client.Stream(t.Context(), ask("hi")))
		wantError(t, h.err, nil, "anthropic answered 529: Overloaded")
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
	delta := func(kind, field string) string {
		return fmt.Sprintf("data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":%q,%q:%q}}\n\n", kind, field, long)
	}
	start := func(block string) http.HandlerFunc {
		return events(`s {"type":"content_block_start","index":0,"content_block":` + block + `}`)
	}
	for name, h := range map[string]http.HandlerFunc{
		"text":              then(start(`{"type":"text"}`), forever(delta("text_delta", "text"))),
		"thinking":          then(start(`{"type":"thinking"}`), forever(delta("thinking_delta", "thinking"))),
		"signature":         then(start(`{"type":"thinking"}`), forever(delta("signature_delta", "signature"))),
		"arguments":         then(start(`{"type":"tool_use","id":"a","name":"b"}`), forever(delta("input_json_delta", "partial_json"))),
		"blocks":            forever(strings.Repeat("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n", 100)),
		"one line":          forever(long),
		"one event":         forever("data: " + long + "\n"),
		"redacted thinking": forever("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"" + long + "\"}}\n\n"),
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
