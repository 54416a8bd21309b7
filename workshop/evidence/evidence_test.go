package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// helper says what a process of this test does instead of testing: print, or
// fail after that, or wait for ever.
const helper = "EVIDENCE_TEST_HELPER"

func TestMain(m *testing.M) {
	what, says, _ := strings.Cut(os.Getenv(helper), " ")
	switch what {
	case "":
		os.Exit(m.Run())
	case "hang":
		select {}
	}
	fmt.Println(says)
	if what == "fail" {
		fmt.Fprintln(os.Stderr, "it broke\nin the middle")
		os.Exit(1)
	}
	os.Exit(0)
}

// pretended is a part that a process of this test plays.
func pretended(name, does string) part {
	return part{name: name, section: "crash", goal: "R1", what: "the trial " + name, short: 2, full: 10, wanted: 10, read: ofCrash, command: func(int64) invocation {
		return invocation{env: helper + "=" + does, args: []string{os.Args[0]}}
	}}
}

// kept is what workshop/crash prints when nothing was lost.
const kept = `{"what":"SIGKILL","store":"sqlite","where":"real process","count":2,"acknowledged":12345,"lost":0,"doubled":0,"unreadable":0,"hand":0,"seconds":1,"note":"calm"}`

// atRoot goes where go.mod is, as people do.
func atRoot(t *testing.T) { t.Chdir("../..") }

