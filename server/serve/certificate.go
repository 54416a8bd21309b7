package serve

import (
	"context"
	"crypto/tls"
	"os"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// certificate is the one in two files, which somebody else renews. What is in
// force stays so until both files have what fits together.
type certificate struct {
	certFile, keyFile string
	complain          func(error)

	mu      sync.Mutex
	pair    *tls.Certificate
	read    [2]version // the files as they were when pair was read
	refused [2]version // the files as they were when they were last refused
}

// version tells one content of a file from the next without reading it.
type version struct {
	at   time.Time
	size int64
}

// newCertificate reads a certificate. ErrInvalid: there is none.
func newCertificate(certFile, keyFile string, complain func(error)) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, complain: complain}
	return c, c.load(c.versions())
}

// versions returns the state of both files; that of a missing one is zero.
func (c *certificate) versions() (v [2]version) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			v[i] = version{info.ModTime(), info.Size()}
		}
	}
	return v
}

func (c *certificate) load(seen [2]version) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return tidemark.Invalidf("--tls-cert and --tls-key: %w", err)
	}
	c.pair, c.read = &pair, seen
	return nil
}

// get returns the certificate for a connection, the new one if the files changed.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.versions(); now != c.read {
		c.renew(now)
	}
	return c.pair, nil
}

// expires is when the certificate in force runs out.
func (c *certificate) expires() time.Time {
	pair, _ := c.get(nil)
	return pair.Leaf.NotAfter
}

// renew reads the files again. Those that do not fit are complained about once.
func (c *certificate) renew(now [2]version) (ok bool) {
	err := c.load(now)
	if err != nil && now != c.refused {
		c.complain(err)
		c.refused = now
	}
	return err == nil
}

// reload reads the files whenever the program is told to, until ctx ends.
func (c *certificate) reload(ctx context.Context, p *Program) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Reload:
		}
		c.mu.Lock()
		c.refused = [2]version{} // whoever asks wants an answer
		ok := c.renew(c.versions())
		c.mu.Unlock()
		if ok {
			p.Say("The certificate was read again.")
		}
	}
}
