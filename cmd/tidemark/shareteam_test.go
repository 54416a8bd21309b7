//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/transfer/link"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// Whoever can open the database of a server sees to the links of its users there,
// without a server and without a key.
func TestAnOperatorEndsLinksWhereTheDatabaseIs(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t).Database(t)
	d := newDesk(t, db.Server)
	d.env = append(d.env, "TIDEMARK_DATABASE_OWNER="+db.Owner)
	d.want("", "database", "migrate")
	d.want("", "tenant", "create", "acme")
	d.want("", "tenant", "create", "globex")
	opened, err := serve.OpenOperator(t.Context(), db.Server, &open.Options{Access: open.Write, Environ: d.env})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	users := tenant.NewDirectory(opened.Store.Records())
	names := make(map[string]string)
	for _, of := range []string{"acme", "globex"} {
		in, err := users.TenantNamed(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		u, _, err := users.UpsertUser(t.Context(), tenant.Claims{Tenant: in, Issuer: "i", Subject: "ada", Email: "ada@" + of + ".example", Role: tenant.RoleWriter})
		if err != nil {
			t.Fatal(err)
		}
		l, err := users.PutLink(t.Context(), tenant.Link{Name: link.NewName(), Tenant: in.ID, User: u.ID, ExpiresAt: time.Now().Add(time.Hour)}, []byte("sealed"))
		if err != nil {
			t.Fatal(err)
		}
		names[of] = l.Name
	}
	if out := d.want("", "share", "ls", "--tenant", "acme"); !strings.Contains(out, names["acme"]+"\tada@acme.example\tactive\t") || strings.Contains(out, names["globex"]) {
		t.Errorf("the links of acme: %s", out)
	}
	if out := d.want("", "share", "ls", "--all", "--json"); !strings.Contains(out, names["acme"]) || !strings.Contains(out, names["globex"]) || strings.Contains(out, `"url"`) {
		t.Errorf("all links: %s", out)
	}
	if _, said, code := d.run("", "share", "revoke", "--tenant", "acme", names["globex"]); code != 5 {
		t.Errorf("a link of another tenant than the one named: exit %d: %s", code, said)
	}
	if out := d.want("", "share", "revoke", "--all", "https://tidemark.example.org/shared/"+names["acme"]); !strings.Contains(out, "\trevoked") {
		t.Errorf("revoked: %s", out)
	}
	if out := d.want("", "audit", "ls", "--tenant", "acme"); !strings.Contains(out, "link.revoke") || !strings.Contains(out, names["acme"]+" of ") {
		t.Errorf("the audit log: %s", out)
	}
	if _, said, code := d.run("", "share", "revoke", "--all", link.NewName()); code != 5 || !strings.Contains(said, "hint: see the links with: tidemark share ls --all") {
		t.Errorf("a link that is not there: exit %d: %s", code, said)
	}
	if _, said, code := d.run("", "share", "ls", "--tenant", "nobody"); code != 5 || !strings.Contains(said, "hint: see them with: tidemark tenant ls") {
		t.Errorf("a tenant that is not there: exit %d: %s", code, said)
	}
}
