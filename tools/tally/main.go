// Command tally reads what go test -json writes and prints what a person wants
// of it: a line for each package, the output of what failed, the reason of
// what was skipped, and at the end how many tests there were. It exits with 1
// when something failed or when nothing was run.
//
//	go test -json ./... | tally
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := tally(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// name is what belongs to one test; a Test of "" is the package itself.
type name struct{ pkg, test string }

func tally(in io.Reader, out io.Writer) (ok bool, err error) {
	passed, failed, skipped, broken := 0, 0, 0, 0
	said := make(map[name]*strings.Builder)
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
		n := name{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			io.WriteString(out, e.Output)
		case "build-fail":
			broken++
		case "output":
			if said[n] == nil {
				said[n] = new(strings.Builder)
			}
			said[n].WriteString(e.Output)
		case "pass", "fail", "skip":
			what := said[n]
			delete(said, n)
			switch {
			case e.Test == "":
				if e.Action == "fail" {
					broken++
				}
				printPackage(out, what, e.Action == "fail")
			case e.Action == "pass":
				passed++
			case e.Action == "fail":
				failed++
				print(out, what)
			default:
				skipped++
				print(out, what)
			}
		}
	}
	for n, what := range said { // a test that never ended: a panic, a timeout
		if n.test != "" {
			print(out, what)
		}
	}
	fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed == 0 && broken == 0 && passed > 0, nil
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
