// Package link makes copies of sessions for people who have no store: one page,
// encrypted under a key of its own, that a browser opens by itself. A Tidemark server
// keeps the copy and ends it, and never has the key, which is in the part of a link
// that browsers do not send. Without a server the copy is a file.
//
//	made, err := link.At("https://tidemark.example.org", token).Make(ctx, point, link.Options{})
package link

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

const (
	// format is the first byte of a sealed copy.
	format = 1
	// bound is what a sealed copy is bound to, so that no other use of the same
	// cipher can stand for one.
	bound = "tidemark link 1"
	// keyBytes is the length of a key.
	keyBytes = 32
	// maxPage bounds a page before it is packed: what a browser shows without
	// trouble, and what the script unpacks at most.
	maxPage = 128 << 20
)

// Render writes the path to a point of a session as a page, packed with gzip. Redact
// masks secrets. ErrCorrupt: some of it is damaged, and the page has everything
// readable. ErrInvalid: it is too large.
func Render(ctx context.Context, s *store.Store, at store.Point, node string, redact bool) ([]byte, error) {
	x, err := transfer.NewExport(ctx, s, at, transfer.ExportOptions{Format: "html", Framed: true, Redact: redact, Node: node})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	damage := x.Write(ctx, &bounded{w: z, out: &packed, left: maxPage})
	if damage != nil && !errors.Is(damage, tidemark.ErrCorrupt) {
		return nil, damage
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), damage
}

// bounded refuses what no server would take and no browser open.
type bounded struct {
	w    io.Writer
	out  *bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 || b.out.Len() > tenant.MaxLinkBytes-1<<10 {
		return 0, hint.With(tidemark.Invalidf("the session is too large for a link: at most %d MiB, and %d MiB when it is packed", maxPage>>20, tenant.MaxLinkBytes>>20),
			"share a part of it: SESSION@NODE, or make a file: tidemark export SESSION --format html -o FILE")
	}
	return b.w.Write(p)
}

// Seal encrypts a packed page under a new key, which it returns as it stands in a
// link.
func Seal(packed []byte) (sealed []byte, key string, err error) {
	secret := make([]byte, keyBytes)
	rand.Read(secret)
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, "", err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, "", err
	}
	sealed = make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(packed)+aead.Overhead())
	sealed[0] = format
	rand.Read(sealed[1:])
	return aead.Seal(sealed, sealed[1:], packed, []byte(bound)), base64.RawURLEncoding.EncodeToString(secret), nil
}

// NewName returns the name of a new link: 130 random bits.
func NewName() string { return strings.ToLower(rand.Text()) }

var (
	//go:embed page.html
	page string
	//go:embed page.css
	style string
	//go:embed open.js
	script string
)

// Policy is what a page that opens a copy may do: run its own script, and ask only its
// server. The frame with the session inherits it. That has a policy of its own, which
// allows one style sheet by its hash; the hash is not known here, so that this policy
// allows any that is in the page. Links inside the frame are relative to about:srcdoc.
var Policy = sync.OnceValue(func() string { return policy("'self'") })

func policy(connect string) string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; style-src 'unsafe-inline'; img-src data:; connect-src " + connect + "; base-uri about:; form-action 'none'"
}

// Page is the page with which a server answers to a link. It asks for the copy itself.
func Page() []byte { return write(Policy(), "Opening the session…", "", script) }

// Ended is the page with which a server answers to a link that leads nowhere.
func Ended(says string) []byte { return write(Policy(), says, "", "") }

// File is a page with a sealed copy in it.
func File(sealed []byte) []byte {
	return write(policy("'none'"), "Opening the session…", base64.StdEncoding.EncodeToString(sealed), script)
}

func write(policy, says, sealed, script string) []byte {
	if sealed != "" {
		sealed = `<script type="application/octet-stream" id="sealed">` + sealed + "</script>\n"
	}
	noscript := ""
	if script != "" {
		script = "<script>" + script + "</script>\n"
		noscript = "<noscript><p>This copy is encrypted, and your browser has to decrypt it. Allow scripts on this page, and load it again.</p></noscript>\n"
	}
	return []byte(strings.NewReplacer("{{policy}}", policy, "{{style}}", style, "{{says}}", says, "{{noscript}}", noscript, "{{sealed}}", sealed, "{{script}}", script).Replace(page))
}
