package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reader turns the output of a part that was tried n times into rows. notRun is
// the reason when this machine cannot run it.
type reader func(p part, n int64, out []byte) (rows []row, notRun string, err error)

// verdict says whether a goal is met: the promise held, as often as the goal
// wants it tried.
func verdict(held bool, count, wanted int64) string {
	switch {
	case !held:
		return "**no: broken**"
	case count < wanted:
		return fmt.Sprintf("no: %s of %s", grouped(count), grouped(wanted))
	}
	return "yes"
}

// grouped writes a number with a comma at every thousand.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// objects decodes what is printed as a JSON object a line.
func objects[T any](out []byte) (all []T, notRun string, err error) {
	for line := range bytes.Lines(out) {
		if reason, ok := bytes.CutPrefix(line, []byte("skipped: ")); ok {
			return nil, strings.TrimSpace(string(reason)), nil
		}
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, "", fmt.Errorf("%.80q is no row: %w", line, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, "", errors.New("it printed no row")
	}
	return all, "", nil
}

// ofCrash reads the rows of workshop/crash.
func ofCrash(p part, _ int64, out []byte) (rows []row, notRun string, err error) {
	type found struct {
		What, Store, Where, Note                             string
		Count, Acknowledged, Lost, Doubled, Unreadable, Hand int64
	}
	all, notRun, err := objects[found](out)
	var tried int64 // the goals count everything that a trial does together
	for _, f := range all {
		tried += f.Count
	}
	for _, f := range all {
		held := f.Lost+f.Doubled+f.Unreadable+f.Hand == 0
		rows = append(rows, row{Goal: p.goal, What: f.What + ": " + f.Where, Count: f.Count, Met: verdict(held, tried, p.wanted),
			Figures: []string{f.Store, grouped(f.Acknowledged), grouped(f.Lost), grouped(f.Doubled), grouped(f.Unreadable), grouped(f.Hand), f.Note}})
	}
	return rows, notRun, err
}

// ofLoad reads the row of workshop/load. How late followers are while nothing is
// struck is measured by workshop/bench.
func ofLoad(p part, _ int64, out []byte) (rows []row, notRun string, err error) {
	type found struct {
		Followers, Writers, Nodes, Drained, Killed, Cut int64
		Failovers, Upgraded, Moved, Chilled             int64
		Acknowledged, Lost, Doubled, Disorder, Told     int64
		AuditLines                                      int64 `json:"audit_lines"`
		AuditFaults                                     int64 `json:"audit_faults"`
		P50                                             int64 `json:"p50_ms"`
		P99                                             int64 `json:"p99_ms"`
	}
	all, notRun, err := objects[found](out)
	for _, f := range all {
		what := fmt.Sprintf("%s writers, %s followers, %d servers", grouped(f.Writers), grouped(f.Followers), f.Nodes)
		for _, besides := range []struct {
			n    int64
			text string
		}{{f.Failovers, "the database fails over"}, {f.Upgraded, "servers of the version before make way"}, {f.Moved, "the tenant moves between databases"}, {f.Chilled, "older lines move to storage that is killed"}} {
			if besides.n > 0 {
				what += fmt.Sprintf(", %s (%d)", besides.text, besides.n)
			}
		}
		if f.AuditLines > 0 {
			what += fmt.Sprintf("; %s lines in the audit log, %d missing, doubled or of nothing", grouped(f.AuditLines), f.AuditFaults)
		}
		rows = append(rows, row{Goal: p.goal, What: what, Count: f.Acknowledged, Met: verdict(f.Lost+f.Doubled+f.Disorder+f.AuditFaults == 0, f.Acknowledged, p.wanted),
			Figures: []string{fmt.Sprintf("%d, %d, %d", f.Drained, f.Killed, f.Cut), grouped(f.Told), grouped(f.Lost), grouped(f.Doubled), grouped(f.Disorder),
				fmt.Sprintf("%d ms, %d ms", f.P50, f.P99)}})
	}
	return rows, notRun, err
}

// fuzzed matches a line of scripts/fuzz.sh.
var fuzzed = regexp.MustCompile(`(?m)^(ok|FAIL) +(?:(\d+) known +(\d+) calls +)?\S+ +(Fuzz\w+)$`)

// ofFuzz reads the lines of scripts/fuzz.sh.
func ofFuzz(p part, _ int64, out []byte) (rows []row, _ string, err error) {
	for _, m := range fuzzed.FindAllSubmatch(out, -1) {
		calls, _ := strconv.ParseInt(string(m[3]), 10, 64) // "": it failed before the first
		rows = append(rows, row{Goal: p.goal, What: string(m[4]), Count: calls, Met: verdict(string(m[1]) == "ok", calls, p.wanted)})
	}
	if len(rows) == 0 {
		err = errors.New("it fuzzed nothing")
	}
	return rows, "", err
}

// tally says how to read the output of tests.
type tally struct {
	// says is the format of the line in which the tests print their counts.
	// All such lines are added up. "": they print none.
	says string
	// counts are the numbers of that line that count what was tried. Without
	// any, it is the requested count, or with tests the number of tests.
	counts []int
	tests  bool
	// figures go under the columns of the section. {0} stands for a number of
	// the line.
	figures []string
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

func events(out []byte) (all []event) {
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			e = event{Action: "output", Output: string(line)} // of the compiler
		}
		all = append(all, e)
	}
	return all
}