func TestARunGoesOnWhereItWasAndShowsWhatFailed(t *testing.T) {
	dir := t.TempDir()
	o := options{state: filepath.Join(dir, "state.jsonl"), doc: filepath.Join(dir, "page.md")}
	parts := []part{pretended("first", "say "+kept), pretended("broken", "fail "+strings.Replace(kept, `"lost":0`, `"lost":7`, 1)),
		pretended("unable", "say skipped: this machine has no disk"), pretended("hanging", "hang")}
	try := func(ctx context.Context, log *watch) ([]string, error) {
		return (&tools{}).all(ctx, parts, o, "abc1234", log)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	log := &watch{word: "hanging", call: interrupt}
	failed, err := try(ctx, log)
	if err != context.Canceled || !slices.Equal(failed, []string{"broken"}) {
		t.Fatalf("interrupted: %v, %v\n%s", failed, err, log)
	}
	page := read(t, o.doc)
	for _, want := range []string{
		"| R1 | SIGKILL: real process | 2 | sqlite | 12,345 | 0 | 0 | 0 | 0 | calm | no: 2 of 10 |",
		"| R1 | SIGKILL: real process | 2 | sqlite | 12,345 | 7 | 0 | 0 | 0 | calm | **no: broken** |",
		"**broken failed**", "it broke\nin the middle", "not run: this machine has no disk", "| R1 | the trial hanging | – |", "- parts: 2 of 4 ran, 1 failed",
		"nothing is to repair by hand | no: in 0 of 4 rows |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	parts[3] = pretended("hanging", "say "+strings.Replace(kept, `"count":2`, `"count":10`, 1))
	log = &watch{}
	if failed, err = try(t.Context(), log); err != nil || !slices.Equal(failed, []string{"broken"}) {
		t.Fatalf("again: %v, %v\n%s", failed, err, log)
	}
	if !strings.Contains(log.String(), "first  is there") || strings.Contains(log.String(), "broken  is there") || !strings.Contains(log.String(), "unable  not run") {
		t.Errorf("what ran again:\n%s", log)
	}
	if page := read(t, o.doc); !strings.Contains(page, "| calm | yes |") {
		t.Errorf("the page lacks what was tried often enough:\n%s", page)
	}
}

// watch is a log that calls somebody when it reads a word.
type watch struct {
	bytes.Buffer
	word string
	call func()
}

func (w *watch) Write(p []byte) (int, error) {
	if w.call != nil && bytes.Contains(p, []byte(w.word)) {
		w.call()
	}
	return w.Buffer.Write(p)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestALineThatIsNotWholeIsForgotten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "made", "state.jsonl")
	for _, part := range []string{"a", "b"} {
		b, err := open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.add(result{Part: part, Count: 1, Commit: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.file.WriteString(`{"part":"to`); err != nil {
			t.Fatal(err)
		}
		b.close()
	}
	b, err := open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if len(b.results) != 2 || !b.has("b", 1, "x") || b.has("b", 2, "x") || b.has("b", 1, "y") {
		t.Errorf("%+v", b.results)
	}
}

func TestThePageShowsTheHighestCountAndAnyLaterFailure(t *testing.T) {
	ran := func(commit string, count int64) result { return result{Part: "p", Commit: commit, Count: count} }
	failed := ran("new", 2)
	failed.Failed = []string{"x"}
	unable := ran("new", 9)
	unable.NotRun = "no disk"
	old := ran("old", 100)
	for name, c := range map[string]struct {
		results []result
		want    result
	}{
		"higher":                  {[]result{ran("new", 1), ran("new", 5), ran("new", 3)}, ran("new", 5)},
		"this commit":             {[]result{old, ran("new", 1)}, ran("new", 1)},
		"this commit, first":      {[]result{ran("new", 1), old}, ran("new", 1)},
		"another, for want of it": {[]result{ran("older", 500), old}, old},
		"a later failure":         {[]result{ran("new", 5), failed}, failed},
		"held since, less often":  {[]result{failed, ran("new", 1)}, failed},
		"held since":              {[]result{failed, ran("new", 2)}, ran("new", 2)},
		"could not, then did":     {[]result{unable, ran("new", 1)}, ran("new", 1)},
		"did, then could not":     {[]result{ran("new", 1), unable}, ran("new", 1)},
	} {
		got, found := (&book{results: c.results}).best("p", "new")
		if d := cmp.Diff(c.want, got); !found || d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, found := (&book{}).best("p", "new"); found {
		t.Error("found something where nothing is")
	}
	one := shown{part{name: "p"}, result{Part: "p", Commit: "old", At: time.Unix(0, 0), Seconds: 61}}
	if got := one.when("new"); got != "1970-01-01 00:00, 61 s, at old" {
		t.Errorf("a row of another commit says %q", got)
	}
}

// A test that was renamed, or that no longer says what it counted, would leave
// a hole in the page hours after somebody started it.
func TestEveryTestThatIsNamedIsThereAndSaysItsCounts(t *testing.T) {
	atRoot(t)
	parts, err := everyPart()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, p := range parts {
		if names[p.name] || p.full < 1 || p.full < p.short {
			t.Errorf("%s: there twice, or tried less often in full", p.name)
		}
		names[p.name] = true
		args := p.command(p.full).args
		if args[1] == "run" && !slices.Contains(workshops, filepath.Base(args[2])) {
			t.Errorf("%s: %s is not built", p.name, args[2])
		}
		if args[1] != "test" {
			continue
		}
		run, rooms := args[slices.Index(args, "-run")+1], slices.DeleteFunc(args[slices.Index(args, "-run")+2:], func(a string) bool { return strings.HasPrefix(a, "-") })
		source := testsOf(t, rooms)
		for _, name := range strings.Split(strings.Trim(run, "^$()"), "|") {
			if !regexp.MustCompile(`\nfunc \w*` + name).MatchString(source) {
				t.Errorf("%s: no test in %v is called %s", p.name, rooms, name)
			}
		}
		if !strings.Contains(source, p.tally.says) {
			t.Errorf("%s: no test in %v says %q", p.name, rooms, p.tally.says)
		}
		if verbs := strings.Count(p.tally.says, "%d"); slices.ContainsFunc(p.tally.counts, func(i int) bool { return i >= verbs }) {
			t.Errorf("%s: %q has no number %v", p.name, p.tally.says, p.tally.counts)
		}
	}
	if fuzz := slices.DeleteFunc(parts, func(p part) bool { return p.section != "fuzz" }); len(fuzz) < 20 {
		t.Errorf("only %d rooms with fuzz targets", len(fuzz))
	}
}

func TestThePartsProgramsAreBuilt(t *testing.T) {
	atRoot(t)
	for _, name := range workshops {
		if _, err := os.Stat(filepath.Join(workshopFolder(name), "main.go")); err != nil {
			t.Error(err)
		}
	}
}

func testsOf(t *testing.T, rooms []string) string {
	t.Helper()
	var all strings.Builder
	for _, room := range rooms {
		patterns := []string{filepath.Join(room, "*_test.go")}
		if below, ok := strings.CutSuffix(room, "/..."); ok {
			patterns = []string{filepath.Join(below, "*_test.go"), filepath.Join(below, "*", "*_test.go")}
		}
		for _, pattern := range patterns {
			files, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				all.WriteString(read(t, name))
			}
		}
	}
	return all.String()
}

func TestEveryPartHasItsChapterAndItsGoal(t *testing.T) {
	atRoot(t)
	parts, err := everyPart()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == p.section }) {
			t.Errorf("%s is in no chapter", p.name)
		}
		if p.goal != "" && !slices.ContainsFunc(goals, func(g struct{ id, asks string }) bool { return g.id == p.goal }) {
			t.Errorf("%s is for %s, which is no goal", p.name, p.goal)
		}
		if i := slices.IndexFunc(sections, func(s section) bool { return s.name == p.section }); p.tally.figures != nil && len(p.tally.figures) != len(sections[i].columns) {
			t.Errorf("%s has %d figures for %d columns", p.name, len(p.tally.figures), len(sections[i].columns))
		}
	}
}

func TestUsageErrorsAreNamed(t *testing.T) {
	atRoot(t)
	for _, args := range [][]string{{"more"}, {"-share", "-1"}, {"-only", "burn"}, {"-burn"}} {
		var out, log bytes.Buffer
		if code := command(t.Context(), args, &out, &log); code != 2 || log.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: exit %d, %q", args, code, log.String())
		}
	}
	var out, log bytes.Buffer
	if code := command(t.Context(), []string{"-list", "-short", "-only", "kill-sqlite,load"}, &out, &log); code != 0 || strings.Count(out.String(), "\n") != 7 || !strings.Contains(out.String(), "-n 150") {
		t.Errorf("exit %d\n%s%s", code, out.String(), log.String())
	}
}

func TestCountsFollowTheShareAndAreNeverBelowTheShortOnes(t *testing.T) {
	p := part{short: 150, full: 10_000}
	for share, want := range map[float64]int64{0: 150, 0.001: 150, 0.1: 1_000, 1: 10_000, 10: 100_000} {
		if got := (options{share: share}).count(p); got != want {
			t.Errorf("a share of %g: %d, want %d", share, got, want)
		}
	}
	if got := (options{share: 0.1}).count(part{full: 2}); got != 1 {
		t.Errorf("a tenth of two: %d", got)
	}
}
