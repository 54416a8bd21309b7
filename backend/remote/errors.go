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

func noStore(format string, args ...any) error {
	return tidemark.Errorf(tidemark.ErrNoStore, format, args...)
}

// textOnly keeps the text of an error and hides the sentinel that it answers to.
type textOnly struct{ err error }

func (q textOnly) Error() string { return q.err.Error() }

// cut is an error of the connection, not of the server: the same call may
// succeed when it is tried again.
type cut struct {
	err  error
	sent bool // the server may have got the request
}

func (c *cut) Error() string        { return c.err.Error() }
func (c *cut) Unwrap() error        { return c.err }
func (c *cut) Is(target error) bool { return target == tidemark.ErrStorage }

// broken returns the error of a connection, and whether trying again is of use.
func (b *Backend) broken(err error, sent bool) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the address is added below, without its path
	}
	if why := distrust(err); why != "" {
		return tidemark.Storagef("%s: %s: %w", b.base, why, textOnly{err})
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return &cut{fmt.Errorf("%s: no host of this name is known", b.base), sent}
	}
	return &cut{fmt.Errorf("%s: %w", b.base, textOnly{err}), sent}
}

// distrust says why a connection cannot be trusted, "" when it broke for another
// reason.
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

// badAnswer returns the error of a response that makes no sense. The store may be
// intact; the response is not believed.
func (b *Backend) badAnswer(format string, args ...any) error {
	return tidemark.Storagef("%s: answered what cannot be: %w", b.base, textOnly{fmt.Errorf(format, args...)})
}
