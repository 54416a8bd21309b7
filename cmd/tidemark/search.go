package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

// hit is one row of `search`. The last one says how to go on, because the rows
// are a list.
type hit struct {
	hits.Hit
	Next string `json:"next,omitempty"`
}

func searchCommand(a *app) *cobra.Command {
	var q store.Question
	var since, session string
	cmd := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find entries by their words",
		Long: `Finds titles, text, tool input and tool output: titles first, then what people
and models said, labels and tags, then results of tools and anything else; the
newest first in each of these. What tools told the model (context, system
texts, summaries) is left out unless --role asks for it.

  word      every part of the word is in the entry
  'exact    the text occurs as it stands: 'tail -f' or "tail -f"
  ^prefix   a word begins so
  !word     not, with any of the forms above
  a | b     one of them

Case and accents do not matter. Identifiers are found by their parts:
parseHTTPRequest by http, snake_case by case. In Chinese, Japanese and Korean
text any run of characters is found.

When there is more, the same search with --after goes on: it takes what stderr
says, which is also the next of the last hit in --json.

With --facets all hits are counted, and the counts are listed in place of the
hits: by role, project, agent, tool, model, tag, day and error. --role,
--project and the others narrow the search down to those of one.`,
		Example: `  tidemark search 'connection refused'
  tidemark search "^migrat !rollback" --since 30d
  tidemark search "'panic: runtime error'" --role tool --json
  tidemark search water --after "$(tidemark search water -n 5 --jq '.[-1].next')"
  tidemark search 'connection refused' --facets`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := search.Parse(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if q.Since, err = store.ParseSince(since, time.Now()); err != nil {
				return err
			}
			if q.Limit < 1 {
				return tidemark.Invalidf("-n %d: want a number from 1", q.Limit)
			}
			if q.PerSession < 0 {
				return tidemark.Invalidf("--per-session %d: want a number from 0", q.PerSession)
			}
			if q.Facets && q.After != "" {
				return tidemark.Invalidf("--facets counts all hits: leave --after away")
			}
			q.Project = projectAt(q.Project)
			s, err := a.open(cmd.Context(), open.Read)
			if err == nil && session != "" {
				var p store.Point
				if p, err = s.Resolve(cmd.Context(), session, a.project()); err == nil {
					q.Session = p.ID
				}
			}
			if err != nil {
				return err
			}
			return a.search(cmd, s, query, q)
		},
	}
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", store.DefaultHits, "at most `N` hits")
	cmd.Flags().StringVar(&q.After, "after", "", "go on behind an earlier answer: the `CURSOR` that it gave")
	cmd.Flags().IntVar(&q.PerSession, "per-session", 0, "list at most `N` hits of a session, and count the others; 0: all")
	cmd.Flags().StringVar(&q.Role, "role", "", "what is of this role: "+strings.Join(store.Roles, ", "))
	cmd.Flags().StringVar(&q.Agent, "agent", "", "sessions of this agent")
	cmd.Flags().StringVar(&q.Project, "project", "", "sessions of the project in `DIR`")
	cmd.Flags().StringVar(&q.Tag, "tag", "", "sessions with this tag, or with this label somewhere")
	cmd.Flags().StringVar(&session, "session", "", "only in this `SESSION`")
	cmd.Flags().StringVar(&since, "since", "", "written since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().StringVar(&q.Tool, "tool", "", "sessions that came from this tool; "+store.Native+": begun here")
	cmd.Flags().StringVar(&q.Model, "model", "", "what this model answered, or is in a session with it")
	cmd.Flags().BoolVar(&q.Failed, "failed", false, "what tells of an error")
	cmd.Flags().BoolVar(&q.Facets, "facets", false, "count all hits by what they can be narrowed down to, and list the counts")
	cmd.Flags().BoolVar(&q.Trash, "trash", false, "what is in the trash")
	return cmd
}

func (a *app) search(cmd *cobra.Command, s *store.Store, query search.Query, q store.Question) error {
	q.Progress = func(n int64) { a.progress("%d entries read that are not indexed", n) }
	answer, err := hits.Search(cmd.Context(), s, query, q, hits.Width)
	a.progressDone()
	if err != nil {
		return err
	}
	if q.Facets && len(answer.Hits) > 0 {
		return errors.Join(a.facets(answer.Facets), answer.Damage)
	}
	rows := make([]hit, len(answer.Hits))
	for i, h := range answer.Hits {
		rows[i] = hit{Hit: h}
	}
	if len(rows) > 0 {
		rows[len(rows)-1].Next = answer.Next
	}
	err = a.print(rows, func(w io.Writer) error { return a.hits(w, answer) })
	a.sayRest(answer)
	if answer.Waiting >= manyWaiting {
		a.indexWaiting(cmd.Context())
	}
	if err == nil && answer.Damage != nil {
		return answer.Damage
	}
	if err == nil && len(rows) == 0 {
		if answer.LeftOut.N > 0 {
			return hint.With(errNothing, "what tools told the model is left out; to search it, add --role any")
		}
		return hint.With(errNothing, "other words, or fewer; see: tidemark search --help")
	}
	return err
}

