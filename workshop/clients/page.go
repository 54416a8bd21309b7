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
	b.WriteString("\nWith which versions, and when:\n\n| in | version | day | from |\n| --- | --- | --- | --- |\n")
	for _, in := range clients {
		w.cellsRun(b, in)
	}
}

// cellsRun has the runs of a column: by which version of its agent, when, and with the
// sessions of which versions.
func (w *workshop) cellsRun(b *strings.Builder, in client) {
	from := make(map[[2]string][]string)
	for _, c := range append([]client{{tool: here, title: "Tidemark"}}, clients...) {
		if one, there := w.found["in "+in.tool+" from "+c.tool]; there {
			run := [2]string{one.Version, one.Day}
			from[run] = append(from[run], strings.TrimSpace(c.title+" "+one.From))
		}
	}
	for _, run := range slices.SortedFunc(maps.Keys(from), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", in.title, run[0], run[1], strings.Join(from[run], ", "))
	}
}

// versionsRun are the versions of an agent that some trials were made with, and the
// days on which.
func versionsRun(all []found) (versions, days string) {
	var v, d []string
	for _, one := range all {
		v, d = append(v, one.Version), append(d, one.Day)
	}
	slices.Sort(v)
	slices.Sort(d)
	return strings.Join(slices.Compact(v), ", "), strings.Join(slices.Compact(d), ", ")
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

| agent | version | day | conversations | not as they are |
| --- | --- | --- | --- | --- |
`, len(talks))
	for _, c := range clients {
		passed := 0
		var run []found
		var not []string
		for _, talk := range talks {
			one, there := w.found["writer "+c.tool+" "+talk.Name]
			if !there {
				continue
			}
			run = append(run, one)
			if len(one.Wrong) == 0 {
				passed++
			} else {
				not = append(not, talk.Name+": "+strings.Join(one.Wrong, "; "))
			}
		}
		if run == nil {
			fmt.Fprintf(b, "| %s | | | not run | |\n", c.title)
			continue
		}
		counted := fmt.Sprintf("%d of %d", passed, len(run))
		if len(run) < len(talks) {
			counted += fmt.Sprintf("; %d not run", len(talks)-len(run))
		}
		versions, days := versionsRun(run)
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", c.title, versions, days, counted, strings.Join(bold(not), "<br>"))
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

| agent | version | day | tried | refused | mended | |
| --- | --- | --- | --- | --- | --- | --- |
`)
	for _, tool := range repairable {
		c, _ := clientOf(tool)
		refused, mended := 0, 0
		var tried []found
		var wrong []string
		for _, id := range slices.Sorted(maps.Keys(w.found)) {
			one := w.found[id]
			if !strings.HasPrefix(id, "repair "+tool+" ") {
				continue
			}
			if tried = append(tried, one); one.Said != takenAsItIs {
				refused++
			}
			if len(one.Wrong) == 0 {
				mended++
			}
			wrong = append(wrong, bold(one.Wrong)...)
		}
		if tried == nil {
			fmt.Fprintf(b, "| %s | | | not run | | | |\n", c.title)
			continue
		}
		versions, days := versionsRun(tried)
		fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %d | %s |\n", c.title, versions, days, len(tried), refused, mended, strings.Join(wrong, "<br>"))
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
	w.killsPage(b)
}

// killsPage has what became of sessions whose watcher was killed.
func (w *workshop) killsPage(b *strings.Builder) {
	b.WriteString(`
## A watcher that is killed

While an agent works, a watcher is killed at moments of chance and started again. Then what it kept is compared with an import of everything at once,
entry by entry. Gemini CLI writes messages again and removes sessions by itself: of its sessions the branch of the head is compared, and what it removed has to be
kept ("gone").

| agent | version | day | killed | runs | sessions | gone | entries | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`)
	sum := 0
	for _, c := range clients {
		one, there := w.found["kills "+c.tool]
		if !there || one.Killed == nil {
			fmt.Fprintf(b, "| %s | | | not run | | | | | %s |\n", c.title, strings.Join(bold(one.Wrong), "; "))
			continue
		}
		k := one.Killed
		sum += k.Kills
		fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %d | %d | %d | %s |\n", c.title, one.Version, one.Day, k.Kills, k.Runs, k.Sessions, k.Gone, k.Entries, fine(one.Wrong, "the same"))
	}
	fmt.Fprintf(b, "\nKilled %d times over all.\n", sum)
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
