package main

import (
	"errors"
	"fmt"
	"strings"
)

// report is what was found.
type report struct {
	Day      string
	Versions []string
	Cells    []cell
	Through  []string
	Hooks    map[string]bool
	Kills    kills
}

// notRun are tools that sessions come from, or could go on in, and that were not run.
var notRun = []string{"opencode", "kilo-cli", "gemini-cli", "qwen-code", "pi", "kimi-code"}

// markdown is the report for people.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Agents that sessions went on in\n\nMade by `make clients` on %s, from runs of the agents themselves against a scripted model: %s.\n\n", r.Day, strings.Join(r.Versions, ", "))
	b.WriteString("A session of the tool on the left goes on in the tool above, with `tidemark resume`. What that then asks its model is compared with what the session holds: texts, calls, results and images that are there as such, of how many. ")
	b.WriteString("Each goes on twice; what comes back has to be one prompt and one answer in the same session, with nothing changed before them.\n\n")
	head := append(names(), notRun...)
	fmt.Fprintf(&b, "| from | %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)+1))
	for _, from := range append(append([]string{here}, names()...), notRun...) {
		fmt.Fprintf(&b, "| %s |", from)
		for _, in := range head {
			fmt.Fprintf(&b, " %s |", r.cell(from, in))
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe session of Tidemark has an image; those of the others have none. A session that goes on in its own tool is that tool's.\n\n## Through all of them\n\n")
	fmt.Fprintf(&b, "A session of Tidemark through %s, twice around, and an import of everything afterwards: %s.\n", strings.Join(names(), " and "), fine(r.Through, "one session, only what was new, and every prompt was in what each was asked"))
	b.WriteString("\n## Hooks\n\nThose of [the watcher's page](guide/watch.md), without a watcher:\n\n")
	for _, c := range clients {
		said := "the turn was not kept"
		if r.Hooks[c.tool] {
			said = "the turn was kept"
		}
		fmt.Fprintf(&b, "- %s: %s\n", c.title, said)
	}
	b.WriteString("\n## A watcher that is killed\n\n")
	if r.Kills.Kills == 0 {
		b.WriteString("Not run.\n")
	} else {
		fmt.Fprintf(&b, "Killed %d times at moments of chance while the agents worked (%d runs, %d sessions, %d entries); then compared with an import of everything at once, entry by entry: %s.\n",
			r.Kills.Kills, r.Kills.Runs, r.Kills.Sessions, r.Kills.Entries, fine(r.Kills.Wrong, "the same"))
	}
	return b.String()
}

func fine(wrong []string, good string) string {
	if len(wrong) == 0 {
		return good
	}
	return "**" + strings.Join(wrong, "; ") + "**"
}

// cell is one of the matrix.
func (r report) cell(from, in string) string {
	for _, c := range r.Cells {
		if c.From != from || c.In != in {
			continue
		}
		var all []string
		for _, n := range []struct {
			count
			name string
		}{{c.Carried.Texts, "texts"}, {c.Carried.Calls, "calls"}, {c.Carried.Results, "results"}, {c.Carried.Images, "images"}} {
			if n.Of == 0 {
				continue
			}
			as := ""
			if n.AsText > 0 {
				as = fmt.Sprintf(", %d as text", n.AsText)
			}
			all = append(all, fmt.Sprintf("%s %d/%d%s", n.name, n.N, n.Of, as))
		}
		return strings.Join(append(all, c.bad()...), "; ")
	}
	return "not run"
}

func (c cell) bad() (all []string) {
	for _, w := range c.Wrong {
		all = append(all, "**"+w+"**")
	}
	return all
}

// failed is an error if something is not as it should be.
func (r report) failed() error {
	var errs []error
	for _, c := range r.Cells {
		for _, w := range append(c.Wrong, c.Carried.Lost...) {
			errs = append(errs, fmt.Errorf("%s in %s: %s", c.From, c.In, w))
		}
	}
	for _, w := range append(r.Through, r.Kills.Wrong...) {
		errs = append(errs, errors.New(w))
	}
	for _, c := range clients {
		if !r.Hooks[c.tool] {
			errs = append(errs, fmt.Errorf("the hook of %s kept nothing", c.title))
		}
	}
	return errors.Join(errs...)
}
