package repl

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// Wanted says which session somebody wants to resume.
type Wanted struct {
	Ref      string // a session, or a point in one; "" for a new one
	Newest   bool   // instead: the most recently updated one, in Project
	Anywhere bool   // with Newest: in any project
	Branch   string // the node to continue from; "" for its head
	Project  string
	// Elsewhere asks whether to resume a session of another project, if
	// Project has none.
	Elsewhere func(context.Context, store.Info) (bool, error)
}

// Find returns the session to resume, "" for a new one, and the entry to
// branch from.
func (w Wanted) Find(ctx context.Context, s *store.Store) (tidemark.SessionID, int64, error) {
	ref, project, elsewhere := w.Ref, w.Project, false
	switch {
	case w.Newest && w.Anywhere:
		ref, project = "last", ""
	case w.Newest:
		here, err := s.HasSessions(ctx, project)
		if err != nil {
			return "", 0, err
		}
		ref, elsewhere = "last", !here
	case ref == "":
		return "", 0, nil
	}
	if w.Branch != "" {
		if strings.Contains(ref, "@") && !strings.HasPrefix(ref, "@-") {
			return "", 0, tidemark.Invalidf("--branch and a point in %q exclude each other", ref)
		}
		ref += "@" + strings.TrimPrefix(w.Branch, "@")
	}
	p, err := s.Resolve(ctx, ref, project)
	if err != nil && p.View != nil {
		err = hint.With(err, "see its nodes with: tidemark tree %.8s", p.ID)
	}
	if err != nil {
		return "", 0, err
	}
	if elsewhere {
		yes, err := w.Elsewhere(ctx, p.Info)
		if err != nil || !yes {
			return "", 0, err
		}
	}
	return p.ID, p.Seq, nil
}

// AskElsewhere asks a person whether to resume a session of another project.
func AskElsewhere(ctx context.Context, in io.Reader, out io.Writer, i store.Info) (bool, error) {
	where := i.Project
	if where == "" {
		where = "no project"
	}
	answer, err := terminal.AskLine(ctx, in, out, fmt.Sprintf("This project has no session. Go on with the newest from elsewhere, %q in %s? [y/N] ", render.CleanLine(i.Title), render.CleanLine(where)))
	if err != nil {
		return false, err
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", nil
}
