package rewind

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// Target is where a rewind leads. Files follow the order in which things were
// done, and the conversation its tree, so the two are different entries.
type Target struct {
	Conversation int64 // the entry to go on from; 0: there is none, it is before the first message
	Files        int64 // the files are to be as when this was the newest entry
}

// Turns returns the target before the newest n turns of the conversation:
// ErrNotFound when it has fewer.
func Turns(ctx context.Context, v *store.View, n int) (Target, error) {
	head, err := v.Head(ctx)
	if err != nil {
		return Target{}, err
	}
	var t Target
	t.Conversation, err = v.Up(ctx, head, n)
	if errors.Is(err, tidemark.ErrNotFound) && n > 1 {
		// It may be the first turn, which has nothing above it.
		if _, above := v.Up(ctx, head, n-1); above != nil {
			return t, err
		}
	}
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return t, err
	}
	for e, err := range v.PathRange(ctx, head, t.Conversation+1, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return t, err
		}
		// What the model is told before the first message belongs to no turn.
		if err == nil && (t.Conversation > 0 || e.Nodes > 0) {
			t.Files = e.Seq - 1
			return t, nil
		}
	}
	return t, tidemark.NotFoundf("session %s: has no turn", v.ID)
}

// Node returns the target at the end of a node: the files as the turn left them,
// before anything was put back.
func Node(ctx context.Context, v *store.View, seq int64) (Target, error) {
	t := Target{seq, seq}
	for t.Files > 0 {
		var last tidemark.Entry
		for e, err := range v.Tail(ctx, t.Files, 1) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return t, err
			}
			last = e
		}
		s, ok := tidemark.SnapshotOf(last)
		if !ok || s.Rewind == nil {
			return t, nil
		}
		t.Files = last.Seq - 1
	}
	return t, nil
}
