package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// summary is the tally of everything, printed without a name.
type summary struct {
	store.Tally
	Name string `json:"name,omitempty"` // hides Tally.Name in JSON
}

func statsCommand(a *app) *cobra.Command {
	var by, since string
	var plot bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count tokens, cost, turns, messages and sessions",
		Long: `Counts what was said and what it cost, over all projects. Every entry counts
once: forks share a past, and it counts for the session that it was written to;
what a tool copied into a fork counts once, too. Branches and workers count as
well; sessions in the trash do not.

What a tool recorded as the cost of an answer counts. Where none is recorded it
is estimated from a table of prices; a model that is not in it has no cost, which
is shown as –, and is null in JSON. See tidemark help prices.

A turn is a message of the user. An entry that names no model counts for the
model of its session. A session counts in each row in which it has entries.
Days are those of the local time zone.

--plot draws all kinds of tokens together or, where none are known, messages.
What cannot be read is left out and named; the exit code is 3 then.`,
		Example: `  tidemark stats
  tidemark stats --by model --since 30d
  tidemark stats --by day --plot
  tidemark stats --by project --jq '.[] | [.name, .cost_usd] | @tsv'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := store.ParseSince(since, time.Now())
			if err != nil {
				return err
			}
			if by == "" && plot {
				by = "day"
			}
			if plot && a.wantsJSON() {
				return tidemark.Invalidf("--plot and --json exclude each other")
			}
			if !slices.Contains([]string{"", "day", "model", "agent", "project"}, by) {
				return tidemark.Invalidf("--by %q: want day, model, agent or project", by)
			}
			s, err := a.open(cmd.Context(), open.Read)
			if err != nil {
				return err
			}
			skipped := 0
			rows, err := s.Count(cmd.Context(), store.Counting{By: by, Zone: time.Local, Since: from,
				Damaged: func(err error) {
					skipped++
					a.say("tidemark: %s: skipped", err)
				},
				Progress: func(sessions, entries int) { a.progress("%d sessions, %d entries counted", sessions, entries) },
			})
			a.progressDone()
			if err != nil {
				return err
			}
			err = a.printStats(rows, by, plot)
			var cost tidemark.Cost
			for _, t := range rows {
				cost.Add(t.Cost)
			}
			if !a.wantsJSON() { // JSON has these as fields
				for _, note := range render.CostNotes(cost, time.Now()) {
					a.say("%s", note)
				}
			}
			if skipped > 0 {
				err = errors.Join(err, &partly{skipped})
			}
			return err
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "a row for each `PART`: day, model, agent or project")
	cmd.Flags().StringVar(&since, "since", "", "what was said since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().BoolVar(&plot, "plot", false, "draw it; by day unless --by says otherwise")
	completeFlag(cmd, "by", "day", "model", "agent", "project")
	return cmd
}

// tallyName returns the name of a tally for people.
func tallyName(t *store.Tally) string { return cmp.Or(t.Name, "(none)") }

func (a *app) printStats(rows []*store.Tally, by string, plot bool) error {
	switch {
	case plot:
		return a.print(nil, func(w io.Writer) error { return a.plotStats(w, rows, by) })
	case by == "":
		t := &store.Tally{}
		if len(rows) > 0 {
			t = rows[0]
		}
		return a.print(summary{Tally: *t}, func(w io.Writer) error { return a.summaryTable(t).Print(w) })
	}
	if rows == nil {
		rows = []*store.Tally{} // an empty list is [] in JSON, not null
	}
	return a.print(rows, func(w io.Writer) error { return a.statsTable(rows, by).Print(w) })
}

func (a *app) summaryTable(t *store.Tally) *render.Table {
	table := a.table("NAME", "VALUE")
	for _, r := range []struct {
		name  string
		value int64
	}{{"sessions", t.Sessions}, {"turns", t.Turns}, {"messages", t.Messages},
		{"input_tokens", t.InputTokens}, {"output_tokens", t.OutputTokens},
		{"cache_read_tokens", t.CacheReadTokens}, {"cache_write_tokens", t.CacheWriteTokens}} {
		table.Row(r.name, a.quantity(r.value))
	}
	table.Row("cost_usd", a.cost(t.Cost))
	return table
}

// otherColumns is the approximate width of all columns but the name.
const otherColumns = 68

func (a *app) statsTable(rows []*store.Tally, by string) *render.Table {
	table := a.table(strings.ToUpper(by), "SESSIONS", "TURNS", "MSGS", "INPUT", "OUTPUT", "CACHE-R", "CACHE-W", "COST")
	for _, t := range rows {
		name := tallyName(t)
		if a.terminal {
			name = render.Truncate(render.CleanLine(name), max(a.columns-otherColumns, 10))
		}
		table.Row(name, a.quantity(t.Sessions), a.quantity(t.Turns), a.quantity(t.Messages), a.quantity(t.InputTokens),
			a.quantity(t.OutputTokens), a.quantity(t.CacheReadTokens), a.quantity(t.CacheWriteTokens), a.cost(t.Cost))
	}
	return table
}

// quantity formats a number: short on a terminal, exact in a pipe.
func (a *app) quantity(n int64) string {
	if a.terminal {
		return render.Count(n)
	}
	return strconv.FormatInt(n, 10)
}

// cost formats a cost: rounded on a terminal, with all digits in a pipe.
func (a *app) cost(c tidemark.Cost) string {
	if a.terminal {
		return render.Cost(c)
	}
	return render.ExactCost(c)
}

// plotStats draws tallies: by day as columns over time, otherwise as one bar each.
func (a *app) plotStats(w io.Writer, rows []*store.Tally, by string) error {
	c := render.Chart{Out: w, Width: a.columns, ASCII: !terminal.DrawsUnicode(os.Getenv, runtime.GOOS)}
	if c.Width <= 0 {
		c.Width = render.ChartColumns
	}
	of, size := "messages", func(t *store.Tally) int64 { return t.Messages }
	if slices.ContainsFunc(rows, func(t *store.Tally) bool { return t.Tokens() > 0 }) {
		of, size = "tokens", (*store.Tally).Tokens
	}
	bars := make([]render.Bar, len(rows))
	for i, t := range rows {
		bars[i] = render.Bar{Name: tallyName(t), Value: size(t)}
	}
	if len(bars) == 0 {
		a.say("There is nothing to draw.")
		return nil
	}
	if by == "day" {
		return c.Days(bars, of)
	}
	return c.Bars(bars, of+" by "+by)
}
