package placetest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Cutter stands between machines and a place, and cuts their connections.
type Cutter struct {
	Addr string

	left    atomic.Int64 // bytes that still pass; below 0: all do
	refused atomic.Int64 // connections that nobody answers
}

// Cut listens in front of the place at an address, HOST:PORT, until the test ends.
func Cut(t testing.TB, addr string) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cutter{Addr: l.Addr().String()}
	c.left.Store(-1)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			if c.refused.Add(-1) >= 0 {
				from.Close()
				continue
			}
			running.Go(func() { c.carry(from, addr) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return c
}

// After lets so many bytes pass, either way, and then cuts the connection over which
// the next ones come. So many connections after it are not answered.
func (c *Cutter) After(bytes, refused int64) {
	c.refused.Store(refused)
	c.left.Store(bytes)
}

// Heal lets everything pass.
func (c *Cutter) Heal() { c.After(-1, 0) }

// passes reports whether so many bytes may pass.
func (c *Cutter) passes(n int) bool {
	for {
		left := c.left.Load()
		if left < 0 {
			return true
		}
		rest := left - int64(n)
		if c.left.CompareAndSwap(left, max(rest, -1)) {
			return rest >= 0
		}
	}
}

func (c *Cutter) carry(from net.Conn, addr string) {
	to, err := net.Dial("tcp", addr)
	if err != nil {
		from.Close()
		return
	}
	copyUntilCut := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		for buffer := make([]byte, 32<<10); ; {
			n, err := from.Read(buffer)
			if n > 0 && !c.passes(n) {
				return
			}
			if _, wrong := to.Write(buffer[:n]); err != nil || wrong != nil {
				return
			}
		}
	}
	var both sync.WaitGroup
	both.Go(func() { copyUntilCut(to, from) })
	both.Go(func() { copyUntilCut(from, to) })
	both.Wait()
}
