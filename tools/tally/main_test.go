package main

import (
	"strings"
	"testing"
)

func TestTallyCountsAndShowsWhatFailed(t *testing.T) {
	in := `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"chatter\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"    a_test.go:7: it broke\n"}
{"Action":"fail","Package":"a","Test":"TestBad"}
{"Action":"output","Package":"a","Test":"TestLess","Output":"    a_test.go:9: there is no tmux here\n"}
{"Action":"skip","Package":"a","Test":"TestLess"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
go: a word of go's own
`
	var out strings.Builder
	ok, err := tally(strings.NewReader(in), &out)
	want := `    a_test.go:7: it broke
    a_test.go:9: there is no tmux here
FAIL	a	0.1s
go: a word of go's own
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
	if ok, err := tally(strings.NewReader(in), &out); ok || err != nil {
		t.Errorf("tally = %v, %v, want false\n%s", ok, err, &out)
	}
}

func TestTallyIsRedWhenNothingRan(t *testing.T) {
	var out strings.Builder
	if ok, err := tally(strings.NewReader(""), &out); ok || err != nil {
		t.Errorf("tally of nothing = %v, %v, want false", ok, err)
	}
}
