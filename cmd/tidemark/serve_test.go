//go:build !windows

package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// teamHome is a home folder in which the program is run.
type teamHome struct {
	t   *testing.T
	dir string
}

func newTeamHome(t *testing.T) teamHome { return teamHome{t, t.TempDir()} }

func (h teamHome) command(env []string, args ...string) *exec.Cmd {
	cmd := tidemarkIn(h.dir, args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// run runs a command that has to succeed.
func (h teamHome) run(env []string, args ...string) string {
	h.t.Helper()
	cmd := h.command(env, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("tidemark %s: %v\n%s%s", strings.Join(args, " "), err, out, &said)
	}
	return string(out)
}

// serve starts a server and returns where it is. It ends with the test.
func (h teamHome) serve(env []string, args ...string) string {
	h.t.Helper()
	cmd := h.command(env, append([]string{"serve", "--addr", "127.0.0.1:0", "--log", "text"}, args...)...)
	said, err := cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "143") {
			h.t.Errorf("serve ended with %v", err)
		}
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "Serving at "); ok {
			go io.Copy(io.Discard, said)
			return at
		}
		h.t.Log(lines.Text())
	}
	h.t.Fatal("it does not serve")
	return ""
}

func TestEveryCommandWorksAgainstAServer(t *testing.T) {
	t.Parallel()
	h := newTeamHome(t)
	at := h.serve(nil)
	remote := []string{"TIDEMARK_STORE=" + at}
	h.run(remote, "chat", "--provider", "demo", "-p", "count the gulls", "--name", "birds")
	h.run(remote, "chat", "--provider", "demo", "-c", "-p", "and the terns")
	for _, c := range []struct{ args, want string }{
		{"ls", "birds"}, {"show birds", "count the gulls"}, {"tree birds", "n1"}, {"search gulls", "birds"}, {"fork birds@n0 --name copy", "-"},
		{"label birds@n0 start", ""}, {"export birds --format md", "gulls"}, {"stats --json", "turns"}, {"verify", "0 damage"}, {"lock birds", ""}, {"memory add terns", ""}, {"memory ls", "terns"},
	} {
		if out := h.run(remote, strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in %q", c.args, c.want, out)
		}
	}
	// What was written through the server is what the server's own store has.
	if out := h.run(nil, "ls", "-A"); !strings.Contains(out, "birds") || !strings.Contains(out, "copy") {
		t.Errorf("the store has %q", out)
	}
	if out := h.run(nil, "verify"); !strings.Contains(out, "0 damage") {
		t.Errorf("damage: %s", out)
	}
}

