package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// section is one chapter of the page.
type section struct {
	name, title, text string
	count             string   // heading of the column of counts
	columns           []string // of the figures of its rows
}

var crashColumns = []string{"store", "acknowledged", "lost", "doubled", "unreadable", "by hand", "besides"}

var sections = []section{
	{"crash", "Crashes, power cuts, full disks, many writers", `*By hand* counts what a person would have had to put right. [reliability](reliability.md) describes the trials and what they do
not cover, has runs with other counts, and tells which planted faults they find. [Agents](agents.md) has what eight real
agents did: sessions that went on in each other, and watchers that were killed while they wrote.`, "blows", crashColumns},
	{"schedule", "Schedules and fleets", "Every occurrence of every schedule is accounted for, and nothing runs twice.", "kills", crashColumns},
	{"isolation", "Tenants, tokens and keys", "Whoever asks for what is another's is answered as if it did not exist.", "tried", []string{"found"}},
	{"hostile", "Hostile input, damage, modes", "What a stranger wrote is text, what was damaged is told, and nothing is open to others.", "tried", []string{"found"}},
	{"fuzz", "Fuzzing", "", "", nil},
	{"load", "A team's servers under load", `Entries acknowledged and told to followers while servers are told to end, are killed, and lose connections to the database. The
time from an acknowledgement to its arrival includes all of that; without it, see P13 of [Figures](benchmarks.md).`,
		"acknowledged", []string{"drained, killed, cut", "told", "lost", "doubled", "out of order", "p50, p99"}},
}

// shown is a part with the result that the page has of it.
type shown struct {
	part
	result
}

// writePage writes what is known into a file, "" for none.
func writePage(name string, parts []part, b *book, commit string) error {
	if name == "" {
		return nil
	}
	return os.WriteFile(name, []byte(page(parts, b, commit)), 0o600)
}

func page(parts []part, b *book, commit string) string {
	var all []shown
	for _, p := range parts {
		r, found := b.best(p.name, commit)
		if !found {
			r = result{Part: p.name, Commit: commit, Command: p.command(max(p.full, 1)).String(), NotRun: "it was not its turn yet"}
		}
		all = append(all, shown{p, r})
	}
	var text strings.Builder
	text.WriteString("# Evidence\n\n<!-- Made by make evidence, which overwrites what is changed here. -->\n\n")
	text.WriteString(preface(all, commit))
	for _, s := range sections {
		mine := slices.DeleteFunc(slices.Clone(all), func(one shown) bool { return one.section != s.name })
		fmt.Fprintf(&text, "\n## %s\n\n", s.title)
		switch s.name {
		case "fuzz":
			text.WriteString(fuzzTable(mine, commit))
		default:
			text.WriteString(s.text + "\n\n" + s.table(mine, commit))
		}
		text.WriteString(failures(mine))
	}
	return text.String()
}

func preface(all []shown, commit string) string {
	var failed, missing int
	var first, last time.Time
	var seconds float64
	var loads []float64
	for _, one := range all {
		switch {
		case one.NotRun != "":
			missing++
			continue
		case len(one.Failed) > 0:
			failed++
		}
		seconds += one.Seconds
		if first.IsZero() || one.At.Before(first) {
			first = one.At
		}
		if one.At.After(last) {
			last = one.At
		}
		if f, err := strconv.ParseFloat(one.Load, 64); err == nil {
			loads = append(loads, f)
		}
	}
	b := "What Tidemark promises, tried with the real program. `make evidence` makes this page in some hours; interrupted, it goes on\n" +
		"where it was. `make evidence EVIDENCE=-short` takes minutes, `EVIDENCE='-share 0.1'` a tenth of the counts, `EVIDENCE='-only crash'` one\n" +
		"chapter, and each row has the command that repeats it alone.\n\n- machine: " + machine.Look(".").String()
	if len(loads) > 0 {
		b += fmt.Sprintf("; its load was %.1f to %.1f when parts began", slices.Min(loads), slices.Max(loads))
	}
	b += fmt.Sprintf("\n- commit: %s; a row of another one says so\n", commit)
	if !first.IsZero() {
		b += fmt.Sprintf("- run: from %s to %s UTC, %s of work\n", stamp(first), stamp(last), took(seconds))
	}
	b += fmt.Sprintf("- parts: %d of %d ran, %d failed\n", len(all)-missing, len(all), failed)
	return b + "\n*Met* is `yes` when a promise held as often as the goal wants it tried; `no: 150 of 10,000` is one that held and was tried less\n" +
		"often. A goal is met when all its rows are.\n\n" + goalTable(all)
}

