package request

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// The callers of these tests: two users of a tenant, and one of another.
var (
	jo    = Caller{Principal: tidemark.TenantOf("a", "jo")}
	kim   = Caller{Principal: tidemark.TenantOf("a", "kim")}
	other = Caller{Principal: tidemark.TenantOf("b", "jo")}
)

func TestPlacesOfOneUserAreNotThoseOfTheOthers(t *testing.T) {
	l := NewQuotas(Limits{Concurrent: 4, Streams: 2}.WithDefaults(), nil)
	for _, stream := range []bool{false, true} {
		var leaves []func()
		for {
			leave, err := l.Enter(t.Context(), jo, stream)
			if err != nil {
				break
			}
			leaves = append(leaves, leave)
		}
		leave, err := l.Enter(t.Context(), kim, stream)
		if err != nil {
			t.Fatalf("stream %t: after %d of somebody else: %v", stream, len(leaves), err)
		}
		leave()
		for _, leave := range leaves {
			leave()
		}
		for i := range leaves { // nothing was lost to those who were turned away
			if _, err := l.Enter(t.Context(), jo, stream); err != nil {
				t.Errorf("stream %t: place %d is gone", stream, i)
			}
		}
	}
}

func TestMemoryIsHeldUntilARequestIsOverAndByEachOnlyTheirShare(t *testing.T) {
	l := NewQuotas(Limits{Memory: 1000}.WithDefaults(), nil)
	read := func(h *Holding, n int) error {
		ctx := WithHolding(t.Context(), h)
		_, err := io.Copy(io.Discard, Weighed(ctx, strings.NewReader(strings.Repeat("x", n)), weights{letter: 1}))
		return err
	}
	status := func(err error) int {
		var p *api.Problem
		if errors.As(err, &p) {
			return p.Status
		}
		return 0
	}
	first, second := l.Holding(t.Context(), jo), l.Holding(t.Context(), jo)
	for _, c := range []struct {
		what string
		h    *Holding
		n    int
		want int
	}{
		{"more than one request may", l.Holding(t.Context(), jo), 501, 413}, {"half of all", first, 400, 0}, {"the rest of the user", second, 101, 429},
		{"another user", l.Holding(t.Context(), kim), 350, 0}, {"the rest of the tenant", l.Holding(t.Context(), kim), 50, 429}, {"another tenant", l.Holding(t.Context(), other), 250, 0}, {"the rest of all", l.Holding(t.Context(), other), 50, 429},
	} {
		if err := read(c.h, c.n); status(err) != c.want {
			t.Errorf("%s: %v, want %d", c.what, err, c.want)
		}
	}
	first.Release()
	if err := read(second, 101); err != nil {
		t.Errorf("after the first is over: %v", err)
	}
}
