package main

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"strings"
)

//go:embed skips.txt
var skips string

// skip is a test that was not run, and what it said about that.
type skip struct {
	name
	reason string
}

// leave is a line of skips.txt that holds here.
type leave struct {
	*regexp.Regexp
	why string
}

// leaves reads the list, and keeps what holds for a system, a user and a quick
// run.
func leaves(list, system string, user int, quick bool) (all []leave, err error) {
	holds := map[string]bool{"always": true, "quick": quick, "user": user != 0, "elsewhere": system != "linux"}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		when, rest, _ := strings.Cut(line, " | ")
		pattern, why, _ := strings.Cut(rest, " | ")
		when = strings.TrimSpace(when)
		if _, known := holds[when]; !known || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("skips.txt: %q: want always, quick, user or elsewhere | PATTERN | REASON", line)
		}
		re, err := regexp.Compile(strings.TrimSpace(pattern))
		if err != nil {
			return nil, fmt.Errorf("skips.txt: %w", err)
		}
		if holds[when] {
			all = append(all, leave{re, strings.TrimSpace(why)})
		}
	}
	return all, nil
}

// reason is what a test said, without what go says about it.
func reason(what *strings.Builder) string {
	if what == nil {
		return ""
	}
	var said []string
	for line := range strings.Lines(what.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// printSkips prints what was skipped: with leave and its reason, and without.
// It reports whether there was leave for all.
func printSkips(out io.Writer, skipped []skip, list []leave) bool {
	var without []skip
	head := "skipped:\n"
	for _, s := range skipped {
		text, given := s.String()+": "+s.reason, ""
		for _, l := range list {
			if l.MatchString(text) {
				given = l.why
				break
			}
		}
		if given == "" {
			without = append(without, s)
			continue
		}
		fmt.Fprintf(out, "%s  %s: %s\n", head, s.name, given)
		head = ""
	}
	for i, s := range without {
		if i == 0 {
			fmt.Fprintln(out, "skipped for a reason that tools/tally/skips.txt does not have, which is a failure:")
		}
		fmt.Fprintf(out, "  %s: %s\n", s.name, s.reason)
	}
	return len(without) == 0
}
