package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark/api"
)

func TestOneUserDoesNotLockOutTheOthersOfTheTenant(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits = Limits{Rate: 0.001, Burst: 4} })
	for range 2 {
		s.call(t, "writer-a", "GET", "/api/v1/nothing", nil).want(t, 404)
	}
	for range 10 {
		s.call(t, "writer-a", "GET", "/api/v1/nothing", nil).want(t, 429).problem(t)
	}
	s.call(t, "other-a", "GET", "/api/v1/nothing", nil).want(t, 404)

	l := newCallerLimits(Limits{Concurrent: 4, Streams: 2}.withDefaults())
	jo, ada := people()["writer-a"], people()["other-a"]
	for _, stream := range []bool{false, true} {
		var leaves []func()
		for {
			leave, err := l.enter(jo, stream)
			if err != nil {
				break
			}
			leaves = append(leaves, leave)
		}
		leave, err := l.enter(ada, stream)
		if err != nil {
			t.Fatalf("stream %t: after %d of somebody else: %v", stream, len(leaves), err)
		}
		leave()
		for _, leave := range leaves {
			leave()
		}
		for i := range leaves { // nothing was lost to those who were turned away
			if _, err := l.enter(jo, stream); err != nil {
				t.Errorf("stream %t: place %d is gone", stream, i)
			}
		}
	}
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

func TestMemoryIsHeldUntilARequestIsOverAndByEachOnlyTheirShare(t *testing.T) {
	l := newCallerLimits(Limits{Memory: 1000}.withDefaults())
	jo, ada, other := people()["writer-a"], people()["other-a"], people()["writer-b"]
	read := func(h *holding, n int) error {
		ctx := context.WithValue(t.Context(), holdingKey{}, h)
		_, err := io.Copy(io.Discard, weighed(ctx, strings.NewReader(strings.Repeat("x", n)), weights{letter: 1}))
		return err
	}
	status := func(err error) int {
		var p *api.Problem
		if errors.As(err, &p) {
			return p.Status
		}
		return 0
	}
	first, second := l.holding(jo), l.holding(jo)
	for _, c := range []struct {
		what string
		h    *holding
		n    int
		want int
	}{
		{"more than one request may", l.holding(jo), 501, 413}, {"half of all", first, 400, 0}, {"the rest of the user", second, 101, 429},
		{"another user", l.holding(ada), 350, 0}, {"the rest of the tenant", l.holding(ada), 50, 429}, {"another tenant", l.holding(other), 250, 0}, {"the rest of all", l.holding(other), 50, 429},
	} {
		if err := read(c.h, c.n); status(err) != c.want {
			t.Errorf("%s: %v, want %d", c.what, err, c.want)
		}
	}
	first.release()
	if err := read(second, 101); err != nil {
		t.Errorf("after the first is over: %v", err)
	}
}