// plain is the output of go test without -json, or the text itself.
func plain(out []byte) []byte {
	var text []byte
	for _, e := range events(out) {
		text = append(text, e.Output...)
	}
	return text
}

// read makes a row of what tests printed.
func (y tally) read(p part, n int64, out []byte) (rows []row, notRun string, err error) {
	all := events(out)
	passed, skipped, failed := outcomes(all)
	if failed {
		return []row{{Goal: p.goal, What: p.what, Met: verdict(false, 0, 0)}}, "", errors.New("a test failed")
	}
	if passed == 0 {
		return nil, skipped, onlyIf(skipped == "", errors.New("no test ran"))
	}
	count := n
	var figures []int64
	if y.says != "" {
		if figures = sums(y.says, all); figures == nil {
			return nil, "", fmt.Errorf("no test says %q", y.says)
		}
	}
	switch {
	case y.tests:
		count = passed
	case len(y.counts) > 0:
		count = 0
		for _, i := range y.counts {
			count += figures[i]
		}
	}
	r := row{Goal: p.goal, What: p.what, Count: count, Met: verdict(true, count, p.wanted)}
	for _, f := range y.figures {
		for i, v := range figures {
			f = strings.ReplaceAll(f, fmt.Sprintf("{%d}", i), grouped(v))
		}
		r.Figures = append(r.Figures, f)
	}
	return []row{r}, "", nil
}

func onlyIf(wrong bool, err error) error {
	if !wrong {
		return nil
	}
	return err
}

// outcomes counts the tests that passed, counting subtests instead of a test
// that has some, and returns the reason of a skipped one.
func outcomes(all []event) (passed int64, skipped string, failed bool) {
	parents, ended := make(map[string]bool), make(map[string]bool)
	last := make(map[string]string) // the last line of each, except for its own end
	for _, e := range all {
		name := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			if said := strings.TrimSpace(e.Output); said != "" && !strings.HasPrefix(said, "---") && !strings.HasPrefix(said, "===") {
				last[name] = said
			}
		case "fail", "build-fail":
			failed = true
		case "skip":
			if e.Test != "" {
				skipped = afterPlace.ReplaceAllString(last[name], "")
			}
		case "pass":
			if e.Test == "" {
				continue
			}
			ended[name] = true
			for i, c := range name {
				if c == '/' && i > len(e.Package) {
					parents[name[:i]] = true
				}
			}
		}
	}
	for name := range ended {
		if !parents[name] {
			passed++
		}
	}
	return passed, skipped, failed
}

// afterPlace matches the place where a test logged something.
var afterPlace = regexp.MustCompile(`^\w+\.go:\d+: `)

// verb is one of those with which tests print what they counted.
var verb = regexp.MustCompile(`%[.\d]*[a-z]`)

// sums adds up the integers of all lines that a format made, nil where it made
// none.
func sums(format string, all []event) (total []int64) {
	pattern, at := "^", 0
	for _, m := range verb.FindAllStringIndex(format, -1) {
		pattern += regexp.QuoteMeta(format[at:m[0]])
		if format[m[0]:m[1]] == "%d" {
			pattern += `(\d+)`
		} else {
			pattern += `.*`
		}
		at = m[1]
	}
	line := regexp.MustCompile(pattern + regexp.QuoteMeta(format[at:]))
	for _, e := range all {
		m := line.FindStringSubmatch(afterPlace.ReplaceAllString(strings.TrimSpace(e.Output), ""))
		for i := range m[min(1, len(m)):] {
			n, _ := strconv.ParseInt(m[i+1], 10, 64) // digits alone
			if i == len(total) {
				total = append(total, 0)
			}
			total[i] += n
		}
	}
	return slices.Clip(total)
}
