// Command tally reads what go test -json writes and prints what a person wants
// of it: a line for each package, the output of what failed, and at the end the
// slowest tests, what was skipped with its reason, and how many tests there
// were. It exits with 1 when something failed, when nothing was run, or when a
// test was skipped for a reason that is not in skips.txt.
//
//	go test -json ./... | tally
//	go test -json -short ./... | tally -quick
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

func main() {
	leave, err := leaves(skips, runtime.GOOS, os.Geteuid(), slices.Contains(os.Args[1:], "-quick"))
	if err == nil {
		var ok bool
		if ok, err = tally(os.Stdin, os.Stdout, leave); ok && err == nil {
			return
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	os.Exit(1)
}

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// name is what belongs to one test; a Test of "" is the package itself.
type name struct{ pkg, test string }

func (n name) String() string { return n.pkg + " " + n.test }

// sum is what became of the tests.
type sum struct {
	out                    io.Writer
	passed, failed, broken int
	said                   map[name]*strings.Builder
	skipped                []skip
	times                  []timed
}

type timed struct {
	name
	seconds float64
}

func tally(in io.Reader, out io.Writer, leave []leave) (ok bool, err error) {
	s := sum{out: out, said: make(map[name]*strings.Builder)}
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			out.Write(line) // go itself speaks, not a test
			continue
		}
		s.take(e)
	}
	for n, what := range s.said { // a test that never ended: a panic, a timeout
		if n.test != "" {
			print(out, what)
		}
	}
	s.printSlowest()
	allowed := printSkips(out, s.skipped, leave)
	fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped))
	return s.failed == 0 && s.broken == 0 && s.passed > 0 && allowed, nil
}

func (s *sum) take(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(s.out, e.Output)
	case "build-fail":
		s.broken++
	case "output":
		if s.said[n] == nil {
			s.said[n] = new(strings.Builder)
		}
		s.said[n].WriteString(e.Output)
	case "pass", "fail", "skip":
		what := s.said[n]
		delete(s.said, n)
		if e.Test != "" && !strings.Contains(e.Test, "/") {
			s.times = append(s.times, timed{n, e.Elapsed})
		}
		switch {
		case e.Test == "":
			if e.Action == "fail" {
				s.broken++
			}
			printPackage(s.out, what, e.Action == "fail")
		case e.Action == "pass":
			s.passed++
		case e.Action == "fail":
			s.failed++
			print(s.out, what)
		default:
			s.skipped = append(s.skipped, skip{n, reason(what)})
		}
	}
}

// printSlowest prints the ten tests that took longest.
func (s *sum) printSlowest() {
	slices.SortStableFunc(s.times, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	if len(s.times) == 0 {
		return
	}
	fmt.Fprintln(s.out, "slowest:")
	for _, t := range s.times[:min(10, len(s.times))] {
		fmt.Fprintf(s.out, "%8.1f s  %s\n", t.seconds, t.name)
	}
}

func print(out io.Writer, what *strings.Builder) {
	if what != nil {
		io.WriteString(out, what.String())
	}
}

// printPackage prints the closing line of a package, and of one that failed
// everything that it said.
func printPackage(out io.Writer, what *strings.Builder, failed bool) {
	if what == nil {
		return
	}
	for line := range strings.Lines(what.String()) {
		if failed || strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "?") {
			io.WriteString(out, line)
		}
	}
}
