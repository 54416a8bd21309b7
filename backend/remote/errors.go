package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/tidemark-sessions/tidemark"
)

// said is an error with a sentence of its own that answers to a sentinel.
type said struct {
	kind error
	text string
}

func (e *said) Error() string { return e.text }
func (e *said) Unwrap() error { return e.kind }

func noStore(format string, args ...any) error {
	return &said{tidemark.ErrNoStore, fmt.Errorf(format, args...).Error()}
}

// quiet is the text of an error whose sentinel is another one's business.
type quiet struct{ err error }

func (q quiet) Error() string { return q.err.Error() }

// cut is an error of the way to the server and back, not of the server: the
// same call may succeed when it is made again.
type cut struct {
	err  error
	sent bool // the server may have got the request
}

func (c *cut) Error() string        { return c.err.Error() }
func (c *cut) Unwrap() error        { return c.err }
func (c *cut) Is(target error) bool { return target == tidemark.ErrStorage }

// broken returns the error of a connection, and whether trying again is of
// use.
func (b *Backend) broken(err error, sent bool) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the address is said below, without its path
	}
	if why := distrust(err); why != "" {
		return tidemark.Storagef("%s: %s: %w", b.base, why, quiet{err})
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return &cut{fmt.Errorf("%s: no host of this name is known", b.base), sent}
	}
	return &cut{fmt.Errorf("%s: %w", b.base, quiet{err}), sent}
}

// distrust says why a connection is not to be trusted, "" when it broke for
// another reason.
func distrust(err error) string {
	var (
		verify    *tls.CertificateVerificationError
		unknown   x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		notTLS    tls.RecordHeaderError
		handshake tls.AlertError
	)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &notTLS):
		return "does not speak TLS; is it http://?"
	case errors.As(err, &unknown):
		return "its certificate is signed by nobody whom this machine trusts"
	case errors.As(err, &name):
		return "its certificate is for another host"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "its certificate is not valid"
	case errors.As(err, &handshake):
		return "refused the TLS connection"
	}
	return ""
}

// lied returns the error of an answer that cannot be one. The store may be
// whole; what was said of it is not believed.
func (b *Backend) lied(format string, args ...any) error {
	return tidemark.Storagef("%s: answered what cannot be: %w", b.base, quiet{fmt.Errorf(format, args...)})
}
