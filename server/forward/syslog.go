package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// auditFacility is that of syslog for audit logs.
const auditFacility = 13

// syslog is a Sink of RFC 5424.
type syslog struct {
	name, network, address, host, version string
	ca, cert, key                         string // files, for TLS
}

// Syslog returns the Sink for a syslog: unix:/dev/log, udp://HOST:PORT, tcp://HOST:PORT
// or tls://HOST:PORT, which may name files: ?ca= with who certifies it, if the system does
// not know them, ?cert= and &key= with what this server is known by. Each line is a
// message of RFC 5424 whose text is the line as JSON; over a connection it has its length
// before it (RFC 6587, RFC 5425). A syslog acknowledges nothing: what a datagram or a
// connection that breaks loses, is lost. ErrInvalid.
func Syslog(place, version string) (Sink, error) {
	u, err := url.Parse(place)
	if err != nil {
		return nil, tidemark.Invalidf("audit_syslog %q: %w", place, err)
	}
	s := &syslog{name: place, network: u.Scheme, address: u.Host, version: version}
	switch {
	case u.Scheme == "unix" && u.Opaque+u.Path != "":
		s.network, s.address = "unixgram", u.Opaque+u.Path
	case (u.Scheme == "udp" || u.Scheme == "tcp") && u.Port() != "" && u.Path == "" && u.RawQuery == "":
	case u.Scheme == "tls" && u.Port() != "" && u.Path == "":
		files := u.Query()
		s.ca, s.cert, s.key = files.Get("ca"), files.Get("cert"), files.Get("key")
		for name := range files {
			if name != "ca" && name != "cert" && name != "key" {
				return nil, tidemark.Invalidf("audit_syslog %q: what is %q? A place of TLS may name the files ca, cert and key", place, name)
			}
		}
		if _, err := s.trust(); err != nil {
			return nil, tidemark.Invalidf("audit_syslog %q: %w", place, err)
		}
	default:
		return nil, tidemark.Invalidf("audit_syslog %q: want unix:/dev/log, udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT", place)
	}
	if s.host, err = os.Hostname(); err != nil || s.host == "" {
		s.host = "-"
	}
	return s, nil
}

func (s *syslog) Name() string { return s.name }

// trust says who is believed to be the syslog, and who this server is. Its files are read
// each time, because certificates are renewed.
func (s *syslog) trust() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: there is no certificate in it", s.ca)
		}
	}
	if s.cert != "" || s.key != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (s *syslog) dial(ctx context.Context) (net.Conn, error) {
	if s.network != "tls" {
		return new(net.Dialer).DialContext(ctx, s.network, s.address)
	}
	trust, err := s.trust()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", s.address)
}

// Send connects anew each time: whoever restarted in between is found.
func (s *syslog) Send(ctx context.Context, of string, lines []tenant.AuditLine) error {
	c, err := s.dial(ctx)
	if err != nil {
		return tidemark.Storagef("syslog: %w", err)
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		c.SetWriteDeadline(end)
	}
	for _, l := range lines {
		message, err := s.message(of, l)
		if err != nil {
			return err
		}
		if s.network == "tcp" || s.network == "tls" {
			message = append(fmt.Appendf(nil, "%d ", len(message)), message...)
		}
		if _, err := c.Write(message); err != nil {
			return tidemark.Storagef("syslog: %w", err)
		}
	}
	return nil
}

// severities are those of syslog, by the outcome of what was tried.
var severities = map[string]int{tenant.AuditRefused: 4, tenant.AuditFailed: 3, "damaged": 2}

// message is a line in the form of RFC 5424.
func (s *syslog) message(of string, l tenant.AuditLine) ([]byte, error) {
	severity, ok := severities[l.Outcome]
	if !ok {
		severity = 6
	}
	l.Tenant = of
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	at := "-"
	if !l.At.IsZero() {
		at = l.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<%d>1 %s %s tidemark %d audit [origin software="tidemark" swVersion="%s"] `, auditFacility*8+severity, at, printable(s.host, 255), os.Getpid(), escaped(s.version))
	b.Write(text)
	return b.Bytes(), nil
}

// printable is a name as the header of a message may have it.
func printable(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c < '!' || c > '~' {
			return '_'
		}
		return c
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// escaped is a value of structured data.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(strings.ToValidUTF8(s, "?"))
}
