package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// ForAgent converts the session named for a task into one that the agent's own
// program knows. Claude Code and Codex keep sessions themselves: a session that
// is unchanged here is passed by their id, and everything else (an earlier node,
// a session of another tool, one that was continued here) is written where they
// look, as a session of theirs. did describes for people what was done, "" for
// nothing. runner.ErrSession: the session cannot be resumed.
func ForAgent(ctx context.Context, s *store.Store, a file.Agent, t *runner.Task, environ []string) (did string, err error) {
	client, keeps := clientOf(a, *t)
	client.environ = environ
	v, err := viewOf(ctx, s, t.Session, client.tool.Name)
	switch {
	case errors.Is(err, tidemark.ErrNotFound) && a.Runner != fleet.RunnerBuiltin && t.Entry == 0:
		return "", nil // not one of ours: the program decides whether it knows it
	case errors.Is(err, tidemark.ErrNotFound):
		return "", fmt.Errorf("session %s: %w: %w", t.Session, runner.ErrSession, err)
	case err != nil:
		return "", err
	case v.State != store.Live:
		return "", fmt.Errorf("session %s: %w: it is in the trash", t.Session, runner.ErrSession)
	case keeps:
		return client.give(ctx, s, v, t)
	case a.Runner == fleet.RunnerACP:
		t.Session = cmp.Or(v.ForeignID, string(v.ID))
	default:
		t.Session = string(v.ID)
	}
	return "", nil
}

// viewOf finds a session by its id here, or by the id of a tool.
func viewOf(ctx context.Context, s *store.Store, ref, tool string) (*store.View, error) {
	id, err := tidemark.ParseSessionID(ref)
	if err != nil {
		return nil, tidemark.NotFoundf("no session here is called %q", ref)
	}
	v, err := s.View(ctx, id)
	if !errors.Is(err, tidemark.ErrNotFound) {
		return v, err
	}
	foreign, lookErr := s.Foreign(ctx, ref)
	for _, i := range foreign {
		if from := OriginTool(i.Session); tool == "" || from == tool {
			return s.View(ctx, i.ID)
		}
	}
	return nil, cmp.Or(lookErr, err)
}

// sessionClient is a program that keeps its own sessions.
type sessionClient struct {
	tool convert.Tool
	home string // where it keeps them; "" if out of reach
	dir  string // its working folder, by the path that it uses
	// environ is the environment of this process, for the program's converter.
	environ []string
}

// clientOf is the client that an agent runs; false for runners that keep no
// sessions of their own.
func clientOf(a file.Agent, t runner.Task) (c sessionClient, keeps bool) {
	switch a.Runner {
	case fleet.RunnerClaude:
		c.tool = claudecode.Tool()
	case fleet.RunnerCodex:
		c.tool = codex.Tool()
	default:
		return c, false
	}
	if t.Container != nil {
		return c, true
	}
	c.home, c.dir = HomeOf(c.tool, t.Environ), project.Real(t.Dir)
	return c, true
}

// give hands a session to the client.
func (c sessionClient) give(ctx context.Context, s *store.Store, v *store.View, t *runner.Task) (did string, err error) {
	head, err := v.Head(ctx)
	if err != nil {
		return "", err
	}
	at, asItIs := cmp.Or(t.Entry, head), false
	if at == head && OriginTool(v.Session) == c.tool.Name && v.ForeignID != "" {
		if asItIs, err = c.unchanged(ctx, v, head); err != nil {
			return "", err
		}
	}
	here, elsewhere := false, false
	if asItIs && c.home != "" {
		if here, elsewhere, err = c.finds(ctx, v.ForeignID); err != nil {
			return "", err
		}
	}
	switch {
	case asItIs && (here || c.home == ""):
		t.Session, t.Entry = v.ForeignID, 0
		return "", nil
	case c.home == "":
		return "", tidemark.Unsupportedf("session %s: %s in a container cannot be given a session that it does not have: run the agent without container:, or name a session of its own", v.ID, c.tool.Title)
	}
	id, fork := v.ForeignID, t.Fork
	if !asItIs || elsewhere {
		id, fork = cmp.Or(t.Mint, string(tidemark.NewSessionID())), false // a copy as it is
	}
	lost, err := c.write(ctx, s, store.Point{View: v, Seq: at}, id)
	if err != nil {
		return "", fmt.Errorf("session %s, written out for %s: %w", v.ID, c.tool.Title, err)
	}
	t.Session, t.Fork, t.Entry, t.Mint = id, fork, 0, string(tidemark.NewSessionID())
	did = fmt.Sprintf("session %s, up to entry %d, was written out for %s as its session %s", v.ID, at, c.tool.Title, id)
	if len(lost) > 0 {
		did += "; it has no place for: " + strings.Join(lost, ", ")
	}
	return did, nil
}

// unchanged reports whether a session that came from the client is still the
// same here: nothing was added, and its head has not moved.
func (c sessionClient) unchanged(ctx context.Context, v *store.View, head int64) (bool, error) {
	for e, err := range v.LogRange(ctx, head, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false, err
		}
		mark := e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.Kind == KindImported
		if e.Seq == head && !strings.HasPrefix(e.Key, c.tool.Name+":") || e.Seq > head && !mark {
			return false, nil
		}
	}
	return true, nil
}

// finds reports whether the client offers a session in its working folder, and
// whether it has it only for others.
func (c sessionClient) finds(ctx context.Context, id string) (here, elsewhere bool, err error) {
	if !project.Exists(c.home) {
		return false, false, nil
	}
	home, err := OpenFolder(c.home, c.environ)
	if err != nil {
		return false, false, err
	}
	h := handover{tool: c.tool, home: home, project: c.dir}
	here, elsewhere, err = h.finds(ctx, id)
	return here, elsewhere, errors.Join(err, home.Close())
}

// write writes the path to a point as a session of the client, and returns what
// the client has no place for.
func (c sessionClient) write(ctx context.Context, s *store.Store, p store.Point, id string) ([]string, error) {
	home, err := OpenFolder(c.home, c.environ)
	if err != nil {
		return nil, err
	}
	h := handover{s: s, tool: c.tool, home: home}
	lost, err := h.write(ctx, p, id, func(f *convert.Session) ([]string, error) {
		f.Project, f.Head, f.Tags = c.dir, "", nil
		f.Checkpoint, f.Labels = nil, nil // a transcript has no use for them
		return Fit(ctx, c.tool, f)
	})
	return lost, errors.Join(err, home.Close())
}
