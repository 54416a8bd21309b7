package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestWhatNpmBringsComesOnTheFirstRun runs deps.sh where nothing is installed,
// with stand-ins for apt-get and npm: npm is there only after apt-get was.
func TestWhatNpmBringsComesOnTheFirstRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Debian's packages are for Linux")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "path")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("clone/scripts/deps.sh", string(script))
	write("axe/package/axe.min.js", "axe")
	write("npm", "#!/bin/sh\nexec tar -czf axe-core-4.14.0.tgz -C "+dir+"/axe package\n")
	write("path/apt-get", "#!/bin/sh\necho \"$*\" >>"+dir+"/asked\ncase \" $* \" in *\" install \"*) cp "+dir+"/npm "+bin+"/npm;; esac\n")
	write("path/initdb", "") // so that nothing is said to PostgreSQL's packages
	write("path/sudo", "#!/bin/sh\nshift\nexec \"$@\"\n")
	for _, name := range []string{"bash", "sh", "env", "id", "dirname", "mktemp", "tar", "gzip", "mkdir", "mv", "rm", "cp"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "bash"), filepath.Join(dir, "clone/scripts/deps.sh"))
	cmd.Dir = filepath.Join(dir, "clone")
	cmd.Env = []string{"PATH=" + bin, "TMPDIR=" + dir, "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "clone/bin/axe.min.js")); err != nil || string(b) != "axe" {
		t.Errorf("%q, %v\n%s", b, err, out)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	for _, name := range []string{"npm", "nodejs", "procps", "git", "tmux"} {
		if !strings.Contains(string(asked), " "+name) {
			t.Errorf("%s was not asked for: %s, %v", name, asked, err)
		}
	}
}
