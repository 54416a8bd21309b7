package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

// bin is the program, built once.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidemark-tasks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = filepath.Join(dir, "tidemark")
	build := exec.Command("go", "build", "-o", bin, "github.com/tidemark-sessions/tidemark/cmd/tidemark")
	out, err := build.CombinedOutput()
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// newBench returns a bench with the stand-in. Scripts of ours may run where
// there is no sandbox.
func newBench(t *testing.T, wrong bool) bench {
	t.Helper()
	server := httptest.NewServer(standin.Handler())
	t.Cleanup(server.Close)
	work := t.TempDir()
	b := bench{bin: bin, work: work, turns: 20, timeout: 3 * time.Minute, sandbox: "on"}
	if err := (options{bin: bin, sandbox: "on"}).ready(t.Context(), work); err != nil {
		b.sandbox = "off"
	}
	b.scripted(server.URL, wrong)
	return b
}

// tried are all tasks, or with -short the first of each language.
func tried(t *testing.T) []task {
	t.Helper()
	all, err := allTasks()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		return slices.CompactFunc(all, func(a, b task) bool { return a.language() == b.language() })
	}
	return all
}

func TestThereAreThirtyTasksInFourLanguages(t *testing.T) {
	all, err := allTasks()
	if err != nil {
		t.Fatal(err)
	}
	languages := make(map[string]int)
	for _, one := range all {
		languages[one.language()]++
	}
	if len(all) < 30 || languages["go"] < 5 || languages["sh"] < 5 || languages["text"] < 5 || languages["py"] < 5 {
		t.Errorf("%d tasks: %v", len(all), languages)
	}
}

func TestATaskIsSolvedByItsScriptAndByNothingElse(t *testing.T) {
	for _, one := range tried(t) {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, false)
			dir := t.TempDir()
			if err := lay(filepath.Join(dir, "repo"), one.repo); err != nil {
				t.Fatal(err)
			}
			if solved, _, err := b.check(t.Context(), dir, one); err != nil || solved {
				t.Errorf("before anybody worked on it: solved %v, %v", solved, err)
			}
			r, err := b.run(t.Context(), one)
			if err != nil || !r.Solved || r.Error != "" {
				t.Errorf("by its script: %+v, %v", r, err)
			}
			if r.Turns != len(one.solve) || r.Stop != model.StopEnd || r.Usage.InputTokens == 0 {
				t.Errorf("the chat reports %+v for a script of %d steps", r, len(one.solve))
			}
			mistaken := newBench(t, true)
			if r, err := mistaken.run(t.Context(), one); err != nil || r.Solved || r.Turns != len(one.wrong) {
				t.Errorf("by a mistaken script: %+v, %v", r, err)
			}
		})
	}
}

func TestACheckIsNotWrittenThroughALink(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(dir, "repo")
	if err := os.Mkdir(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{checkFile: "../outside", "sub": ".."} {
		if err := os.Symlink(to, filepath.Join(repo, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := lay(repo, []txtar.File{{Name: checkFile, Data: []byte("exit 0\n")}}); err != nil {
		t.Fatal(err)
	}
	if err := lay(repo, []txtar.File{{Name: "sub/outside", Data: []byte("theirs")}}); err == nil {
		t.Error("a folder that leads outside was followed")
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("the file outside has %q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(repo, checkFile)); err != nil || string(b) != "exit 0\n" {
		t.Errorf("the check has %q, %v", b, err)
	}
}

func TestTheProgramReportsAndItsExitCodeSaysWhetherTheScriptsWereJudgedRightly(t *testing.T) {
	sandbox := newBench(t, false).sandbox
	for _, c := range []struct {
		args   []string
		solved int
	}{{nil, 1}, {[]string{"-wrong"}, 0}} {
		var out, log bytes.Buffer
		args := append([]string{"-bin", bin, "-json", "-only", "text-merge", "-sandbox", sandbox}, c.args...)
		if code := run(t.Context(), args, &out, &log); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, &log)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var s sum
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || len(lines) != 2 || s.Tasks != 1 || s.Solved != c.solved || s.Turns == 0 || s.Input == 0 {
			t.Errorf("%v: %v\n%s", args, err, &out)
		}
	}
	for _, args := range [][]string{{"-only", "no-such"}, {"more"}, {"-sandbox", "maybe"}, {"-model", "x"}, {"-wrong", "-provider", "demo"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), append([]string{"-bin", bin}, args...), &out, &log); code != 1 || log.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: exit %d, %s %s", args, code, &out, &log)
		}
	}
}

func TestTheReportAddsUp(t *testing.T) {
	all := []result{{Task: "go-a", Solved: true, Turns: 3, Seconds: 1.25, Usage: tidemark.Usage{InputTokens: 10, CacheReadTokens: 80, CacheWriteTokens: 10, OutputTokens: 7}},
		{Task: "sh-b", Turns: 2, Error: "no answer", Usage: tidemark.Usage{InputTokens: 5, OutputTokens: 1}}}
	var out bytes.Buffer
	if err := report(&out, all, false); err != nil {
		t.Fatal(err)
	}
	want := `TASK  OUTCOME                TURNS  IN   CACHED  OUT  SECONDS
go-a  solved                 3      100  80      7    1.2
sh-b  not solved: no answer  2      5    0       1    0.0
1 of 2 solved, 5 turns, 105 tokens in (80 of them cached), 8 out
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func FuzzTask(f *testing.F) {
	f.Add([]byte("Mend it.\n-- repo/a --\nx\n-- check/check.sh --\nfalse\n-- solve --\nedit {\"path\":\"a\"}\nsay done\n-- wrong --\nsay done\n"))
	f.Add([]byte("Mend it.\n-- repo/../a --\nx\n"))
	f.Add([]byte("Mend it.\n-- solve --\nsay a\nsay b\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		one, err := readTask("x", raw)
		if err != nil {
			return
		}
		for _, file := range slices.Concat(one.repo, one.check) {
			if !filepath.IsLocal(file.Name) {
				t.Fatalf("a file leads out: %q", file.Name)
			}
		}
		for _, s := range []script{one.solve, one.wrong} {
			if strings.Count(s.marks(), "[[fake ") < len(s) || s[len(s)-1].tool != "" {
				t.Fatalf("%+v became %q", s, s.marks())
			}
		}
	})
}
