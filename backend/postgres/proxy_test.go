//go:build unix

package postgres_test

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

// proxy stands before a server and cuts each connection after some random
// count of bytes, in whichever direction that is used up first: inside a
// message, between a COMMIT and its answer, anywhere.
type proxy struct {
	dir    string
	cuts   atomic.Int64
	server string
	closed chan struct{}
	wg     sync.WaitGroup
}

// longest is how many bytes a connection may live for, one way. It is some
// dozens of batches.
const longest = 40_000

func cutAtRandom(t *testing.T, server string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-proxy-")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{dir: dir, server: server, closed: make(chan struct{})}
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

// through returns the URL of a database behind the proxy.
func (p *proxy) through(t *testing.T, direct string) string {
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

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		client.Close()
		return
	}
	var once sync.Once
	end := func() { once.Do(func() { client.Close(); server.Close() }) }
	defer end()
	go func() { // a proxy that is closed lets go of everybody
		<-p.closed
		end()
	}()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		if n, err := io.CopyN(to, from, rand.Int64N(longest)); err == nil && n > 0 {
			p.cuts.Add(1)
		}
		end()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}
