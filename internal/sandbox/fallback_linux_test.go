package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// What is left where nobody can make namespaces: Landlock and seccomp. Every
// machine that has those runs it here, by leaving the namespaces away.

// needLandlock skips, with the reason, where the kernel cannot.
func needLandlock(t *testing.T) {
	t.Helper()
	for _, l := range sandbox.Layers() {
		if !l.On && l.Name != "namespaces" {
			t.Skipf("this machine cannot enforce %s: %s", l.Name, l.Says)
		}
	}
}

// heldByNamespaces are the escapes that succeed without them.
var heldByNamespaces = map[string]string{
	"read a store inside the project":          inProject,
	"link a protected file and write the link": inProject,
	"write a hook":                          inProject,
	"write git's configuration":             inProject,
	"rename over git's configuration":       inProject,
	"remove git's configuration":            inProject,
	"rename the hooks":                      inProject,
	"rename the repository":                 inProject,
	"make Claude's settings":                inProject,
	"rename into Claude's settings":         inProject,
	"make MCP servers":                      inProject,
	"make tasks of an editor":               inProject,
	"make this program's configuration":     inProject,
	"change what a shell reads on entering": inProject,
	"make a submodule's configuration":      inProject,
	"widen the mode of a protected file":    inProject,
	"signal everybody of the host":          "the process that holds it has the same number space",
}

const inProject = "Landlock has no rule against a part of what it allows"

func (w world) spaceless(t *testing.T) sandbox.Policy {
	p := w.policy(t)
	p.Hide, p.NoNamespaces = nil, true
	return p
}

func TestEscapesThatLandlockHoldsAlone(t *testing.T) {
	needLandlock(t)
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) {
			w, visitors := newWorld(t) // those that succeed leave theirs in disorder
			attempt(t, e, w, w.spaceless(t), heldByNamespaces[e.name])
			if n := visitors.Load(); n != 0 {
				t.Errorf("%d connections reached listeners of the host", n)
			}
			w.unchanged(t)
		})
	}
}

func TestProgramsWorkUnderLandlockAlone(t *testing.T) {
	needLandlock(t)
	w, _ := newWorld(t)
	for _, c := range []struct{ name, script, want string }{
		{"the project is read and written", `echo one >new && mkdir -p a/b && mv new a/b/ && cat a/b/new`, "one\n"},
		{"there is a private folder for temporary files", `echo x >"$TMPDIR/x" && mktemp >/dev/null && cat "$TMPDIR/x"`, "x\n"},
		{"devices", `echo x >/dev/null && head -c 2 /dev/zero | wc -c | tr -d " "`, "2\n"},
		{"pipes and background jobs", `(echo a & wait) | cat`, "a\n"},
		{"toolchains are read", `cat ~/go/pkg/mod/cache/x`, "module\n"},
		{"exit codes", `(exit 7); echo $?`, "7\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, code := confined(t, w.spaceless(t), "/bin/sh", "-c", c.script); out != c.want || code != 0 {
				t.Errorf("exit code %d, output %q, want %q", code, out, c.want)
			}
		})
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || strings.Contains(namesOf(left), "tidemark-sandbox-") {
		t.Errorf("a folder for temporary files stayed: %v", err)
	}
}

func namesOf(entries []os.DirEntry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, "\n")
}

func TestWhatLandlockCannotEnforceIsRefused(t *testing.T) {
	needLandlock(t)
	w, _ := newWorld(t)
	hides := w.spaceless(t)
	hides.Hide = []string{w.Project + "/store"}
	for name, p := range map[string]sandbox.Policy{
		"a store in the project": hides,
		"a host":                 w.spaceless(t).Widen(sandbox.Widening{Hosts: []string{"example.org"}}),
	} {
		cmd := exec.Command("/bin/true")
		if _, err := sandbox.Confine(p, cmd); !errors.Is(err, sandbox.ErrNone) || cmd.Path != "/bin/true" {
			t.Errorf("%s: %v, want ErrNone and an unchanged command", name, err)
		}
	}
}
