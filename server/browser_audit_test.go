package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// auditShown is who did what to what, as the page of the audit log says it.
const auditShown = `[...document.querySelectorAll("[data-row]")].map((tr) => tr.cells[2].innerText + ": " + tr.cells[3].innerText).join(", ")`

// Who looks for what somebody did fills in the filters, and takes home what they leave.
func TestTheAuditLogIsFilteredAndTakenHome(t *testing.T) {
	s := onSQLite(t)
	ctx := t.Context()
	users := tenant.NewDirectory(must[*store.Store](t)(s.open(ctx, tidemark.Operator())).Records())
	org := must[tenant.Tenant](t)(users.CreateTenant(ctx, tenant.Tenant{Name: "a"}))
	for _, did := range []tenant.Audited{{Who: "ada", Action: "token.create"}, {Who: "bob", Action: "token.create"}, {Who: "ada", Action: "link.create"}} {
		did.Outcome = tenant.AuditDone
		if err := users.Audit(ctx, org.ID, did); err != nil {
			t.Fatal(err)
		}
	}
	w := s.window(t)
	w.signsIn("a")
	w.opens("/store/audit")
	if all := asks[string](w, auditShown); !strings.Contains(all, "ada") || !strings.Contains(all, "bob") {
		t.Fatalf("the page shows %s", all)
	}
	w.fills("input[name=who]", "ada")
	w.fills("input[name=what]", "token")
	w.clicks(".filters button")
	w.until(`location.search.includes("who=ada") && location.search.includes("what=token") && document.querySelectorAll("[data-row]").length === 1`)
	if got := asks[string](w, auditShown); !strings.HasPrefix(got, "ada: ") || strings.Contains(got, "bob") {
		t.Errorf("of what ada did with tokens, the page shows %s", got)
	}
	var lines []tenant.AuditLine
	for text := range strings.Lines(asks[string](w, `fetch(document.querySelector("a[download]").href).then((r) => r.text())`)) {
		var l tenant.AuditLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 1 || lines[0].Who != "ada" || lines[0].Action != "token.create" {
		t.Errorf("taken home: %+v", lines)
	}
	w.fills("input[name=who]", "nobody")
	w.clicks(".filters button")
	w.until(`document.querySelector(".empty") && !document.querySelector("[data-row]")`)
	w.clicks(".filters a.button") // all again
	w.until(`document.querySelectorAll("[data-row]").length > 2 && !location.search.includes("who")`)
}
