package server

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark/server/request"
)

func TestOneUserDoesNotLockOutTheOthersOfTheTenant(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits = request.Limits{Rate: 0.001, Burst: 4} })
	for range 2 {
		s.call(t, "writer-a", "GET", "/api/v1/nothing", nil).want(t, 404)
	}
	for range 10 {
		s.call(t, "writer-a", "GET", "/api/v1/nothing", nil).want(t, 429).problem(t)
	}
	s.call(t, "other-a", "GET", "/api/v1/nothing", nil).want(t, 404)
}

// The bodies are as large as a body may be, and each part of them becomes as
// much as it can.
func TestABodyThatWouldTakeTooMuchMemoryIsRefusedBeforeItIsDecoded(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits.Memory = 64 << 20 })
	path := newSession(t, s, wA, "large") + "/entries"
	for name, body := range map[string]string{
		"empty entries":  `{"entries":[` + strings.Repeat("{},", 2<<20) + `{}]}`,
		"empty blocks":   `{"entries":[{"kind":"message","blocks":[` + strings.Repeat("{},", 2<<20) + `{}]}]}`,
		"numbers":        `{"entries":[{"extra":[` + strings.Repeat("1,", 3<<20) + `1]}]}`,
		"a quote before": `{"\"":[` + strings.Repeat("{},", 2<<20) + `{}]}`,
	} {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if a := s.call(t, "writer-a", "POST", path, body); a.Status != http.StatusRequestEntityTooLarge && a.Status != http.StatusTooManyRequests {
					t.Errorf("%s: %d %.200s", name, a.Status, a.Body)
				}
			})
		}
		wg.Wait()
	}
	// All of it was given back, and what is only long is no more than it is.
	long := `{"entries":[{"role":"user","content":"` + strings.Repeat("{,[", 2<<20) + `"}]}`
	s.call(t, "writer-a", "POST", path, long).want(t, 201)
}
