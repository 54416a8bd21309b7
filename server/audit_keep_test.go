package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

func TestTheAuditLogIsExportedAndKeptAsLongAsIsSaid(t *testing.T) {
	var forward func(time.Duration)
	s := administered(t, func(o *Options) {
		forward = clocked(o)
		o.AuditKeep = 90 * 24 * time.Hour
	})
	exported := func(query string) (all []tenant.AuditLine) {
		t.Helper()
		a := s.call(t, "admin-a", "GET", "/api/v1/audit/export"+query, nil).want(t, 200)
		if a.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("the type is %s", a.Header.Get("Content-Type"))
		}
		for text := range strings.Lines(string(a.Body)) {
			var l tenant.AuditLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		return all
	}
	users, a, _ := leavers(t, s)
	month := func() {
		t.Helper()
		for range 5 {
			if err := users.Audit(t.Context(), a.ID, tenant.Audited{Who: "ada", Action: "token.create", Outcome: tenant.AuditDone}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.AnchorAudit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	month()
	all := exported("")
	if len(all) < 6 || all[0].Seq != 1 || all[0].Action != "tenant.create" {
		t.Fatalf("exported: %+v", all)
	}
	if some := exported("?what=token.create"); len(some) != 5 {
		t.Errorf("of those that are asked for, %d", len(some))
	}
	s.call(t, "admin-a", "GET", "/api/v1/audit/export?since=tomorrow", nil).want(t, 400)
	s.call(t, "writer-a", "GET", "/api/v1/audit/export", nil).want(t, 403)
	s.call(t, "admin-b", "GET", "/api/v1/audit/export?tenant=a", nil).want(t, 404)

	// The clock of the store goes on by itself; what ended before it is dropped.
	if n, err := users.TrimAudit(t.Context(), a.ID, time.Now().Add(time.Hour)); err != nil || n == 0 {
		t.Fatalf("TrimAudit = %d, %v", n, err)
	}
	month()
	left := exported("")
	if len(left) == 0 || left[0].Seq <= all[len(all)-1].Seq-1 {
		t.Errorf("what is left begins with %+v", left)
	}
	var report tenant.AuditReport
	s.call(t, "admin-a", "POST", "/api/v1/audit/verify", map[string]any{}).want(t, 200).into(t, &report)
	if len(report.Faults) > 0 || report.Dropped == 0 {
		t.Errorf("verified: %+v", report)
	}
	// A server drops by its own clock, and says so in the log.
	forward(200 * 24 * time.Hour)
	if _, err := s.AnchorAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	trimmed := 0
	for l, err := range users.AuditLines(t.Context(), a.ID, tidemark.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Action == "audit.trim" {
			trimmed++
		}
	}
	if trimmed != 1 {
		t.Errorf("the log says %d times that it was trimmed, want once", trimmed)
	}
}
