package postgres

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Database has a share of its connections for reading, one for writing, and one for
// what nobody waits for: the search index, and imports. So an import or a crowd of
// readers never keeps anybody from writing. Within a share those who wait take turns,
// owner by owner, and nobody has all of it: who sends a thousand requests at once waits
// for their own, and others for one of each.

// class is what a connection is needed for.
type class int

const (
	toRead class = iota
	toWrite
	unawaited
)

// smallPool is how many connections there have to be at least to be divided.
const smallPool = 6

type backgroundKey struct{}

// Background returns a context for work that nobody waits for: it has a share of the
// connections of its own.
func Background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

func isBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// gates are those of all classes. In a small pool they are one.
type gates [3]*gate

// newGates divides connections: a quarter for what is behind, a quarter for writing,
// the rest for reading. A group of one principal writes in two transactions at most.
func newGates(most int) (g gates) {
	if most < smallPool {
		one := newGate(most)
		return gates{one, one, one}
	}
	quarter := max(2, most/4)
	return gates{toRead: newGate(most - 2*quarter), toWrite: newGate(quarter), unawaited: newGate(quarter)}
}

// of returns the gate for a class, or that of what is behind.
func (g *gates) of(ctx context.Context, c class) *gate {
	if isBackground(ctx) {
		c = unawaited
	}
	return g[c]
}

// gate lets so many in at once, and of each owner not all of them while there is room
// for more than one. Those who wait come in turn by owner.
type gate struct {
	most, each int

	mu    sync.Mutex
	busy  int
	by    map[who]int             // how many of each owner are in
	waits map[who][]chan struct{} // in the order in which they came
	turns []who                   // owners who wait, the next one first

	asked, waited int64
	waiting       time.Duration
}

func newGate(most int) *gate {
	return &gate{most: most, each: max(1, most-max(1, most/4)), by: make(map[who]int), waits: make(map[who][]chan struct{})}
}

// enter returns when the owner may use a connection, or with the error of ctx. leave
// has to be called once.
func (g *gate) enter(ctx context.Context, of who) (leave func(), err error) {
	leave = func() { g.leave(of) }
	g.mu.Lock()
	g.asked++
	if g.busy < g.most && g.by[of] < g.each && len(g.waits[of]) == 0 {
		g.admit(of)
		g.mu.Unlock()
		return leave, nil
	}
	mine := make(chan struct{})
	if len(g.waits[of]) == 0 {
		g.turns = append(g.turns, of)
	}
	g.waits[of] = append(g.waits[of], mine)
	g.waited++
	began := time.Now()
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.waiting += time.Since(began)
		g.mu.Unlock()
	}()
	select {
	case <-mine:
		return leave, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waits[of], mine); i >= 0 {
		g.dequeue(of, i)
		return nil, ctx.Err()
	}
	g.free(of) // it was let in meanwhile
	return nil, ctx.Err()
}

// admit counts somebody in. The caller has g.mu.
func (g *gate) admit(of who) {
	g.busy++
	g.by[of]++
}

// dequeue takes one who waits out of the queue. The caller has g.mu.
func (g *gate) dequeue(of who, i int) {
	if left := slices.Delete(g.waits[of], i, i+1); len(left) > 0 {
		g.waits[of] = left
		return
	}
	delete(g.waits, of)
	g.turns = slices.DeleteFunc(g.turns, func(w who) bool { return w == of })
}

func (g *gate) leave(of who) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(of)
}

// free counts somebody out, and lets those in whose turn it is. The caller has g.mu.
func (g *gate) free(of who) {
	g.busy--
	if g.by[of]--; g.by[of] == 0 {
		delete(g.by, of)
	}
	for g.busy < g.most {
		i := slices.IndexFunc(g.turns, func(w who) bool { return g.by[w] < g.each })
		if i < 0 {
			return
		}
		next := g.turns[i]
		mine := g.waits[next][0]
		g.dequeue(next, 0)
		if i = slices.Index(g.turns, next); i >= 0 { // the others come first now
			g.turns = append(slices.Delete(g.turns, i, i+1), next)
		}
		g.admit(next)
		close(mine)
	}
}

// use adds how the gates were used to what is known of the pool.
func (g *gates) use(p *Pool) {
	for i, one := range g {
		if slices.Contains(g[:i], one) {
			continue
		}
		one.mu.Lock()
		p.Waited += one.waited
		p.Waiting += one.waiting
		one.mu.Unlock()
	}
}
