package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// tally is what was counted, of everything or of one part of it.
type tally struct {
	Name             string  `json:"name"` // a day, a model, an agent, a project
	Sessions         int64   `json:"sessions"`
	Turns            int64   `json:"turns"`
	Messages         int64   `json:"messages"`
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	CostUSD          float64 `json:"cost_usd"`

	nanoUSD int64              // the cost so far: sums of binary fractions drift
	last    tidemark.SessionID // the session that was counted last
}

// summary is a tally of everything, which needs no name.
type summary struct {
	tally
	Name string `json:"name,omitempty"` // hides the tally's
}

// statsBy says of each part that stats can be told by which one an entry
// belongs to.
var statsBy = map[string]func(store.Owned) string{
	"day":     func(o store.Owned) string { return o.At.Local().Format(time.DateOnly) },
	"agent":   func(o store.Owned) string { return o.Session.Agent },
	"project": func(o store.Owned) string { return o.Session.Project },
	"model": func(o store.Owned) string {
		if o.Model != "" {
			return o.Model
		}
		return o.Session.Model // who asked, and what tools said, counts for who answers
	},
}

func statsCommand(a *app) *cobra.Command {
	var by, since string
	var plot bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count tokens, cost, turns, messages and sessions",
		Long: `Counts what was said and what it cost, over all projects. Every entry counts
once: forks share a past, and it counts for the session that it was written to.
Branches and workers count as well; sessions in the trash do not.

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
			from, err := parseSince(since, time.Now())
			if err != nil {
				return err
			}
			if by == "" && plot {
				by = "day"
			}
			part := statsBy[by]
			switch {
			case by != "" && part == nil:
				return tidemark.Invalidf("--by %q: want day, model, agent or project", by)
			case plot && a.wantsJSON():
				return tidemark.Invalidf("--plot and --json exclude each other")
			case by == "":
				part = func(store.Owned) string { return "" }
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			rows, skipped, err := a.count(cmd, s, from, part)
			if err != nil {
				return err
			}
			sortTallies(rows, by)
			err = a.printStats(rows, by, plot)
			if skipped > 0 {
				err = errors.Join(err, &partly{skipped})
			}
			return err
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "a row for each `PART`: day, model, agent or project")
	cmd.Flags().StringVar(&since, "since", "", "what was said since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().BoolVar(&plot, "plot", false, "draw it; by day unless --by says otherwise")
	if err := cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"day", "model", "agent", "project"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// count adds up what was said since a time. What is damaged is named on stderr
// and counted as skipped.
func (a *app) count(cmd *cobra.Command, s *store.Store, since time.Time, part func(store.Owned) string) (rows []*tally, skipped int, err error) {
	defer a.progressDone()
	byName := make(map[string]*tally)
	var session *store.Info
	sessions, entries := 0, 0
	for o, err := range s.Own(cmd.Context(), since) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			skipped++
			a.say("tidemark: %s: skipped", err)
			continue
		}
		if err != nil {
			return nil, skipped, err
		}
		if o.Session != session {
			session = o.Session
			sessions++
		}
		if entries++; entries%256 == 0 {
			a.progress("%d sessions, %d entries counted", sessions, entries)
		}
		if o.Kind == tidemark.KindBranch || o.Kind == tidemark.KindGap {
			continue
		}
		name := part(o)
		t := byName[name]
		if t == nil {
			t = &tally{Name: name}
			byName[name] = t
			rows = append(rows, t)
		}
		t.add(o)
	}
	return rows, skipped, nil
}

func (t *tally) add(o store.Owned) {
	if t.last != o.Session.ID {
		t.last = o.Session.ID
		t.Sessions++
	}
	if o.Kind == tidemark.KindMessage {
		t.Messages++
	}
	if o.Role == tidemark.User {
		t.Turns++
	}
	if u := o.Usage; u != nil {
		t.InputTokens = plus(t.InputTokens, u.InputTokens)
		t.OutputTokens = plus(t.OutputTokens, u.OutputTokens)
		t.CacheReadTokens = plus(t.CacheReadTokens, u.CacheReadTokens)
		t.CacheWriteTokens = plus(t.CacheWriteTokens, u.CacheWriteTokens)
		t.nanoUSD = plus(t.nanoUSD, int64(min(max(math.Round(u.CostUSD*nano), 0), math.MaxInt64/2)))
		t.CostUSD = float64(t.nanoUSD) / nano
	}
}

// nano is how many parts of a dollar are told apart: a token of the cheapest
// model costs tens of them.
const nano = 1e9

// plus adds what a stranger may have written: nothing is taken away, and a sum
// that is too large stays the largest.
func plus(a, b int64) int64 {
	b = max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// tokens is all kinds of tokens together.
func (t *tally) tokens() int64 {
	return plus(plus(t.InputTokens, t.OutputTokens), plus(t.CacheReadTokens, t.CacheWriteTokens))
}

// sortTallies orders days by time, everything else by size.
func sortTallies(rows []*tally, by string) {
	slices.SortFunc(rows, func(a, b *tally) int {
		if by != "day" {
			if c := cmp.Or(cmp.Compare(b.tokens(), a.tokens()), cmp.Compare(b.Messages, a.Messages)); c != 0 {
				return c
			}
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// titled is the name of a part for people.
func (t *tally) titled() string {
	if t.Name == "" {
		return "(none)"
	}
	return t.Name
}

func (a *app) printStats(rows []*tally, by string, plot bool) error {
	switch {
	case plot:
		return a.print(nil, func(w io.Writer) error { return a.plotStats(w, rows, by) })
	case by == "":
		t := &tally{}
		if len(rows) > 0 {
			t = rows[0]
		}
		return a.print(summary{tally: *t}, func(w io.Writer) error { return a.summaryTable(t).print(w) })
	}
	if rows == nil {
		rows = []*tally{} // an empty list is [] in JSON, not null
	}
	return a.print(rows, func(w io.Writer) error { return a.statsTable(rows, by).print(w) })
}

func (a *app) summaryTable(t *tally) *table {
	table := a.table("NAME", "VALUE")
	for _, r := range []struct {
		name  string
		value int64
	}{{"sessions", t.Sessions}, {"turns", t.Turns}, {"messages", t.Messages},
		{"input_tokens", t.InputTokens}, {"output_tokens", t.OutputTokens},
		{"cache_read_tokens", t.CacheReadTokens}, {"cache_write_tokens", t.CacheWriteTokens}} {
		table.row(r.name, a.quantity(r.value))
	}
	table.row("cost_usd", a.cost(t.CostUSD))
	return table
}

// otherColumns is about how wide the columns beside the name are.
const otherColumns = 68

func (a *app) statsTable(rows []*tally, by string) *table {
	table := a.table(strings.ToUpper(by), "SESSIONS", "TURNS", "MSGS", "INPUT", "OUTPUT", "CACHE-R", "CACHE-W", "COST")
	for _, t := range rows {
		name := t.titled()
		if a.terminal {
			name = render.Truncate(render.CleanLine(name), max(a.columns-otherColumns, 10))
		}
		table.row(name, a.quantity(t.Sessions), a.quantity(t.Turns), a.quantity(t.Messages), a.quantity(t.InputTokens),
			a.quantity(t.OutputTokens), a.quantity(t.CacheReadTokens), a.quantity(t.CacheWriteTokens), a.cost(t.CostUSD))
	}
	return table
}

// quantity is a number for people: short on a terminal, exact in a pipe.
func (a *app) quantity(n int64) string {
	if a.terminal {
		return short(n)
	}
	return strconv.FormatInt(n, 10)
}

// short writes a number in at most five characters, up to a limit that no
// count reaches.
func short(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	f := float64(n)
	for _, unit := range "kMGTPE" {
		f /= 1000
		switch {
		case f < 99.95:
			return fmt.Sprintf("%.1f%c", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.0f%c", f, unit)
		}
	}
	return fmt.Sprintf("%.0fE", f)
}

func (a *app) cost(usd float64) string {
	if a.terminal {
		return fmt.Sprintf("$%.2f", usd)
	}
	return strconv.FormatFloat(usd, 'f', -1, 64)
}
