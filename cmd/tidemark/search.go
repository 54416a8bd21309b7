package main

import (
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
)

// hit is one row of `search`.
type hit struct {
	Ref     string             `json:"ref"` // of the entry: SESSION@12
	Session tidemark.SessionID `json:"session"`
	Title   string             `json:"title,omitempty"`
	Seq     int64              `json:"seq,omitempty"`
	Worker  string             `json:"worker,omitempty"`
	Role    string             `json:"role"`
	At      time.Time          `json:"at"`
	Snippet string             `json:"snippet"`

	marks [][2]int
}

// snippetWidth is the length of the part of an entry that is shown for a hit.
const snippetWidth = 160

func searchCommand(a *app) *cobra.Command {
	var q store.Question
	var since, session string
	cmd := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find entries by their words",
		Long: `Finds titles, text, tool input and tool output, newest first.

  word      every part of the word is in the entry
  'exact    the text occurs as it stands: 'tail -f' or "tail -f"
  ^prefix   a word begins so
  !word     not, with any of the forms above
  a | b     one of them

Case and accents do not matter. Identifiers are found by their parts:
parseHTTPRequest by http, snake_case by case. In Chinese, Japanese and Korean
text any run of characters is found.`,
		Example: `  tidemark search 'connection refused'
  tidemark search "^migrat !rollback" --since 30d
  tidemark search "'panic: runtime error'" --role tool --json`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := search.Parse(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if q.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			if q.Limit < 1 {
				return tidemark.Invalidf("-n %d: want a number from 1", q.Limit)
			}
			q.Project = projectAt(q.Project)
			s, err := a.open(cmd.Context(), open.Read)
			if err != nil {
				return err
			}
			if session != "" {
				p, err := s.Resolve(cmd.Context(), session, a.project())
				if err != nil {
					return err
				}
				q.Session = p.ID
			}
			return a.search(cmd, s, query, q)
		},
	}
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", store.DefaultHits, "at most `N` hits")
	cmd.Flags().StringVar(&q.Role, "role", "", "entries of this role (system, user, assistant, tool), or title, label, tag")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "sessions of this agent")
	cmd.Flags().StringVar(&q.Project, "project", "", "sessions of the project in `DIR`")
	cmd.Flags().StringVar(&session, "session", "", "only in this `SESSION`")
	cmd.Flags().StringVar(&since, "since", "", "written since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().BoolVar(&q.Trash, "trash", false, "what is in the trash")
	return cmd
}

func (a *app) search(cmd *cobra.Command, s *store.Store, query search.Query, q store.Question) error {
	answer, err := s.Search(cmd.Context(), q.About(query))
	if err != nil {
		return err
	}
	hits := make([]hit, len(answer.Found))
	for i, f := range answer.Found {
		hits[i] = hitOf(query, f)
	}
	switch {
	case answer.Behind > 0:
		a.say("%d entries are not indexed yet and were not searched; index them with: tidemark doctor --fix", answer.Behind)
	case answer.Cut && a.terminal:
		a.say("There may be more: -n shows more of them.")
	}
	err = a.print(hits, func(w io.Writer) error { return a.hits(w, hits) })
	if err == nil && answer.Damage != nil {
		return answer.Damage
	}
	if err == nil && len(hits) == 0 {
		return hint.With(errNothing, "other words, or fewer; see: tidemark search --help")
	}
	return err
}

// errNothing makes a search without a hit fail, as grep does, for scripts.
var errNothing = tidemark.NotFoundf("nothing was found")

func hitOf(query search.Query, f store.Found) hit {
	h := hit{Ref: f.Ref(), Session: f.Info.ID, Title: f.Info.Title, Seq: f.Seq, Worker: f.Worker, At: f.At, Role: f.Entry.Kind}
	if f.Entry.Role != "" {
		h.Role = string(f.Entry.Role)
	}
	h.Snippet, h.marks = query.Snippet(render.Clean(search.Text(f.Entry)), snippetWidth)
	return h
}

// hits prints for each hit a heading and a snippet on a terminal, and one line in a
// pipe.
func (a *app) hits(w io.Writer, hits []hit) error {
	if !a.terminal {
		t := a.table("REF", "AT", "ROLE", "TITLE", "SNIPPET")
		for _, h := range hits {
			t.Row(h.Ref, a.when(h.At), h.Role, h.Title, h.Snippet)
		}
		return t.Print(w)
	}
	for _, h := range hits {
		ref := strings.Replace(h.Ref, string(h.Session), a.shortID(h.Session), 1)
		if h.Worker != "" {
			ref += " worker " + render.CleanLine(h.Worker)
		}
		head := fmt.Sprintf("%s  %s  %s  %s", ref, h.Role, a.when(h.At), oneLine(h.Title))
		if a.color {
			head = "\x1b[1m" + head + "\x1b[0m"
		}
		fmt.Fprintln(w, head)
		fmt.Fprintf(w, "  %s\n", a.highlight(h))
	}
	return nil
}

// highlight marks in a snippet what was found, if colour is on.
func (a *app) highlight(h hit) string {
	if !a.color {
		return h.Snippet
	}
	var b strings.Builder
	at := 0
	for _, m := range h.marks {
		b.WriteString(h.Snippet[at:m[0]] + "\x1b[7m" + h.Snippet[m[0]:m[1]] + "\x1b[27m")
		at = m[1]
	}
	return b.String() + h.Snippet[at:]
}
