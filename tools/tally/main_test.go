package main

import (
	"strings"
	"testing"
)

func TestTallyCountsAndShowsWhatFailed(t *testing.T) {
	in := `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"chatter\n"}
{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":1.25}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    a_test.go:7: it broke\n"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"output","Package":"a","Test":"TestLess","Output":"    a_test.go:9: there is no tmux here\n"}
{"Action":"skip","Package":"a","Test":"TestLess"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
go: a word of go's own
`
	var out strings.Builder
	ok, err := tally(strings.NewReader(in), &out, nil)
	want := `    a_test.go:7: it broke
FAIL	a	0.1s
go: a word of go's own
slowest:
     1.2 s  a TestGood
     0.0 s  a TestBad
     0.0 s  a TestLess
skipped for a reason that tools/tally/skips.txt does not have, which is a failure:
  a TestLess: a_test.go:9: there is no tmux here
tests: 1 passed, 1 failed, 1 skipped
`
	if ok || err != nil || out.String() != want {
		t.Errorf("tally = %v, %v and\n%s\nwant false and\n%s", ok, err, &out, want)
	}
}

func TestTallyIsRedWhenAPackageDoesNotBuild(t *testing.T) {
	in := `{"Action":"pass","Package":"a","Test":"TestGood"}
{"ImportPath":"b","Action":"build-output","Output":"b.go:1: no\n"}
{"ImportPath":"b","Action":"build-fail"}
`
	var out strings.Builder
	if ok, err := tally(strings.NewReader(in), &out, nil); ok || err != nil {
		t.Errorf("tally = %v, %v, want false\n%s", ok, err, &out)
	}
}

func TestTallyIsRedWhenNothingRan(t *testing.T) {
	var out strings.Builder
	if ok, err := tally(strings.NewReader(""), &out, nil); ok || err != nil {
		t.Errorf("tally of nothing = %v, %v, want false", ok, err)
	}
}

func TestTallyIsRedWhenATestIsSkippedWithoutLeave(t *testing.T) {
	in := `{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestLess","Output":"=== RUN   TestLess\n"}
{"Action":"output","Package":"m/a","Test":"TestLess","Output":"    a_test.go:9: there is no tmux here\n"}
{"Action":"output","Package":"m/a","Test":"TestLess","Output":"--- SKIP: TestLess (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestLess"}
`
	for list, want := range map[string]bool{
		"":                                      false,
		"always | /a TestLess: .*tmux | it may": true,
		"user | /a TestLess: .*tmux | it may":   false, // root could install it
		"elsewhere | /a TestLess: .*tmux | it may": false,
		"always | /b TestLess: .*tmux | it may":    false,
		"always | /a TestLess: .*bash | it may":    false,
	} {
		leave, err := leaves(list, "linux", 0, false)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ok, err := tally(strings.NewReader(in), &out, leave)
		if ok != want || err != nil {
			t.Errorf("with leave %q: %v, %v\n%s", list, ok, err, &out)
		}
		if told := strings.Contains(out.String(), "skipped:\n  m/a TestLess: it may\n"); told != want {
			t.Errorf("with leave %q it says\n%s", list, &out)
		}
	}
	for _, quick := range []bool{true, false} {
		if leave, err := leaves("quick | postgres | it may", "linux", 0, quick); err != nil || (len(leave) == 1) != quick {
			t.Errorf("quick %v: %d lines hold, %v", quick, len(leave), err)
		}
	}
	if leave, err := leaves("user | tmux | it may\nelsewhere | tmux | it may", "darwin", 501, false); err != nil || len(leave) != 2 {
		t.Errorf("elsewhere: %v, %v", leave, err)
	}
}

func TestTheListOfSkipsIsWellFormed(t *testing.T) {
	if all, err := leaves(skips, "linux", 0, false); err != nil || len(all) == 0 {
		t.Errorf("%d lines, %v", len(all), err)
	}
	for _, wrong := range []string{"tmux", "always | tmux", "never | tmux | why", "always | ( | why"} {
		if _, err := leaves(wrong, "linux", 0, false); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
