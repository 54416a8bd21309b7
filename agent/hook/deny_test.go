package hook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/chat"
)

func moment(tool, name, value string) chat.Moment {
	input, _ := json.Marshal(map[string]string{name: value})
	return chat.Moment{Event: chat.HookBefore, Tool: tool, Input: input}
}

func TestARuleDeniesWhatItSays(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of another kind")
	}
	dir := t.TempDir()
	home := filepath.Join(dir, "home", ".claude")
	root := filepath.Join(dir, "project")
	if err := os.MkdirAll(filepath.Join(root, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secrets", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule string
		m    chat.Moment
		want bool
	}{
		{"Bash", moment("bash", "command", "ls"), true},
		{"Bash", moment("python", "code", "1"), true},
		{"Bash", moment("read", "path", "a"), false},
		{"Bash(git push:*)", moment("bash", "command", "git push origin"), true},
		{"Bash(git push:*)", moment("bash", "command", "git   push"), true},
		{"Bash(git push:*)", moment("bash", "command", "cd x && git push -f; ls"), true},
		{"Bash(git push:*)", moment("bash", "command", "echo $(git push)"), true},
		{"Bash(git push:*)", moment("bash", "command", "git pushy"), false},
		{"Bash(git push:*)", moment("bash", "command", "git status"), false},
		{"Bash(curl *)", moment("bash", "command", "curl https://example.org"), true},
		{"Bash(curl *)", moment("bash", "command", "curly"), false},
		{"Bash(npm run * --force)", moment("bash", "command", "npm run x --force"), true},
		{"Bash(npm run * --force)", moment("bash", "command", "npm run x"), false},
		{"Bash(make)", moment("bash", "command", "make"), true},
		{"Bash(make)", moment("bash", "command", "make all"), false},
		{"Read(./.env)", moment("read", "path", ".env"), true},
		{"Read(./.env)", moment("read", "path", filepath.Join(root, ".env")), true},
		{"Read(./.env)", moment("grep", "path", "./.env"), true},
		{"Read(./.env)", moment("write", "path", ".env"), false},
		{"Read(.env)", moment("read", "path", "deep/down/.env"), true},
		{"Read(secrets/**)", moment("read", "path", "secrets/a/b"), true},
		{"Read(secrets)", moment("read", "path", "secrets/a/b"), true},
		{"Read(./secrets/)", moment("read", "path", "secrets/a"), true},
		{"Read(secrets/**)", moment("read", "path", "x/../secrets/a"), true},
		{"Read(./secrets)", moment("ls", "path", "link"), true},
		{"Read(secrets/**)", moment("read", "path", "open/a"), false},
		{"Read(//etc/**)", moment("read", "path", "/etc/passwd"), true},
		{"Read(~/.ssh/**)", moment("read", "path", filepath.Join(dir, "home", ".ssh", "id")), true},
		{"Edit(/src/**/*.go)", moment("write", "path", "src/a/b.go"), false}, // of the person's file: below its folder
		{"Write(*.lock)", moment("edit", "path", "a/b.lock"), true},
		{"WebFetch(domain:example.org)", moment("fetch", "url", "https://www.EXAMPLE.org/x"), true},
		{"WebFetch(domain:example.org)", moment("fetch", "url", "https://notexample.org"), false},
		{"mcp__files", moment("mcp__files__delete", "x", ""), true},
		{"mcp__files__*", moment("mcp__files__delete", "x", ""), true},
		{"mcp__files__delete", moment("mcp__files__delete", "x", ""), true},
		{"mcp__files__delete", moment("mcp__files__read", "x", ""), false},
		{"mcp__file", moment("mcp__files__read", "x", ""), false},
		{"grep", moment("grep", "path", "a"), true},
	} {
		d, ok := parseDenial(c.rule, home)
		if got := ok && d.meant(c.m.Tool) && d.matches(c.m, root); got != c.want || !ok {
			t.Errorf("%s, for %s %s: %t, want %t (heeded: %t)", c.rule, c.m.Tool, c.m.Input, got, c.want, ok)
		}
	}
	d, ok := parseDenial("Edit(/src/**/*.go)", "")
	if m := moment("write", "path", "src/a/b.go"); !ok || !d.matches(m, root) {
		t.Error("a rule of the project's file is not below the project")
	}
}

func TestARuleThatMeansNothingHereIsTold(t *testing.T) {
	all, unheeded := parseDenials([]byte(`{"permissions":{"deny":["Bash","Task(x)","WebFetch(x)","Read([)","Bash(ls","",
		"Skill(y)"],"allow":["Bash"]}}`), "")
	if len(all) != 1 || len(unheeded) != 6 || !strings.Contains(unheeded[0], "Task(x)") {
		t.Errorf("%d rules, unheeded: %q", len(all), unheeded)
	}
	if _, unheeded = parseDenials([]byte(`{"permissions":{"deny":"Bash"}}`), ""); len(unheeded) != 1 {
		t.Errorf("another shape: %q", unheeded)
	}
}

func FuzzDenials(f *testing.F) {
	f.Add("Bash(git push:*)", "git push; x", "bash", "command")
	f.Add("Read(~/**/{a,b}[c])", "../x", "read", "path")
	f.Add("WebFetch(domain:*.a)", "http://[::1", "fetch", "url")
	f.Fuzz(func(t *testing.T, rule, value, name, argument string) {
		b, err := json.Marshal(map[string]any{"permissions": map[string]any{"deny": []string{rule}}})
		if err != nil {
			t.Skip()
		}
		all, unheeded := parseDenials(b, "/home/.claude")
		if len(all)+len(unheeded) != 1 {
			t.Fatalf("%q is %d rules, and %q", rule, len(all), unheeded)
		}
		m := moment(name, argument, value)
		_ = definitions{deny: all}.denies(m, "/project")
		if !strings.ContainsAny(rule, "(){};|&`*\\") && strings.TrimSpace(rule) == "Bash" && (definitions{deny: all}).denies(moment("bash", "command", value), "/") == "" {
			t.Errorf("%q does not deny bash", rule)
		}
	})
}
