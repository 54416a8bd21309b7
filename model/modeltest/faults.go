package modeltest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// Passing are faults that a retry cures, one after the other.
type Passing struct {
	Faults []http.HandlerFunc
	Least  time.Duration // of the first wait
	Why    string        // what the first wait says
}

func askedAgain(t *testing.T, p Provider) {
	cases := map[string]Passing{
		"429 with retry-after":      {[]http.HandlerFunc{Page(429, p.Busy, "Retry-After", "7")}, 7 * time.Second, "slow down"},
		"429 with retry-after-ms":   {[]http.HandlerFunc{Page(429, p.Busy, "Retry-After-Ms", "2500")}, 2500 * time.Millisecond, "slow down"},
		"429 that asks for an hour": {[]http.HandlerFunc{Page(429, p.Busy, "Retry-After", "3600")}, 30 * time.Second, "slow down"},
		"529 three times":           {[]http.HandlerFunc{Page(529, p.Overloaded), Page(529, p.Overloaded), Page(529, p.Overloaded)}, 0, "529: Overloaded"},
		"408":                       {[]http.HandlerFunc{Page(408, "")}, 0, "408"},
		"409":                       {[]http.HandlerFunc{Page(409, "")}, 0, "409"},
		"500 with a proxy's page":   {[]http.HandlerFunc{Page(502, "<html><h1>Bad\x1b[31m gateway</h1>")}, 0, "502: Bad[31m gateway"},
		"cut before the answer":     {[]http.HandlerFunc{Cut}, 0, "connection was lost"},
		"cut in the answer":         {[]http.HandlerFunc{Then(p.Half, Cut)}, 0, "connection was lost"},
		"ended in the answer":       {[]http.HandlerFunc{p.Half}, 0, "connection was lost"},
		"empty answer":              {[]http.HandlerFunc{Page(200, "")}, 0, "connection was lost"},
		"silence before the answer": {[]http.HandlerFunc{Hang}, 0, "no word for 1m0s"},
		"silence in the answer":     {[]http.HandlerFunc{Then(p.Half, Hang)}, 0, "no word for 1m0s"},
	}
	maps.Copy(cases, p.Passing)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := p.client(t, Dial{Retry: patient()}, append(slices.Clone(c.Faults), p.Saying("hello"))...)
				h := Collect(client.Stream(t.Context(), p.ask("hi")))
				if h.Err != nil || h.Text != "hello" || h.Answer == nil || h.Answer.Entry.Text() != "hello" {
					t.Fatalf("heard %+v", h)
				}
				if len(h.Waits) != len(c.Faults) || server.Asked() != len(c.Faults)+1 {
					t.Fatalf("%d waits and %d requests after %d faults", len(h.Waits), server.Asked(), len(c.Faults))
				}
				w := h.Waits[0]
				if w.For < max(c.Least, time.Second/2) || w.For > 30*time.Second || w.Attempt != 1 {
					t.Errorf("waits %v after attempt %d, want at least %v", w.For, w.Attempt, c.Least)
				}
				WantError(t, w.Why, nil, c.Why)
				for _, b := range server.Bodies[1:] {
					if b != server.Bodies[0] {
						t.Error("another attempt sent another request")
					}
				}
			})
		})
	}
}

// Lasting is a fault that no retry cures.
type Lasting struct {
	Fault http.HandlerFunc
	Cause error    // what the error answers to, nil: nothing in particular
	Words []string // what it says
}