// The server opens stores otherwise than other commands do, so what its pages need of
// this program is tried with the program.
func TestThePagesOfTheProgramHoldAConversation(t *testing.T) {
	t.Parallel()
	for _, sealing := range []string{"--no-encrypt", "--no-encrypt=false"} {
		h := newTeamHome(t)
		env := []string{"TIDEMARK_PROVIDER=demo"}
		h.run(env, "chat", sealing, "-p", "count the gulls", "--name", "birds")
		var kept []struct{ ID string }
		if err := json.Unmarshal([]byte(h.run(env, "ls", "--json")), &kept); err != nil || len(kept) != 1 {
			t.Fatal(kept, err)
		}
		at := h.serve(env)
		token, err := os.ReadFile(filepath.Join(h.dir, "data", "tidemark", "server.token"))
		if err != nil {
			t.Fatal(err)
		}
		say := func(text string) {
			// A message is refused while an answer is under way.
			for tries := 0; ; tries++ {
				r, _ := http.NewRequest("POST", at+"/sessions/"+kept[0].ID+"/say", strings.NewReader(url.Values{"text": {text}}.Encode()))
				r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Accept", "application/json")
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				said, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusNoContent {
					return
				}
				if res.StatusCode != http.StatusConflict || tries > 1000 {
					t.Fatalf("%s, %q: status %d: %s", sealing, text, res.StatusCode, said)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		say("and the terns")
		say("/cost")
		say("and the puffins")
		if out := h.run(env, "show", "birds"); !strings.Contains(out, "the terns") || !strings.Contains(out, "the puffins") {
			t.Errorf("%s: it keeps %q", sealing, out)
		}
	}
}

func TestAWriterOfTheLocalServerCannotMakeThemselvesMore(t *testing.T) {
	t.Parallel()
	h := newTeamHome(t)
	at := h.serve(nil)
	token := strings.TrimSpace(h.run(nil, "token", "create", "ci", "--role", "writer"))
	as := []string{"TIDEMARK_TOKEN=" + token, "TIDEMARK_STORE=" + at}
	for _, args := range []string{"record list token", "record list user"} {
		if out := h.run(as, strings.Fields(args)...); strings.Contains(out, "tmk") || strings.Contains(out, "hash") {
			t.Errorf("%s: %q", args, out)
		}
	}
	for path, want := range map[string]int{"/metrics": 403, "/api/v1/tokens": 403, "/api/v1/audit": 403, "/api/v1/sessions": 200} {
		r, _ := http.NewRequest("GET", at+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestServeStartsWithoutItsIssuersAndFollowsTheirFile(t *testing.T) {
	t.Parallel()
	h := newTeamHome(t)
	key := authtest.NewEC(t, "k")
	first, second := authtest.NewIssuer(t, key), authtest.NewIssuer(t, key)
	file := filepath.Join(h.dir, "issuers.yaml")
	entry := func(i *authtest.Issuer, tenant string) string {
		return fmt.Sprintf("- {issuer: %q, audience: %s, rules: [{claim: name, value: Ada, tenant: %s}]}\n", i.URL, authtest.OurAudience, tenant)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	h.run(nil, "tenant", "create", "harbour")
	h.run(nil, "tenant", "create", "quay")
	service := strings.TrimSpace(h.run(nil, "token", "create", "ci", "--tenant", "harbour"))
	first.Away.Store(true)
	write("issuers:\n" + entry(first, "harbour"))
	at := h.serve(nil, "--auth", "oidc", "--require-database=false", "--oidc-issuers", file)
	ask := func(token string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", at+"/api/v1/me", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var me struct {
			Tenant string `json:"tenant_name"`
		}
		json.NewDecoder(res.Body).Decode(&me)
		return res.StatusCode, me.Tenant
	}
	until := func(token string, status int, tenant string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			got, in := ask(token)
			if got == status && in == tenant {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("status %d in %q, want %d in %q", got, in, status, tenant)
			}
		}
	}
	ada := func(i *authtest.Issuer) string { return key.Token(i.Claims()) }
	if status, in := ask(service); status != 200 || in != "harbour" {
		t.Errorf("a service token while the issuer is down: %d in %q", status, in)
	}
	if status, _ := ask(ada(first)); status != 503 {
		t.Errorf("a token of an issuer that is down: %d", status)
	}
	first.Away.Store(false)
	until(ada(first), 200, "harbour")
	if status, _ := ask(ada(second)); status != 401 {
		t.Errorf("a token of an issuer that is not in the file: %d", status)
	}
	write("issuers:\n" + entry(first, "harbour") + entry(second, "quay"))
	until(ada(second), 200, "quay")
	write("issuers: [")
	write("issuers:\n" + entry(second, "harbour"))
	until(ada(second), 200, "harbour")
	until(ada(first), 401, "")
}

func TestServeTakesTheWebhooksOfAFleet(t *testing.T) {
	t.Parallel()
	h := newTeamHome(t)
	file := filepath.Join(h.dir, "fleet.yaml")
	text := "version: 1\nfleet: {name: harbour}\nwebhooks: {secret_env: HOOK_SECRET}\nagents:\n  - name: mate\n    runner: command\n    command: [echo, ahoy]\n    schedules:\n      - {name: call, type: webhook, prompt: answer}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(nil, "fleet", "validate")
	env := []string{"HOOK_SECRET=salt"}
	// The fleet comes up once, so that the store knows its schedules.
	h.run(env, "fleet", "up", "--detach")
	t.Cleanup(func() { h.command(nil, "fleet", "down").Run() })
	at := h.serve(env, "--fleet", file)
	call := func(delivery, signature string) (int, string) {
		r, _ := http.NewRequest("POST", at+"/hooks/mate/call", strings.NewReader("ship ahead"))
		r.Header.Set("X-Tidemark-Delivery", delivery)
		r.Header.Set("X-Tidemark-Signature", signature)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	mac := hmac.New(sha256.New, []byte("salt"))
	signed := time.Now().Unix()
	fmt.Fprintf(mac, "%d\n/hooks/mate/call\n7\nship ahead", signed)
	if status, body := call("7", fmt.Sprintf("t=%d,v1=%064d", signed, 0)); status != 401 {
		t.Errorf("a wrong signature: %d %s", status, body)
	}
	status, body := call("7", fmt.Sprintf("t=%d,v1=%x", signed, mac.Sum(nil)))
	var made struct{ Job string }
	if err := json.Unmarshal([]byte(body), &made); status != 202 || err != nil || made.Job == "" {
		t.Fatalf("status %d: %s", status, body)
	}
	if out := h.run(nil, "audit", "ls", "--json"); !strings.Contains(out, "POST /hooks") {
		t.Errorf("the audit log has no line for it: %s", out)
	}
	h.run(nil, "logs", made.Job, "-f")
	if out := h.run(nil, "job", made.Job); !strings.Contains(out, "completed") {
		t.Errorf("the job: %s", out)
	}
}

func TestAStoreMovesToPostgresAndBack(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t).Database(t)
	h := newTeamHome(t)
	owner := []string{"TIDEMARK_DATABASE_OWNER=" + db.Owner}
	if out, err := h.command(nil, "--store", db.Server, "ls").CombinedOutput(); err == nil || !strings.Contains(string(out), "database migrate") {
		t.Errorf("without tables: %v, %s", err, out)
	}
	h.run(owner, "--store", db.Server, "database", "migrate")
	h.run(nil, "--store", db.Server, "database", "check")
	h.run(nil, "chat", "--provider", "demo", "-p", "count the gulls", "--name", "birds")
	join := "?"
	if strings.Contains(db.Server, "?") {
		join = "&"
	}
	team := db.Server + join + "tenant=harbour&as=jo"
	h.run(nil, "migrate", "--to", team)
	if out := h.run(nil, "--store", team, "search", "gulls"); !strings.Contains(out, "birds") {
		t.Errorf("not found there: %q", out)
	}
	back := "sqlite:" + filepath.Join(h.dir, "back.db")
	h.run(nil, "--store", team, "migrate", "--to", back)
	if out := h.run(nil, "--store", back, "show", "birds"); !strings.Contains(out, "count the gulls") {
		t.Errorf("not back: %q", out)
	}
	h.run(nil, "--store", team, "export", "--all", "-o", "all.tidemark")
	if out := h.run(nil, "restore-drill", "all.tidemark"); !strings.Contains(out, "every entry was read") {
		t.Errorf("the drill: %q", out)
	}
	h.run(nil, "--store", db.Server, "tenant", "create", "harbour")
	h.run(nil, "--store", db.Server, "tenant", "bind", "harbour", "--issuer", "https://id.example")
	if out := h.run(nil, "--store", db.Server, "tenant", "ls", "--json"); !strings.Contains(out, "https://id.example") {
		t.Errorf("not bound: %q", out)
	}
	if out := h.run(nil, "--store", db.Server, "export", "--all", "--tenants", "-o", "backup"); !strings.Contains(out, "operator.tidemark") {
		t.Errorf("the archives: %q", out)
	}
}