// table is the table of a section whose rows are all alike.
func (s section) table(all []shown, commit string) string {
	head := append([]string{"goal", "what", s.count}, s.columns...)
	head = append(head, "met", "when", "again")
	var b strings.Builder
	b.WriteString(line(head...) + line(slices.Repeat([]string{"---"}, len(head))...))
	for _, one := range all {
		rows := one.Rows
		if len(rows) == 0 { // it could not run, or did not get that far
			rows = []row{{Goal: one.goal, What: one.label()}}
		}
		for _, r := range rows {
			count := "–"
			if r.Count > 0 {
				count = grouped(r.Count)
			}
			cells := append([]string{r.Goal, r.What, count}, r.Figures...)
			for len(cells) < 3+len(s.columns) {
				cells = append(cells, "")
			}
			met := r.Met
			switch {
			case one.NotRun != "":
				met = "not run: " + one.NotRun
			case len(one.Failed) > 0 && met != verdict(false, 0, 0):
				met = "**failed**"
			}
			b.WriteString(line(append(cells, met, one.when(commit), "`"+one.Command+"`")...))
		}
	}
	return b.String()
}

// label is the name of a part that has no row to name it.
func (one shown) label() string {
	if one.what != "" {
		return one.what
	}
	return one.name
}

// when says when a part ran and how long it took, and at which commit, if that
// is another one.
func (one shown) when(commit string) string {
	if one.NotRun != "" {
		return ""
	}
	s := stamp(one.At) + ", " + took(one.Seconds)
	if one.Commit != commit {
		s += ", at " + one.Commit
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// took writes a time in the unit that people would.
func took(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 100*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// line is a line of a table.
func line(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(c)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// failures are the last lines of the parts that failed.
func failures(all []shown) string {
	var b strings.Builder
	for _, one := range all {
		if len(one.Failed) > 0 {
			fmt.Fprintf(&b, "\n**%s failed**, `%s`, %s:\n\n```text\n%s\n```\n", one.name, one.Command, stamp(one.At), strings.ReplaceAll(strings.Join(one.Failed, "\n"), "```", "'''"))
		}
	}
	return b.String()
}

// fuzzTable has a line for each room, with all its targets.
func fuzzTable(all []shown, commit string) string {
	var targets, reached, executions int64
	var b strings.Builder
	b.WriteString(line("room", "targets, with executions", "met", "when", "again") + line("---", "---", "---", "---", "---"))
	for _, one := range all {
		var each []string
		enough := 0
		broken := len(one.Failed) > 0
		for _, r := range one.Rows {
			each = append(each, fmt.Sprintf("%s %s", r.What, grouped(r.Count)))
			executions += r.Count
			if r.Met == "yes" {
				enough++
			}
		}
		targets += int64(len(each))
		reached += int64(enough)
		met := fmt.Sprintf("no: %d of %d", enough, len(each))
		switch {
		case one.NotRun != "":
			met = "not run: " + one.NotRun
		case broken:
			met = "**failed**"
		case enough == len(each):
			met = "yes"
		}
		b.WriteString(line(one.what, strings.Join(each, ", "), met, one.when(commit), "`"+one.Command+"`"))
	}
	return fmt.Sprintf("%s targets, %s executions; %s targets had the 10,000,000 that the goal asks for. Known inputs are tried by `make test` as well.\n\n",
		grouped(targets), grouped(executions), grouped(reached)) + b.String()
}
