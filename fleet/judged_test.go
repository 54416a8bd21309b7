package fleet_test

import (
	"context"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// meanwhile does something right before a commit, once.
type meanwhile struct {
	tidemark.Backend
	do func()
}

func (m *meanwhile) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Backend.Commit(ctx, b)
}

// Whoever ends the jobs of the dead judges by what it read; a job that ended by
// itself since is not overwritten by that.
func TestAJobThatEndsWhileItIsJudgedKeepsItsEnd(t *testing.T) {
	b := memory.New()
	s := over(b, nil)
	j := addJob(t, s, "coder")
	run := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{Agent: 1})
	m := &meanwhile{Backend: b}
	judge := over(m, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	m.do = func() {
		if _, err := run.Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobCompleted }, nil, nil); err != nil {
			t.Errorf("Finish = %v", err)
		}
	}
	if ended, err := judge.Interrupt(t.Context(), fleet.Gone{}); err != nil || len(ended) != 0 {
		t.Errorf("Interrupt = %v, %v; want nothing to end", ended, err)
	}
	if m.do != nil {
		t.Fatal("nothing was judged")
	}
	if got := statusOf(t, s, j.ID); got.Status != tidemark.JobCompleted {
		t.Errorf("the job is %+v", got)
	}
}
