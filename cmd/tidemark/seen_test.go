//go:build !windows

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	here "github.com/tidemark-sessions/tidemark/workshop/machine"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// figures asks a server on PostgreSQL, over TLS, for its metrics, as Prometheus does.
func figures(t *testing.T) []byte {
	t.Helper()
	h, db := newTeamHome(t), pgtest.Start(t).Database(t)
	env := []string{"TIDEMARK_STORE=" + db.Server}
	h.run(append(env, "TIDEMARK_DATABASE_OWNER="+db.Owner), "database", "migrate")
	secure := httptest.NewTLSServer(nil) // for its certificate
	defer secure.Close()
	pair := secure.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, secret := filepath.Join(h.dir, "cert.pem"), filepath.Join(h.dir, "key.pem")
	for name, block := range map[string]pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, secret: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := strings.TrimSpace(h.run(env, "token", "create", "prometheus", "--scope", "metrics"))
	at := h.serve(env, "--tls-cert", cert, "--tls-key", secret, "--replica", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(path string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	if status, body := ask("/api/v1/sessions"); status != 403 {
		t.Errorf("with the token of Prometheus sessions answer %d: %s", status, body)
	}
	status, body := ask("/metrics")
	if status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	return body
}

// named finds the metrics that an expression asks for.
var named = regexp.MustCompile(`\b(?:tidemark|go|process)_[a-z_]+`)

// TestAlertsAndDashboardAskForWhatThereIs has Prometheus' own program check the rules,
// try them, and read what a server says of itself.
func TestAlertsAndDashboardAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	promtool := here.Program(top, "promtool")
	if promtool == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no promtool: scripts/deps.sh brings it")
		}
		t.Skip("there is no promtool: scripts/deps.sh brings it")
	}
	try := func(in []byte, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = filepath.Join(top, "packaging", "prometheus"), bytes.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	try(nil, "check", "rules", "--lint-fatal", "alerts.yaml")
	try(nil, "test", "rules", "alerts-test.yaml")
	try(nil, "check", "config", "--syntax-only", "scrape.yaml")
	has := figures(t)
	try(has, "check", "metrics")

	read := func(parts ...string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(append([]string{top}, parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	alerts, board, runbook := read("packaging", "prometheus", "alerts.yaml"), read("packaging", "grafana", "tidemark.json"), read("docs", "guide", "runbook.md")
	shown := make(map[string]bool)
	for _, name := range named.FindAllString(string(board)+string(alerts), -1) {
		name = strings.TrimSuffix(name, "_bucket")
		shown[name] = true
		if !bytes.Contains(has, []byte("# TYPE "+name+" ")) {
			t.Errorf("%s is asked for, and no server says it", name)
		}
	}
	for _, m := range regexp.MustCompile(`# TYPE (tidemark_[a-z_]+) `).FindAllSubmatch(has, -1) {
		if !shown[string(m[1])] {
			t.Errorf("%s is said, and on no dashboard", m[1])
		}
	}
	names := regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllSubmatch(alerts, -1)
	if len(names) < 10 {
		t.Errorf("%d alerts", len(names))
	}
	for _, m := range names {
		name := string(m[1])
		if !bytes.Contains(runbook, []byte("\n## "+name+"\n")) {
			t.Errorf("the runbook says nothing about %s", name)
		}
		if !bytes.Contains(alerts, []byte("runbook: docs/guide/runbook.md#"+strings.ToLower(name)+"\n")) {
			t.Errorf("%s does not name its section of the runbook", name)
		}
	}
}
