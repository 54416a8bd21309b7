package chat

import (
	"context"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// checkpoint is short for what every change of the state works on.
type checkpoint = store.Checkpoint

// wholeSession is the scope of an approval of a tool for its session, as
// AgentZero knows them. It was given without any call being seen, so that it
// covers what coveredBySession says and no more.
const wholeSession = "session"

// coveredBySession reports whether an approval of a tool for the whole session
// is for a call: of what runs programs commands of vetted forms, of what writes
// the workspace, without hidden folders such as .git, where others find
// programs to run, and the session's own storage.
func coveredBySession(a ApprovalRequest) bool {
	switch a.Effect {
	case tool.Runs:
		return len(tool.Forms(a.Scope)) > 0
	case tool.Writes:
		return a.Scope == "." || strings.HasPrefix(a.Scope, "./") && !strings.Contains(a.Scope, "/.") || a.Scope == tool.StoredScope
	}
	return true
}

// approval is what "always" means for a call. A program that is called as the
// scope above is told apart from it.
func approval(a ApprovalRequest) store.Approval {
	if a.Scope == wholeSession {
		return store.Approval{Tool: a.Tool, Scope: "exactly " + wholeSession}
	}
	return store.Approval{Tool: a.Tool, Scope: a.Scope}
}

// Branch goes back to an entry: what is said next follows it. Nothing is taken
// away.
func (c *Chat) Branch(ctx context.Context, seq int64) error {
	if !c.Exists() {
		return tidemark.NotFoundf("nothing was said yet")
	}
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	if err := c.writer().Branch(ctx, seq); err != nil {
		return err
	}
	// The head has moved, whatever becomes of the rest.
	c.main.stale = true
	if err := c.main.load(ctx); err != nil {
		return err
	}
	return c.main.mend(ctx, true)
}

// Messages is how many messages lie on the branch that the session is on.
func (c *Chat) Messages(ctx context.Context) (int64, error) {
	if !c.Exists() {
		return 0, nil
	}
	i, err := c.o.Store.Session(ctx, c.ID())
	return i.Messages, err
}
