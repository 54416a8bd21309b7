package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutputsBecomeRows(t *testing.T) {
	for name, c := range map[string]struct {
		read   reader
		wanted int64
		out    string
		want   []row
	}{
		"crash, all blows of a trial together": {ofCrash, 5,
			`{"what":"lease","store":"files","where":"SIGKILL","count":3,"acknowledged":1000,"lost":0,"doubled":0,"unreadable":0,"hand":0,"note":"a"}` + "\n" +
				`{"what":"lease","store":"files","where":"SIGSTOP","count":2,"acknowledged":1,"lost":0,"doubled":0,"unreadable":0,"hand":1,"note":"b"}` + "\n",
			[]row{{Goal: "G", What: "lease: SIGKILL", Count: 3, Met: "yes", Figures: []string{"files", "1,000", "0", "0", "0", "0", "a"}},
				{Goal: "G", What: "lease: SIGSTOP", Count: 2, Met: "**no: broken**", Figures: []string{"files", "1", "0", "0", "0", "1", "b"}}}},
		"load": {ofLoad, 0,
			`{"followers":100,"writers":20,"nodes":2,"drained":3,"killed":2,"cut":9,"acknowledged":800,"lost":0,"doubled":0,"disorder":0,"told":4000,"p50_ms":3,"p99_ms":475}` + "\n",
			[]row{{Goal: "G", What: "20 writers, 100 followers, 2 servers", Count: 800, Met: "yes", Figures: []string{"3, 2, 9", "4,000", "0", "0", "0", "3 ms, 475 ms"}}}},
		"load, a write without a line in the audit log": {ofLoad, 1_000,
			`{"followers":10,"writers":60,"nodes":2,"killed":110,"acknowledged":800,"lost":0,"doubled":0,"disorder":0,"told":4000,"audit_lines":799,"audit_faults":1,"p50_ms":3,"p99_ms":475}` + "\n",
			[]row{{Goal: "G", What: "60 writers, 10 followers, 2 servers; 799 lines in the audit log, 1 missing, doubled or of nothing", Count: 800, Met: "**no: broken**", Figures: []string{"0, 110, 0", "4,000", "0", "0", "0", "3 ms, 475 ms"}}}},
		"load, the tenant moves": {ofLoad, 0,
			`{"followers":100,"writers":20,"nodes":2,"drained":2,"killed":2,"cut":9,"moved":6,"acknowledged":800,"lost":1,"doubled":0,"disorder":0,"told":4000,"p50_ms":3,"p99_ms":475}` + "\n",
			[]row{{Goal: "G", What: "20 writers, 100 followers, 2 servers, the tenant moves between databases (6)", Count: 800, Met: "**no: broken**", Figures: []string{"2, 2, 9", "4,000", "1", "0", "0", "3 ms, 475 ms"}}}},
		"fuzz": {ofFuzz, 2_000,
			"ok       12 known     2048 calls  example.org/m/search  FuzzWords\nok        0 known        0 calls  example.org/m/search  FuzzQuery\n" +
				"--- FAIL: FuzzFold\nFAIL                              example.org/m/search  FuzzFold\nfuzzed 3 targets for 1s each, 1 failed\n",
			[]row{{Goal: "G", What: "FuzzWords", Count: 2048, Met: "yes"}, {Goal: "G", What: "FuzzQuery", Met: "no: 0 of 2,000"}, {Goal: "G", What: "FuzzFold", Met: "**no: broken**"}}},
	} {
		rows, notRun, err := c.read(part{goal: "G", wanted: c.wanted}, 1, []byte(c.out))
		if d := cmp.Diff(c.want, rows); d != "" || notRun != "" || err != nil {
			t.Errorf("%s: %q, %v\n%s", name, notRun, err, d)
		}
	}
	for name, read := range map[string]reader{"crash": ofCrash, "load": ofLoad, "fuzz": ofFuzz} {
		if rows, notRun, err := read(part{}, 1, nil); rows != nil || notRun != "" || err == nil {
			t.Errorf("%s of nothing: %v, %q, %v", name, rows, notRun, err)
		}
	}
	if _, notRun, err := ofCrash(part{}, 1, []byte("skipped: not root\n")); notRun != "not root" || err != nil {
		t.Errorf("skipped: %q, %v", notRun, err)
	}
}

// tested is what go test -json prints, in short.
func tested(lines ...string) []byte {
	var all strings.Builder
	for _, l := range lines {
		f := strings.SplitN(l, " ", 3)
		all.WriteString(`{"Action":"` + f[0] + `","Package":"p"`)
		if len(f) > 1 && f[1] != "-" {
			all.WriteString(`,"Test":"` + f[1] + `"`)
		}
		if len(f) > 2 {
			all.WriteString(`,"Output":"` + f[2] + `\n"`)
		}
		all.WriteString("}\n")
	}
	return []byte(all.String())
}

func TestTestsBecomeARow(t *testing.T) {
	p := part{goal: "R8", what: "requests", wanted: 100}
	counted := tally{says: "%d requests to %d routes; %.1f s: %v", counts: []int{0}, figures: []string{"over {1} routes"}}
	out := tested("output A     a_test.go:12: 60 requests to 7 routes; 1.5 s: [x]", "pass A", "output B/x     a_test.go:12: 1040 requests to 7 routes; 1.5 s: []", "pass B/x", "pass B/y", "pass B", "pass -")
	for name, c := range map[string]struct {
		tally tally
		want  row
	}{
		"as the tests say":  {counted, row{Goal: "R8", What: "requests", Count: 1100, Met: "yes", Figures: []string{"over 14 routes"}}},
		"as was asked":      {tally{}, row{Goal: "R8", What: "requests", Count: 5, Met: "no: 5 of 100"}},
		"as many as passed": {tally{tests: true}, row{Goal: "R8", What: "requests", Count: 3, Met: "no: 3 of 100"}},
	} {
		rows, notRun, err := c.tally.read(p, 5, out)
		if d := cmp.Diff([]row{c.want}, rows); d != "" || notRun != "" || err != nil {
			t.Errorf("%s: %q, %v\n%s", name, notRun, err, d)
		}
	}
	if rows, _, err := (tally{says: "%d other things"}).read(p, 5, out); rows != nil || err == nil {
		t.Errorf("a count that nobody says: %v, %v", rows, err)
	}
	if rows, _, err := counted.read(p, 5, append(out, tested("fail C", "fail -")...)); err == nil || rows[0].Met != "**no: broken**" {
		t.Errorf("a test that fails: %v, %v", rows, err)
	}
	if _, _, err := counted.read(p, 5, []byte("# p\nx.go:1: undefined\n")); err == nil {
		t.Error("what was not compiled is taken for a success")
	}
	_, notRun, err := counted.read(p, 5, tested("output A     pg_test.go:3: PostgreSQL is not installed", "output A --- SKIP: A", "skip A", "pass -"))
	if notRun != "PostgreSQL is not installed" || err != nil {
		t.Errorf("skipped: %q, %v", notRun, err)
	}
}
