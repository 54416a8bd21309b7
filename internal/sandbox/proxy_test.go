package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// testProxy is a proxy whose names are looked up in a table, and whose
// connections all end at one server. It tells whom it would have dialled.
func testProxy(t *testing.T, names map[string]string, hosts ...string) (at string, dialled *[]string) {
	t.Helper()
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "for %s", r.Host) }))
	t.Cleanup(there.Close)
	p, err := newProxy(hosts)
	if err != nil {
		t.Fatal(err)
	}
	p.lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		if a, ok := names[name]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	dialled = new([]string)
	p.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		*dialled = append(*dialled, address)
		return (&net.Dialer{}).DialContext(ctx, network, there.Listener.Addr().String())
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), dialled
}

func connectStatus(t *testing.T, proxy, target string) int {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func TestProxyReachesWhatIsNamedAndNothingElse(t *testing.T) {
	names := map[string]string{"api.example.com": "93.184.216.34", "a.b.example.org": "93.184.216.35", "example.org": "93.184.216.35", "other.example.net": "93.184.216.36",
		"rebound.example.com": "127.0.0.1", "inside.example.com": "10.1.2.3", "mapped.example.com": "::ffff:127.0.0.1", "metadata.example.com": "169.254.169.254", "carrier.example.com": "100.64.0.1",
		"zero.example.com": "0.0.0.0", "six.example.com": "fd00::1", "translated.example.com": "64:ff9b::7f00:1", "loop6.example.com": "::1", "localhost": "127.0.0.1"}
	hosts := []string{"api.example.com", "*.example.org", "rebound.example.com", "inside.example.com", "mapped.example.com", "metadata.example.com", "carrier.example.com", "zero.example.com",
		"six.example.com", "translated.example.com", "loop6.example.com", "ports.example.com:8443", "127.0.0.1:9000", "localhost:3000"}
	names["ports.example.com"] = "93.184.216.37"
	proxy, dialled := testProxy(t, names, hosts...)
	for target, want := range map[string]int{
		"api.example.com:443": 200, "API.Example.COM:443": 200, "api.example.com.:443": 200, "a.b.example.org:443": 200, "ports.example.com:8443": 200, "127.0.0.1:9000": 200, "localhost:3000": 200,
		"api.example.com:22": 403, "example.org:443": 403, "other.example.net:443": 403, "ports.example.com:443": 403, "evilapi.example.com:443": 403, "notexample.org:443": 403,
		"rebound.example.com:443": 403, "inside.example.com:443": 403, "mapped.example.com:443": 403, "metadata.example.com:443": 403, "carrier.example.com:443": 403, "zero.example.com:443": 403,
		"six.example.com:443": 403, "translated.example.com:443": 403, "loop6.example.com:443": 403,
		"93.184.216.34:443": 403, "127.0.0.1:443": 403, "[::1]:443": 403, "2130706433:443": 403, "0x7f.1:443": 403, "127.1:9000": 403, "[::ffff:127.0.0.1]:9000": 200, "localhost:443": 403,
	} {
		*dialled = nil
		if got := connectStatus(t, proxy, target); got != want {
			t.Errorf("CONNECT %s = %d, want %d", target, got, want)
		}
		if want == 403 && len(*dialled) > 0 {
			t.Errorf("CONNECT %s dialled %v", target, *dialled)
		}
	}
}

func TestPlainRequestGoesToTheHostOfItsAddress(t *testing.T) {
	proxy, dialled := testProxy(t, map[string]string{"api.example.com": "93.184.216.34", "other.example.net": "93.184.216.36"}, "api.example.com")
	for _, c := range []struct {
		url, host string
		status    int
		body      string
	}{
		{"http://api.example.com/x", "api.example.com", 200, "for api.example.com"},
		{"http://api.example.com/x", "other.example.net", 200, "for api.example.com"}, // a Host header changes nothing
		{"http://other.example.net/x", "api.example.com", 403, refusal},
		{"http://93.184.216.34/x", "api.example.com", 403, refusal},
		{"http://api.example.com:8080/x", "api.example.com", 403, refusal},
	} {
		conn, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.url, c.host)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(answer.Body)
		conn.Close()
		if err != nil || answer.StatusCode != c.status || !strings.Contains(string(b), c.body) {
			t.Errorf("GET %s, Host %q = %d %q, %v; want %d %q", c.url, c.host, answer.StatusCode, b, err, c.status, c.body)
		}
	}
	for _, a := range *dialled {
		if a != "93.184.216.34:80" {
			t.Errorf("dialled %s", a)
		}
	}
}

func TestHostsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, s := range []string{"", "*", "*.com", "a b", "http://example.com", "example.com/x", "127.0.0.1", "127.1", "0x7f.0.0.1", "example.com:0", "example.com:http", "exa*mple.com", "a..b"} {
		if err := (Widening{Hosts: []string{s}}).Check(); err == nil {
			t.Errorf("host %q is taken", s)
		}
	}
	for _, s := range []string{"/", "relative", "", "/.."} {
		if err := (Widening{Write: []string{s}}).Check(); err == nil {
			t.Errorf("folder %q is taken", s)
		}
	}
}

func TestPolicyNeedsAProject(t *testing.T) {
	for _, root := range []string{"", "/", "relative", "/home/ada", "/home/ada/"} {
		if err := (Policy{Root: root, Home: "/home/ada"}).check(); err == nil {
			t.Errorf("the project may be %q", root)
		}
	}
	if err := (Policy{Root: "/home/ada/lighthouse", Home: "/home/ada"}).check(); err != nil {
		t.Error(err)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	got := Environ([]string{"PATH=/bin", "LC_ALL=C", "OPENAI_API_KEY=x", "SSH_AUTH_SOCK=x", "DBUS_SESSION_BUS_ADDRESS=x", "DOCKER_HOST=x", "TMUX=x", "GITHUB_TOKEN=x", "TIDEMARK_STORE=x", "LD_PRELOAD=x", "BASH_ENV=x"})
	if s := strings.Join(got, " "); s != "PATH=/bin LC_ALL=C" {
		t.Errorf("kept %s", s)
	}
}

// TestProfileOfMacOS holds the text; sandbox-exec itself is not run here.
func TestProfileOfMacOS(t *testing.T) {
	got := Profile(Policy{Root: `/Users/ada/a "b"`, Home: "/Users/ada", Write: []string{"/Users/ada/build"}, Hide: []string{"/Users/ada/x"}}, 4711)
	at := -1
	for _, want := range []string{"(version 1)\n(deny default)\n", `(allow file-read* file-write* (subpath "/Users/ada/a \"b\""))`, `(allow file-read* file-write* (subpath "/Users/ada/build"))`,
		`(deny file-write* (subpath "/Users/ada/a \"b\"/.git/hooks"))`, `(deny file-write* (subpath "/Users/ada/a \"b\"/.claude"))`, `(deny file-read* file-write* (subpath "/Users/ada/x"))`,
		`(allow network-outbound (remote ip "localhost:4711"))`} {
		i := strings.Index(got, want)
		if i <= at {
			t.Errorf("%s is not there, or too early, in\n%s", want, got)
		}
		at = i
	}
	if strings.Contains(Profile(Policy{Root: "/p", Home: "/h"}, 0), "network") {
		t.Error("there is a network without hosts")
	}
}
