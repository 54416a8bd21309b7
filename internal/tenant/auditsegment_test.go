package tenant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// Old segments are dropped whole; what is left verifies, against anchors from before the
// cut as well, is read in both directions by the numbers that it always had, and
// grows on.
func TestAnAuditLogVerifiesAfterItsOldSegmentsWereDropped(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := memory.New()
	d := tenant.NewDirectory(store.New(b, &store.Options{Now: func() time.Time { return now }}).Records())
	write := func(n int) {
		t.Helper()
		for range n {
			if err := d.Audit(t.Context(), audited, tenant.Audited{Who: "ada", Action: "session.delete", Outcome: tenant.AuditDone}); err != nil {
				t.Fatal(err)
			}
		}
	}
	numbers := func(span tidemark.Span) (all []int64) {
		t.Helper()
		for l, err := range d.AuditLines(t.Context(), audited, span) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l.Seq)
		}
		return all
	}
	faults := func(anchors ...tenant.Anchor) []tenant.AuditFault {
		t.Helper()
		_, faults, err := d.VerifyAudit(t.Context(), audited, nil, anchors...)
		if err != nil {
			t.Fatal(err)
		}
		return faults
	}
	var heads []tenant.Anchor
	for range 4 { // months, of five lines each
		write(5)
		head, err := d.KeepAnchor(t.Context(), audited)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
		now = now.Add(31 * 24 * time.Hour)
	}
	if got := numbers(tidemark.Span{}); len(got) != 20 || got[0] != 1 || got[19] != 20 {
		t.Fatalf("lines %v", got)
	}
	if got := numbers(tidemark.Span{To: 12, Newest: 4, Backwards: true}); len(got) != 4 || got[0] != 12 || got[3] != 9 {
		t.Errorf("backwards over the end of a segment: %v", got)
	}
	if got := faults(heads...); len(got) > 0 {
		t.Fatalf("before anything is dropped: %+v", got)
	}
	// Of four months one is open, and those that ended more than 70 days ago go.
	dropped, err := d.TrimAudit(t.Context(), audited, now.Add(-70*24*time.Hour))
	if err != nil || dropped != 5 {
		t.Fatalf("TrimAudit = %d, %v, want 5", dropped, err)
	}
	if again, err := d.TrimAudit(t.Context(), audited, now.Add(-70*24*time.Hour)); err != nil || again != 0 {
		t.Errorf("TrimAudit again = %d, %v", again, err)
	}
	if got := numbers(tidemark.Span{}); len(got) != 15 || got[0] != 6 {
		t.Errorf("what is left: %v", got)
	}
	write(2)
	if got := faults(heads...); len(got) > 0 {
		t.Errorf("after the cut: %+v", got)
	}
	if head, err := d.AuditHead(t.Context(), audited); err != nil || head.Length != 22 {
		t.Errorf("the head is %+v, %v", head, err)
	}
	// Whoever takes away more than was dropped, or says that something else was, is found.
	other := heads[0]
	other.Hash = strings.Repeat("0", 64)
	if got := faults(other); len(got) != 1 {
		t.Errorf("another end of what was dropped: %+v", got)
	}
	second := tidemark.Key{Kind: "audit", ID: audited + ".00000001"}
	if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: now, Drops: []tidemark.Key{second}}); err != nil {
		t.Fatal(err)
	}
	if got := faults(heads...); len(got) == 0 {
		t.Error("a segment that is gone is not missed")
	}
}
