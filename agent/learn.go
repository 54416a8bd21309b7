package agent

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark/chat"
)

// How long learning may take. The person waits for it, so a model has a second;
// if that is not enough, simple rules decide. The rest is for keeping it.
const (
	askTimeout   = time.Second
	LearnTimeout = askTimeout + 2*time.Second
)

// LearnOff is the value of the setting learn with which nothing is learned when a
// conversation ends.
const LearnOff = "off"

// Learning says how Learn works.
type Learning struct {
	// Note receives what happens, one line at a time.
	Note func(format string, args ...any)
	// Retrying ends when the person no longer wants to wait for a model, and
	// InHurry reports that. Nil: they wait.
	Retrying context.Context
	InHurry  func() bool
}

// Learn keeps what the person said in a conversation that later sessions should
// know. If they do not want to wait for a model, simple rules decide.
func Learn(ctx context.Context, c *chat.Chat, l Learning) {
	said := len(c.Steered())
	if said == 0 {
		return
	}
	if l.Retrying == nil {
		l.Retrying = context.Background()
	}
	if l.InHurry == nil {
		l.InHurry = func() bool { return false }
	}
	l.Note("Extracting learnings from %d message(s)…", said)
	ctx, stop := context.WithTimeout(ctx, LearnTimeout)
	defer stop()
	asking, done := context.WithTimeout(ctx, askTimeout)
	defer context.AfterFunc(l.Retrying, done)()
	defer done()
	provider, _ := c.ModelName()
	learned, err := c.Learn(asking, provider == "demo" || l.InHurry())
	if err != nil && l.InHurry() {
		learned, err = c.Learn(ctx, true)
	}
	if err != nil {
		l.Note("Nothing was learned: %s", err)
		return
	}
	l.Note("Found %d steering insight(s)", len(learned))
	if _, err := c.KeepLearned(ctx, learned); err != nil {
		l.Note("They could not be kept: %s", err)
		return
	}
	l.Note("Insight synthesis complete")
}
