package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// proxies are the programs that packaging/proxy has a configuration for, and how that
// is made fit a test: where to listen, what to serve, whose certificate.
var proxies = map[string]struct {
	config string
	fit    func(text, dir, listen, serves string) string
	run    func(config, dir string) []string
}{
	"nginx": {"nginx.conf", func(text, dir, listen, serves string) string {
		text = strings.NewReplacer("listen 443 ssl", "listen "+listen+" ssl", "127.0.0.1:7433", serves, "/etc/ssl/tidemark/", dir+"/").Replace(text)
		own := "daemon off;\nmaster_process off;\npid DIR/pid;\nerror_log DIR/log;\nevents {}\nhttp {\naccess_log off;\n" +
			"client_body_temp_path DIR/1;\nproxy_temp_path DIR/2;\nfastcgi_temp_path DIR/3;\nuwsgi_temp_path DIR/4;\nscgi_temp_path DIR/5;\n"
		return strings.ReplaceAll(own, "DIR", dir) + text + "}\n"
	}, func(config, dir string) []string { return []string{"-p", dir, "-e", dir + "/log", "-c", config} }},
	"caddy": {"Caddyfile", func(text, dir, listen, serves string) string {
		_, port, _ := net.SplitHostPort(listen)
		text = strings.NewReplacer("127.0.0.1:7433", serves, "\nsessions.example.org {\n",
			"\nhttps://sessions.example.org:"+port+" {\n\tbind 127.0.0.1\n\ttls "+dir+"/cert.pem "+dir+"/key.pem\n").Replace(text)
		return "{\n\tadmin off\n\tauto_https off\n}\n" + text
	}, func(config, dir string) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", config}
	}},
}

// beside finds a program that scripts/deps.sh brings.
func beside(t *testing.T, name string) string {
	t.Helper()
	found := machine.Program("..", name)
	if found == "" {
		without(t, "there is no "+name+": scripts/deps.sh brings it")
	}
	return found
}

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// behind returns a server as it is reached through a proxy, over TLS and under its
// public name.
func behind(t *testing.T, s *testServer, name string) *testServer {
	t.Helper()
	program, p, dir := beside(t, name), proxies[name], t.TempDir()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"sessions.example.org"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "packaging", "proxy", p.config))
	if err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	for file, content := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"config":   []byte(p.fit(string(text), dir, listen, strings.TrimPrefix(s.URL, "http://"))),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var says bytes.Buffer
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, p.run(filepath.Join(dir, "config"), dir)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	cmd.Stdout, cmd.Stderr = &says, &says
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("%s says:\n%s", name, says.Bytes())
		}
	})
	for {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v", name, err)
		case <-t.Context().Done():
			t.Fatalf("%s does not listen", name)
		case <-time.After(20 * time.Millisecond):
		}
	}
	// The client: it speaks TLS, and names the server as people do.
	to := &url.URL{Scheme: "https", Host: listen}
	client := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = "sessions.example.org"
	}, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "sessions.example.org"}}})
	t.Cleanup(client.Close)
	return &testServer{Server: s.Server, URL: client.URL, HTTP: client}
}

func TestTheProxiesOfTheGuideLetEverythingThrough(t *testing.T) {
	for name := range proxies {
		t.Run(name, func(t *testing.T) {
			near, _ := newSocketServer(t, func(o *Options) { o.Hosts = []string{"sessions.example.org"} })
			s := behind(t, near, name)
			s.call(t, "", "GET", "/readyz", nil).want(t, 200)
			path := newSession(t, s, wA, "through a proxy")

			// A stream says what is new while it is open, whatever the proxy would like to gather.
			f := s.follow(t, wA, path+"/entries/stream", "")
			for i := range 3 {
				text := fmt.Sprint("tide ", i)
				s.append(t, path, said(text))
				if got := f.next(t); got != fmt.Sprintf("%d %s", i+1, text) {
					t.Fatalf("followed %q", got)
				}
			}
			f.close()

			// More than a proxy takes by itself.
			s.append(t, path, said(strings.Repeat("a long story ", 300_000)))

			c := connect(t, s, wA)
			c.say(api.SocketRequest{Type: api.SocketAttach, ID: "1", New: true})
			c.until(api.SocketAttached)
			c.say(api.SocketRequest{Type: api.SocketSend, ID: "2", Text: "hello"})
			if end, said := c.until(api.SocketEnded); end.ID != "2" || !strings.Contains(said, `"hello"`) {
				t.Errorf("%+v after %s", end, said)
			}
		})
	}
}
