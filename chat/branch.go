package chat

import (
	"context"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// checkpoint is a short name for the state that every change works on.
type checkpoint = store.Checkpoint

// wholeSession is the scope of an approval of a tool for its whole session,
// as in AgentZero. It was given without seeing any call, so it covers only
// what coveredBySession allows.
const wholeSession = "session"

// coveredBySession reports whether an approval of a tool for the whole session
// covers a call. For tools that run programs it covers commands of vetted
// forms; for tools that write, the workspace without hidden folders such as
// .git, where other programs look for things to run, and the session's own
// storage.
func coveredBySession(a ApprovalRequest) bool {
	switch a.Effect {
	case tool.Runs:
		return len(tool.Forms(a.Scope)) > 0
	case tool.Writes:
		return a.Scope == "." || strings.HasPrefix(a.Scope, "./") && !strings.Contains(a.Scope, "/.") || a.Scope == tool.StoredScope
	}
	return true
}

// approval is what "always" grants for a call. A program that happens to be
// named like the scope above is kept apart from it.
func approval(a ApprovalRequest) store.Approval {
	if a.Scope == wholeSession {
		return store.Approval{Tool: a.Tool, Scope: "exactly " + wholeSession}
	}
	return store.Approval{Tool: a.Tool, Scope: a.Scope}
}

// Branch goes back to an entry: the next message follows it. Nothing is
// removed.
func (c *Chat) Branch(ctx context.Context, seq int64) error {
	if !c.Exists() {
		return tidemark.NotFoundf("nothing was said yet")
	}
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	if err := c.writer().Branch(ctx, seq); err != nil {
		return err
	}
	// The head has moved, even if the rest fails.
	c.main.stale = true
	if err := c.main.load(ctx); err != nil {
		return err
	}
	return c.main.mend(ctx, true)
}

// Messages is the number of messages on the current branch.
func (c *Chat) Messages(ctx context.Context) (int64, error) {
	if !c.Exists() {
		return 0, nil
	}
	i, err := c.o.Store.Session(ctx, c.ID())
	return i.Messages, err
}
