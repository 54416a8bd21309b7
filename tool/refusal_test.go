package tool

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

func TestWhatTheSandboxRefusedIsSaid(t *testing.T) {
	p := sandbox.Policy{Root: "/home/ada/src/tide", Home: "/home/ada", Hide: []string{"/home/ada/.local/share/tidemark"}, Hosts: []string{"modules.example.org"}}
	off := p
	off.Hosts = nil
	for _, c := range []struct {
		policy        sandbox.Policy
		command, text string
		want          string // "": nothing of the sandbox
	}{
		{off, "curl https://example.com", "curl: (6) Could not resolve host: example.com", `["example.com"]`},
		{off, "go get rsc.io/quote", `go: module rsc.io/quote: Get "https://modules.example.org/x": dial tcp: lookup modules.example.org on [::1]:53: connection refused`, `["modules.example.org"]`},
		{off, "npm i left-pad", "npm ERR! request to https://packages.example.org/left-pad failed, reason: getaddrinfo EAI_AGAIN packages.example.org", `["packages.example.org"]`},
		{off, "pip install x", "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution", `["HOST"]`},
		{off, "ssh git@host", "ssh: Could not resolve hostname host: Temporary failure in name resolution", `allow_hosts`},
		{p, "curl https://example.com", "curl: (56) CONNECT tunnel failed, response 403", `["example.com"]`},
		{p, "x", `the sandbox does not allow the host "sums.example.org:443": dial tcp`, `["sums.example.org"]`},
		{p, "go mod download", "dial tcp modules.example.org:443: i/o timeout", ""},
		{p, "cat ~/.ssh/id", "cat: /home/ada/.ssh/id: No such file or directory", `["/home/ada/.ssh"]`},
		{p, "echo x >~/.bashrc", "bash: line 1: /home/ada/.bashrc: Read-only file system", `["/home/ada/.bashrc"]`},
		{p, "echo x >/data/x", "/usr/bin/bash: line 18: /data/x: Permission denied", `["/data"]`},
		{p, "touch /usr/x", "touch: cannot touch '/usr/x': Read-only file system", "outside of the workspace"},
		{p, "ls", "open('/data/x'): PermissionError: [Errno 13] Permission denied: '/data/x'", `["/data"]`},
		{p, "sqlite3", "/home/ada/.local/share/tidemark/tidemark.db: No such file or directory", "no program gets it"},
		{p, "x", "bash: .git/hooks/pre-commit: Read-only file system", "does not let programs change .git/hooks"},
		{p, "make", "make: *** No rule to make target 'x'. Stop.", ""},
		{p, "cat nothing", "cat: nothing: No such file or directory", ""},
		{p, "cat", "cat: /home/ada/src/tide/nothing: No such file or directory", ""},
		{p, "cat", "cat: /tmp/nothing: No such file or directory", ""},
		{p, "x", "/usr/bin/nothing: No such file or directory", ""},
		{p, "go test", "--- FAIL: TestX: got 1, want 2", ""},
	} {
		got := refusal(c.policy, c.command, c.text)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\n%q, want %q", c.command, c.text, got, c.want)
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%q has more than one line", got)
		}
	}
}
