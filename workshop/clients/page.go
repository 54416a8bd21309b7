package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// page is what was found, for people.
func (w *workshop) page() string {
	var b strings.Builder
	b.WriteString("# Agents that sessions went on in\n\nMade by `make clients` from runs of the agents themselves, as npm has them, against a scripted model")
	if days := w.days(); len(days) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(days, ", "))
	}
	b.WriteString(". What was not run says so.\n")
	w.matrixPage(&b)
	w.writersPage(&b)
	w.repairsPage(&b)
	w.restPage(&b)
	return b.String()
}

// days are those on which something was tried.
func (w *workshop) days() (all []string) {
	for _, one := range w.found {
		if !slices.Contains(all, one.Day) {
			all = append(all, one.Day)
		}
	}
	slices.Sort(all)
	return all
}

func (w *workshop) matrixPage(b *strings.Builder) {
	b.WriteString(`
## From any in any

A session of the agent on the left goes on in the agent above, with ` + "`tidemark resume`" + `. What that then asks its model is compared with what the
session holds: texts, calls, results and images, in order. "All" says that all of them are there, as such. Each goes on twice; what comes back has to be
one prompt and one answer in the same session, with nothing changed before them. "Without" is what the format of the agent above has no place for.
The session of Tidemark has an image; those of the others have none. A session that goes on in its own agent is that agent's.

`)
	fmt.Fprintf(b, "| from |")
	for _, c := range clients {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprintf(b, "\n|%s\n", strings.Repeat(" --- |", len(clients)+1))
	row := func(title, from string) {
		fmt.Fprintf(b, "| %s |", title)
		for _, in := range clients {
			fmt.Fprintf(b, " %s |", w.cell("in "+in.tool+" from "+from))
		}
		b.WriteString("\n")
	}
	row("Tidemark", here)
	for _, c := range clients {
		row(c.title, c.tool)
	}
}

// cell is one of the matrix.
func (w *workshop) cell(id string) string {
	one, there := w.found[id]
	if !there {
		return "not run"
	}
	var all []string
	if c := one.Carried; c != nil {
		for _, n := range []struct {
			count
			name string
		}{{c.Texts, "texts"}, {c.Calls, "calls"}, {c.Results, "results"}, {c.Images, "images"}} {
			if n.N < n.Of {
				all = append(all, fmt.Sprintf("%d of %d %s", n.N, n.Of, n.name))
			}
			if n.AsText > 0 {
				all = append(all, fmt.Sprintf("%d %s as text", n.AsText, n.name))
			}
		}
		if all == nil {
			all = []string{fmt.Sprintf("all %d", c.Texts.Of+c.Calls.Of+c.Results.Of+c.Images.Of)}
		}
	}
	if len(one.Lost) > 0 {
		all = append(all, "without "+strings.Join(one.Lost, ", "))
	}
	return strings.Join(append(all, bold(one.Wrong)...), "; ")
}

func bold(wrong []string) (all []string) {
	for _, w := range wrong {
		all = append(all, "**"+strings.ReplaceAll(w, "|", "\\|")+"**")
	}
	return all
}

func (w *workshop) writersPage(b *strings.Builder) {
	talks := converttest.Conversations()
	fmt.Fprintf(b, `
## What is written for each

%d conversations are written for each agent, and the agent lists them and goes on with them. All that was said has to be in what it then asks its model.

| agent | version | conversations | not as they are |
| --- | --- | --- | --- |
`, len(talks))
	for _, c := range clients {
		passed, run, version := 0, 0, ""
		var not []string
		for _, talk := range talks {
			one, there := w.found["writer "+c.tool+" "+talk.Name]
			if !there {
				continue
			}
			run, version = run+1, one.Version
			if len(one.Wrong) == 0 {
				passed++
			} else {
				not = append(not, talk.Name+": "+strings.Join(one.Wrong, "; "))
			}
		}
		if run == 0 {
			fmt.Fprintf(b, "| %s | | not run | |\n", c.title)
			continue
		}
		counted := fmt.Sprintf("%d of %d", passed, run)
		if run < len(talks) {
			counted += fmt.Sprintf("; %d not run", len(talks)-run)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", c.title, version, counted, strings.Join(bold(not), "<br>"))
	}
	var names []string
	for _, talk := range talks {
		names = append(names, talk.Name)
	}
	fmt.Fprintf(b, "\nThey are: %s.\n", strings.Join(names, ", "))
}

// repairsPage has what became of broken sessions.
func (w *workshop) repairsPage(b *strings.Builder) {
	fmt.Fprint(b, `
## Broken sessions

Sessions of six prompts are broken in one place and shown to their agent, which asks a model that refuses what providers refuse; then
[repaired](guide/repair.md), and the copy is shown to the agent. "Refused" are those that the agent or the model did not take, or that lost prompts;
an agent mends the others by itself. "Mended" are copies that were taken with every prompt.

| agent | version | tried | refused | mended | |
| --- | --- | --- | --- | --- | --- |
`)
	for _, tool := range repairable {
		c, _ := clientOf(tool)
		tried, refused, mended, version := 0, 0, 0, ""
		var wrong []string
		for _, id := range slices.Sorted(maps.Keys(w.found)) {
			one := w.found[id]
			if !strings.HasPrefix(id, "repair "+tool+" ") {
				continue
			}
			if tried, version = tried+1, one.Version; one.Said != takenAsItIs {
				refused++
			}
			if len(one.Wrong) == 0 {
				mended++
			}
			wrong = append(wrong, bold(one.Wrong)...)
		}
		if tried == 0 {
			fmt.Fprintf(b, "| %s | | not run | | | |\n", c.title)
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %s |\n", c.title, version, tried, refused, mended, strings.Join(wrong, "<br>"))
	}
	b.WriteString("\nHow the first of each kind is refused:\n\n| what is wrong | agent | what it says |\n| --- | --- | --- |\n")
	seen := make(map[string]bool)
	for _, id := range slices.Sorted(maps.Keys(w.found)) {
		what, found := strings.CutPrefix(id, "repair ")
		tool, kind, _ := strings.Cut(what, " ")
		kind, _, _ = strings.Cut(kind, ", round")
		if !found || seen[tool+kind] {
			continue
		}
		seen[tool+kind] = true
		fmt.Fprintf(b, "| %s | %s | %s |\n", kind, tool, strings.ReplaceAll(w.found[id].Said, "|", "\\|"))
	}
}

// restPage has what is about all agents.
func (w *workshop) restPage(b *strings.Builder) {
	b.WriteString("\n## Through all of them\n\n")
	if one, there := w.found["through"]; !there {
		b.WriteString("Not run.\n")
	} else {
		fmt.Fprintf(b, "A session of Tidemark through %s, twice around, and an import of everything afterwards: %s.\n", one.Said, fine(one.Wrong, "one session, only what was new, and every prompt was in what each was asked"))
	}
	b.WriteString("\n## Hooks\n\nThose of [the watcher's page](guide/watch.md), without a watcher:\n\n")
	for _, c := range clients {
		if hooked[c.tool] == nil {
			continue
		}
		said := "not run"
		if one, there := w.found["hook "+c.tool]; there {
			said = fine(one.Wrong, "the turn was kept")
		}
		fmt.Fprintf(b, "- %s: %s\n", c.title, said)
	}
	b.WriteString("\n## A watcher that is killed\n\n")
	if one, there := w.found["kills"]; !there {
		b.WriteString("Not run.\n")
	} else {
		fmt.Fprintf(b, "Killed %s; then compared with an import of everything at once, entry by entry: %s.\n", one.Said, fine(one.Wrong, "the same"))
	}
}

func fine(wrong []string, good string) string {
	if len(wrong) == 0 {
		return good
	}
	return strings.Join(bold(wrong), "; ")
}

// failed is an error if something is not as it should be.
func (w *workshop) failed() error {
	n := 0
	for id, one := range w.found {
		if len(one.Wrong) > 0 && w.only.MatchString(id) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return errors.New(fmt.Sprint(n, " trials went wrong"))
}
