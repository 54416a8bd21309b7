package postgres

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// crowd asks a gate on behalf of owners, who come in through came.
type crowd struct {
	g    *gate
	came chan byte
}

// ask has an owner ask, and returns when it is in or waits.
func (c *crowd) ask(ctx context.Context, of byte) {
	c.g.mu.Lock()
	before := c.g.asked
	c.g.mu.Unlock()
	go func() {
		if _, err := c.g.enter(ctx, who{user: id{of}}); err == nil {
			c.came <- of
		} else if errors.Is(err, context.Canceled) {
			c.came <- 0
		}
	}()
	for {
		c.g.mu.Lock()
		asked := c.g.asked > before
		c.g.mu.Unlock()
		if asked {
			return
		}
		runtime.Gosched()
	}
}

func TestThoseWhoWaitForAConnectionTakeTurnsByOwner(t *testing.T) {
	c := &crowd{newGate(4), make(chan byte, 100)}
	in := func(n int) (who []byte) {
		for range n {
			who = append(who, <-c.came)
		}
		return who
	}
	leave := func(of byte) byte {
		c.g.leave(who{user: id{of}})
		return <-c.came
	}
	ctx := t.Context()
	for range 20 { // one asks for much at once, and has a share of it
		c.ask(ctx, 'a')
	}
	if got := in(3); string(got) != "aaa" {
		t.Fatalf("in are %q", got)
	}
	c.ask(ctx, 'b') // what is left is for others
	if got := in(1); string(got) != "b" {
		t.Fatalf("in is %q, want the other one", got)
	}
	gone, cancel := context.WithCancel(ctx)
	c.ask(gone, 'd')
	c.ask(ctx, 'b')
	c.ask(ctx, 'c')
	cancel()
	if got := in(1); got[0] != 0 {
		t.Fatalf("who gave up came in: %q", got)
	}
	// Of seventeen who came before them, one of each owner goes first.
	var order []byte
	for _, of := range []byte("aaab") {
		order = append(order, leave(of))
	}
	if diff := cmp.Diff("abca", string(order)); diff != "" {
		t.Errorf("in which order they came in: %s", diff)
	}
	for len(c.g.by) > 0 {
		for of := range c.g.by {
			c.g.leave(of)
			break
		}
	}
	if left := in(20 + 3 - 8); len(left) != 15 {
		t.Errorf("%d came in at last", len(left))
	}
	if c.g.busy != 0 || len(c.g.by) != 0 || len(c.g.turns) != 0 {
		t.Errorf("something is left: %d in, %v, %v", c.g.busy, c.g.by, c.g.turns)
	}
}

func TestConnectionsAreDividedByWhatTheyAreFor(t *testing.T) {
	for most, want := range map[int][3]int{4: {4, 4, 4}, 6: {2, 2, 2}, 8: {4, 2, 2}, 16: {8, 4, 4}, 100: {50, 25, 25}} {
		g := newGates(most)
		if got := [3]int{g[toRead].most, g[toWrite].most, g[unawaited].most}; got != want {
			t.Errorf("%d connections: %v, want %v", most, got, want)
		}
		if g.of(Background(t.Context()), toRead) != g[unawaited] {
			t.Errorf("%d connections: what nobody waits for reads among those who do", most)
		}
	}
}
