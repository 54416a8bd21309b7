//go:build !windows

package forward

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

const acme = "0a0a0a0a-0000-8000-8000-000000000001"

// audited returns a directory, and a function that adds lines to the log of acme.
func audited(t *testing.T) (*tenant.Directory, func(outcome string, n int)) {
	d := tenant.NewDirectory(store.New(memory.New(), nil).Records())
	done := 0
	return d, func(outcome string, n int) {
		t.Helper()
		for range n {
			done++
			if err := d.Audit(t.Context(), acme, tenant.Audited{Who: "ada", Action: "session.delete", Thing: fmt.Sprint("thing ", done), Outcome: outcome}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func forwarder(d *tenant.Directory, by string) *Forwarder {
	return New(Options{By: by, Users: func(context.Context) (*tenant.Directory, error) { return d, nil }, Complain: func(error) {},
		Tenants: func(context.Context) ([]string, error) { return []string{acme}, nil }})
}

func TestAWebhookGetsEveryLineSignedAndGoesOnWhereItWas(t *testing.T) {
	d, add := audited(t)
	const secret = "0123456789abcdef"
	var got []int64
	var refuse, lose bool
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var seconds int64
		fmt.Sscanf(r.Header.Get(SignatureHeader), "t=%d,", &seconds)
		if r.Header.Get(SignatureHeader) != Sign([]byte(secret), time.Unix(seconds, 0), body) {
			t.Errorf("the signature %q is not that of the body", r.Header.Get(SignatureHeader))
		}
		if refuse {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(body)), "\n") {
			var l tenant.AuditLine
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Tenant != acme || l.Hash == "" {
				t.Errorf("a line is %s, %v", line, err)
			}
			got = append(got, l.Seq)
		}
		if lose { // it has the lines, and nobody learns that
			panic(http.ErrAbortHandler)
		}
	}))
	defer h.Close()
	to, err := Webhook(h.URL, secret)
	if err != nil {
		t.Fatal(err)
	}
	first, second := forwarder(d, "a"), forwarder(d, "b")
	want := func(err error, lines ...int64) {
		t.Helper()
		if err != nil || !slices.Equal(got, lines) {
			t.Fatalf("it has %v, %v; want %v", got, err, lines)
		}
		got = nil
	}
	add(tenant.AuditDone, 3)
	want(first.Once(t.Context(), to, true), 1, 2, 3)
	add(tenant.AuditDone, 1)
	want(second.Once(t.Context(), to, true)) // the first does it, and is alive
	want(first.Once(t.Context(), to, false, acme), 4)
	refuse = true
	add(tenant.AuditRefused, 2) // which nothing holds up
	if err := first.Once(t.Context(), to, true); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("while it is away: %v", err)
	}
	refuse, lose = false, true
	if err := first.Once(t.Context(), to, true); err == nil {
		t.Error("an answer that broke off is one")
	}
	lose = false
	want(first.Once(t.Context(), to, true), 5, 6, 5, 6) // at least once
	want(first.Once(t.Context(), to, true))

	for place, secret := range map[string]string{"http://example.org/x": secret, "https://example.org/x": "short", "https://ada:pw@example.org/": secret, "": secret} {
		if _, err := Webhook(place, secret); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Webhook(%q) = %v, want ErrInvalid", place, err)
		}
	}
}

var rfc5424 = regexp.MustCompile(`^<(\d+)>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [!-~]+ tidemark \d+ audit \[origin software="tidemark" swVersion="v\\"1"\] (\{.*\})$`)

func TestASyslogGetsEveryLine(t *testing.T) {
	check := func(t *testing.T, n int, message string) {
		t.Helper()
		m := rfc5424.FindStringSubmatch(message)
		if m == nil {
			t.Fatalf("no message of RFC 5424: %q", message)
		}
		var l tenant.AuditLine
		if err := json.Unmarshal([]byte(m[2]), &l); err != nil || l.Seq != int64(n) || l.Tenant != acme {
			t.Errorf("message %d has %s, %v", n, m[2], err)
		}
		if want := map[int]string{1: "110", 2: "110", 3: "108"}[n]; m[1] != want {
			t.Errorf("message %d has the priority %s, want %s", n, m[1], want)
		}
	}
	send := func(t *testing.T, place string) {
		t.Helper()
		d, add := audited(t)
		add(tenant.AuditDone, 2)
		add(tenant.AuditRefused, 1)
		to, err := Syslog(place, `v"1`)
		if err != nil {
			t.Fatal(err)
		}
		if err := forwarder(d, "a").Once(t.Context(), to, true); err != nil {
			t.Fatal(err)
		}
	}
	// of TLS, the server of a test and what it is known by
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "tls"} {
		t.Run(network, func(t *testing.T) {
			connected(t, network, secure.TLS, func(place string) {
				if network == "tls" {
					place += "?ca=" + url.QueryEscape(ca)
				}
				send(t, place)
			}, check)
		})
	}
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unixgram" {
				address = filepath.Join(t.TempDir(), "log")
			}
			c, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			place := "udp://" + c.LocalAddr().String()
			if network == "unixgram" {
				place = "unix:" + address
			}
			send(t, place)
			for i := range 3 {
				b := make([]byte, 10_000)
				n, _, err := c.ReadFrom(b)
				if err != nil {
					t.Fatal(err)
				}
				check(t, i+1, string(b[:n]))
			}
		})
	}
	for _, place := range []string{"", "udp://host", "tcp://host:1/path", "https://host:1", "unix:", "tcp://host:1?ca=x", "tls://host", "tls://host:1?ca=/nowhere", "tls://host:1?cert=" + ca, "tls://host:1?trust=all"} {
		if _, err := Syslog(place, ""); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Syslog(%q) = %v, want ErrInvalid", place, err)
		}
	}
}

// connected has a syslog that is connected to, and checks what it gets.
func connected(t *testing.T, network string, with *tls.Config, send func(place string), check func(*testing.T, int, string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	place := network + "://" + l.Addr().String()
	if network == "tls" {
		l = tls.NewListener(l, with)
	}
	defer l.Close()
	got := make(chan []string, 1)
	go func() {
		var all []string
		defer func() { got <- all }()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for {
			size, err := r.ReadString(' ')
			if err != nil {
				return
			}
			n, _ := strconv.Atoi(strings.TrimSpace(size))
			message := make([]byte, n)
			if _, err := io.ReadFull(r, message); err != nil {
				return
			}
			all = append(all, string(message))
		}
	}()
	send(place)
	all := <-got
	if len(all) != 3 {
		t.Fatalf("%d messages", len(all))
	}
	for i, m := range all {
		check(t, i+1, m)
	}
}

// TestASyslogIsWhoItSaysItIs has one whose certificate nobody vouches for.
func TestASyslogIsWhoItSaysItIs(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	to, err := Syslog("tls://"+s.Listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	d, add := audited(t)
	add(tenant.AuditDone, 1)
	if err := forwarder(d, "a").Once(t.Context(), to, true); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("lines went to a stranger: %v", err)
	}
}
