package pgtest

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Cutter stands before a server and cuts each connection after some random
// count of bytes, in whichever direction that is used up first: inside a
// message, between a COMMIT and its answer, anywhere.
type Cutter struct {
	dir    string
	most   int64
	then   func()
	cuts   atomic.Int64
	server string
	closed chan struct{}
	wg     sync.WaitGroup
}

// CutAtRandom returns a Cutter before the server that ends with the test. A
// connection lives for less than most bytes, one way; then is called after each cut,
// unless it is nil.
func (c *Cluster) CutAtRandom(t testing.TB, most int64, then func()) *Cutter {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-proxy-")
	if err != nil {
		t.Fatal(err)
	}
	if then == nil {
		then = func() {}
	}
	p := &Cutter{dir: dir, most: most, then: then, server: c.Socket(), closed: make(chan struct{})}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		close(p.closed)
		l.Close()
		p.wg.Wait()
		os.RemoveAll(dir)
	})
	return p
}

// Cuts is how many connections were cut.
func (p *Cutter) Cuts() int64 { return p.cuts.Load() }

// Through returns the URL of a database behind the Cutter.
func (p *Cutter) Through(t testing.TB, direct string) string {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", p.dir)
	u.RawQuery = q.Encode()
	return u.String()
}

func (p *Cutter) serve(client net.Conn) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		client.Close()
		return
	}
	var once sync.Once
	end := func() { once.Do(func() { client.Close(); server.Close() }) }
	defer end()
	go func() { // a Cutter that is closed lets go of everybody
		<-p.closed
		end()
	}()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		if n, err := io.CopyN(to, from, rand.Int64N(p.most)); err == nil && n > 0 {
			p.cuts.Add(1)
			defer p.then()
		}
		end()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}
