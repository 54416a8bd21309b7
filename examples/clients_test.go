// Package examples_test runs the examples as they stand: the embedded store is killed, and the
// clients in Python and TypeScript talk to a real server, which is killed, too.
package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// build returns a program of this module.
func build(t *testing.T, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// need skips a test for want of a program, except where everything is to be
// there.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program+" is not installed")
	}
}

func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// run runs a command that has to succeed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := try(dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func try(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTheEmbeddedStoreKeepsWhatItAcknowledgedWhenItIsKilled(t *testing.T) {
	t.Parallel()
	bin, db := build(t, "./lines"), filepath.Join(t.TempDir(), "sessions.db")
	cmd := exec.Command(bin, db)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := bufio.NewScanner(out)
	for n := 1; n <= 5; n++ {
		fmt.Fprintln(in, "line", n)
		if want := fmt.Sprint("kept ", n); !acknowledged.Scan() || acknowledged.Text() != want {
			t.Fatalf("%q, want %q", acknowledged.Text(), want)
		}
	}
	// While it lives, nobody else writes.
	second := exec.Command(bin, db)
	if said, err := second.CombinedOutput(); err == nil || !strings.Contains(string(said), fmt.Sprintf("lines (pid %d", cmd.Process.Pid)) {
		t.Errorf("a second one: %v, %s", err, said)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	again := exec.Command(bin, db)
	again.Stdin = strings.NewReader("line 6\n")
	said, err := again.CombinedOutput() // at once: the death is proven
	want := "kept 6\n1 line 1\n2 line 2\n3 line 3\n4 line 4\n5 line 5\n6 line 6\n"
	if string(said) != want {
		t.Errorf("after the kill: %v, it says\n%s, want\n%s", err, said, want)
	}
}

func TestTheClientsOfAServerKeepTheirPromises(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these tests end a server with signals")
	}
	t.Parallel()
	env := []string{"TIDEMARK=" + build(t, "../cmd/tidemark"), "PYTHONDONTWRITEBYTECODE=1"}
	t.Run("python", func(t *testing.T) {
		t.Parallel() // each has a server of its own, and mostly waits
		need(t, "python3")
		t.Log(run(t, "python", env, "python3", "test_clients.py"))
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		need(t, "node")
		dir := typescript(t)
		t.Log(run(t, dir, env, "node", "--test", compiled(t, dir, "clients.test")))
	})
	// The examples of the guide, each language's as one program.
	t.Run("guide", func(t *testing.T) {
		t.Parallel()
		guide, err := os.ReadFile("../docs/guide/clients.md")
		if err != nil {
			t.Fatal(err)
		}
		env := serve(t, env)
		program := func(t *testing.T, dir, language string) {
			text := blocks(string(guide), language)
			if strings.Count(text, "\n") < 10 {
				t.Fatalf("the guide has next to no %s: %q", language, text)
			}
			if err := os.WriteFile(filepath.Join(dir, "guide."+language), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Run("python", func(t *testing.T) {
			need(t, "python3")
			dir := t.TempDir()
			program(t, dir, "python")
			clients, err := filepath.Abs("python")
			if err != nil {
				t.Fatal(err)
			}
			t.Log(run(t, dir, append(env, "PYTHONPATH="+clients), "python3", "guide.python"))
		})
		t.Run("typescript", func(t *testing.T) {
			need(t, "node")
			dir := typescript(t)
			program(t, dir, "ts")
			t.Log(run(t, dir, env, "node", compiled(t, dir, "guide")))
		})
	})
	// LangGraph, the suite that LangChain has for checkpointers, and the OpenAI
	// Agents SDK.
	t.Run("real libraries", func(t *testing.T) {
		if os.Getenv("TIDEMARK_TEST_NPM") == "" {
			t.Skip("it installs a hundred packages with npm: set TIDEMARK_TEST_NPM=1 to run it")
		}
		need(t, "node")
		dir := filepath.Join(typescript(t), "real")
		install(t, dir)
		t.Log(run(t, dir, env, "npm", "test"))
		t.Log(run(t, dir, env, "npm", "run", "validate"))
	})
}

// compiled returns what node runs of a TypeScript file. A new one leaves the
// types out by itself, so that nothing has to be installed.
func compiled(t *testing.T, dir, name string) string {
	t.Helper()
	var major, minor int
	version := run(t, ".", nil, "node", "--version")
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		t.Fatalf("node --version says %q: %v", version, err)
	}
	if major > 22 || major == 22 && minor >= 18 {
		return name + ".ts"
	}
	install(t, dir)
	run(t, dir, nil, "npm", "run", "build")
	return filepath.Join("dist", name+".js")
}

// serve starts a server with a store of its own, and returns the environment of
// its clients. It ends with the test.
func serve(t *testing.T, env []string) []string {
	t.Helper()
	home := t.TempDir()
	env = append(env, "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "TIDEMARK_TOKEN_FILE="+filepath.Join(home, "tidemark", "server.token"))
	cmd := exec.Command(strings.TrimPrefix(env[0], "TIDEMARK="), "serve", "--addr", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "Serving at "); ok {
			go io.Copy(io.Discard, said)
			return append(env, "TIDEMARK_STORE="+at, "TIDEMARK_TOKEN=")
		}
		t.Log(lines.Text())
	}
	t.Fatal("it does not serve")
	return nil
}

// blocks joins the fenced blocks of a language.
func blocks(page, language string) string {
	var all strings.Builder
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		all.WriteString(m[1] + "\n")
	}
	return all.String()
}

// typescript returns a copy of the folder, so that what npm installs is not
// left behind.
func typescript(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("typescript")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func install(t *testing.T, dir string) {
	t.Helper()
	need(t, "npm")
	if out, err := try(dir, nil, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"); err != nil {
		missing(t, "npm cannot install what the TypeScript example is compiled with: "+out)
	}
}