// facetRow is one row of `search --facets`.
type facetRow struct {
	Facet   string `json:"facet"`
	Value   string `json:"value"`
	N       int64  `json:"n"`
	AtLeast bool   `json:"at_least,omitempty"` // there may be more than were counted
}

// facets prints how many hits have each value.
func (a *app) facets(all []store.Facet) error {
	rows := []facetRow{}
	for _, f := range all {
		for _, v := range f.Values {
			rows = append(rows, facetRow{Facet: f.Name, Value: v.Value, N: v.N, AtLeast: f.AtLeast})
		}
		if f.More > 0 {
			a.say("Not listed: %d more of %s", f.More, f.Name)
		}
	}
	return a.print(rows, func(w io.Writer) error {
		t := a.table("FACET", "VALUE", "HITS")
		for _, r := range rows {
			t.Row(r.Facet, r.Value, count(store.Count{N: r.N, AtLeast: r.AtLeast}))
		}
		return t.Print(w)
	})
}

// manyWaiting is how many entries a search reads before it is worth to index them
// for the next one.
const manyWaiting = 2000

// indexWaiting indexes what a search had to read. The answer is out by then, so that
// of what keeps it from doing so only that is said which every search will meet.
func (a *app) indexWaiting(ctx context.Context) {
	url, _, err := a.location()
	if err == nil {
		err = a.opened.CatchUp(ctx, url, a.openOptions(open.Write), func(n int64) {
			a.progress("%d entries indexed, for the next search; ^C leaves the rest for later", n)
		})
		a.progressDone()
	}
	if errors.Is(err, tidemark.ErrUnsupported) {
		a.say("Everything was read: %s", err)
	}
}

// sayRest tells people what is not among the hits, and how to have it.
func (a *app) sayRest(answer hits.Answer) {
	if n := answer.LeftOut; n.N > 0 {
		a.say("Left out: %s in what tools told the model (context, system texts, summaries); --role any has all.", count(n))
	}
	for _, g := range answer.Sessions {
		if g.More.N > 0 {
			a.say("%s more in %s; all of them: --session %s", count(g.More), g.Name(), g.Name())
		}
	}
	if answer.Next != "" {
		a.say("There is more; it goes on with: --after %s", answer.Next)
	}
}

// count is a number of hits for people.
func count(n store.Count) string {
	if n.AtLeast {
		return fmt.Sprintf("at least %d", n.N)
	}
	return fmt.Sprint(n.N)
}

// errNothing makes a search without a hit fail, as grep does, for scripts.
var errNothing = tidemark.NotFoundf("nothing was found")

// hits prints for each hit a heading and a snippet on a terminal, and one line in a
// pipe.
func (a *app) hits(w io.Writer, answer hits.Answer) error {
	if !a.terminal {
		t := a.table("REF", "AT", "ROLE", "TITLE", "SNIPPET")
		for _, h := range answer.Hits {
			t.Row(h.Ref, a.when(h.At), h.Who(), h.Title, h.Snippet)
		}
		return t.Print(w)
	}
	for _, h := range answer.Hits {
		ref := strings.Replace(h.Ref, string(h.Session), a.shortID(h.Session), 1)
		if h.Worker != "" {
			ref += " worker " + render.CleanLine(h.Worker)
		}
		head := fmt.Sprintf("%s  %s  %s  %s", ref, h.Who(), a.when(h.At), oneLine(h.Title))
		if a.color {
			head = "\x1b[1m" + head + "\x1b[0m"
		}
		fmt.Fprintln(w, head)
		fmt.Fprintf(w, "  %s\n", a.highlight(h))
	}
	return nil
}

// highlight marks in a snippet what was found, if colour is on.
func (a *app) highlight(h hits.Hit) string {
	if !a.color {
		return h.Snippet
	}
	var b strings.Builder
	at := 0
	for _, m := range h.Marks {
		b.WriteString(h.Snippet[at:m[0]] + "\x1b[7m" + h.Snippet[m[0]:m[1]] + "\x1b[27m")
		at = m[1]
	}
	return b.String() + h.Snippet[at:]
}