func refused(t *testing.T, p Provider) {
	cases := map[string]Lasting{
		"400":                  {Page(400, `{"error":{"message":"no such field"}}`), nil, []string{"400", "no such field"}},
		"prompt too long":      {Page(400, p.TooLong), model.ErrTooLong, []string{"250000 tokens"}},
		"413":                  {Page(413, "{}"), model.ErrTooLong, nil},
		"401":                  {Page(401, `{"error":{"message":"bad key sk-secret"}}`), tidemark.ErrDenied, []string{"bad key [key]"}},
		"403":                  {Page(403, `{}`), tidemark.ErrDenied, nil},
		"404":                  {Page(404, `{"error":{"message":"model: of-old"}}`), tidemark.ErrNotFound, []string{"of-old"}},
		"redirect":             {Page(302, "", "Location", "http://elsewhere.test/"), nil, []string{"302"}},
		"a page":               {Page(200, "<html><body>Log in to <b>WiFi</b></body></html>"), nil, []string{"instead of a stream", "Log in to WiFi"}},
		"nonsense":             {Page(200, "hello, I am no model\n"), nil, []string{"something else", "I am no model"}},
		"told not to retry":    {Page(500, "{}", "X-Should-Retry", "false"), nil, []string{"500"}},
		"control characters":   {Page(400, "{\"error\":{\"message\":\"a\\u001b]0;title\\u0007b\\u202e\"}}"), nil, []string{"a]0;titleb"}},
		"an error without end": {Page(400, strings.Repeat("no ", 20<<20)), nil, []string{"no no"}},
	}
	maps.Copy(cases, p.Lasting)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := p.client(t, Dial{Key: "sk-secret", Retry: patient()}, c.Fault)
				h := Collect(client.Stream(t.Context(), p.ask("hi")))
				WantError(t, h.Err, c.Cause, c.Words...)
				if len(h.Waits) > 0 || server.Asked() != 1 || h.Answer != nil {
					t.Errorf("%d waits, %d requests, answer %v", len(h.Waits), server.Asked(), h.Answer)
				}
				if len(h.Err.Error()) > 1000 {
					t.Errorf("an error of %d bytes", len(h.Err.Error()))
				}
			})
		})
	}
}

func attemptsEnd(t *testing.T, p Provider) {
	synctest.Test(t, func(t *testing.T) {
		client, server := p.client(t, Dial{Retry: patient()}, Page(529, p.Overloaded))
		h := Collect(client.Stream(t.Context(), p.ask("hi")))
		WantError(t, h.Err, nil, p.Name+" answered 529: Overloaded")
		if server.Asked() != 4 || len(h.Waits) != 3 {
			t.Errorf("%d requests, %d waits", server.Asked(), len(h.Waits))
		}
	})
}

func cutOff(t *testing.T, p Provider) {
	long := strings.Repeat("x", 64<<10)
	cases := map[string]http.HandlerFunc{"one line": Forever(long), "one event": Forever("data: " + long + "\n")}
	maps.Copy(cases, p.Endless)
	for name, h := range cases {
		t.Run(name, func(t *testing.T) {
			client, server := p.client(t, Dial{Retry: patient()}, h)
			var err error
			for _, err = range client.Stream(t.Context(), p.ask("hi")) {
			}
			WantError(t, err, model.ErrEndless)
			if server.Asked() != 1 {
				t.Errorf("asked %d times", server.Asked())
			}
		})
	}
}

func cancelled(t *testing.T, p Provider) {
	for name, h := range map[string]http.HandlerFunc{
		"while it waits for the next attempt": Page(429, "{}", "Retry-After", "20"),
		"before the answer":                   Hang,
		"in the answer":                       Then(p.Half, Hang),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := p.client(t, Dial{Retry: patient()}, h)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				got := Collect(client.Stream(ctx, p.ask("hi")))
				if !errors.Is(got.Err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
					t.Errorf("%v after %v", got.Err, time.Since(begin))
				}
			})
		})
	}
}

func left(t *testing.T, p Provider) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		client, _ := p.client(t, Dial{}, Then(p.Half, Hang, func(http.ResponseWriter, *http.Request) { close(gone) }))
		for e := range client.Stream(t.Context(), p.ask("hi")) {
			if e.Text == "void" {
				break
			}
		}
		<-gone
	})
}

func slow(t *testing.T, p Provider) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := p.client(t, Dial{Retry: patient()}, p.Saying("hello"))
		for e, err := range client.Stream(t.Context(), p.ask("hi")) {
			if err != nil || e.Wait != nil {
				t.Fatalf("event %+v, error %v", e, err)
			}
			time.Sleep(time.Hour)
		}
	})
}

func addresses(t *testing.T, p Provider) {
	for _, base := range []string{"localhost:8080", "ftp://x", "http://", "%"} {
		h := Collect(p.New(Dial{BaseURL: base}).Stream(t.Context(), p.ask("hi")))
		if !errors.Is(h.Err, tidemark.ErrInvalid) {
			t.Errorf("base %q: %v", base, h.Err)
		}
	}
}
