package web

import "testing"

func TestDeedsAreToldInWords(t *testing.T) {
	for action, want := range map[string]string{
		"POST /sessions/{id}/trash":               "moved a session to the trash",
		"DELETE /api/v1/sessions/{id}":            "removed a session",
		"GET /api/v1/sessions/{id}/export":        "exported a session",
		"POST /api/v1/sessions/{id}/export":       "exported a session",
		"PUT /api/v1/sessions/{id}/share":         "changed who may read a session",
		"POST /store/tokens/{id}/revoke":          "revoked a token",
		"GET /store/audit":                        "read the audit log",
		"GET /store/audit.json":                   "read the audit log",
		"POST /fleet/jobs/{id}/answer":            "answered a call that waited",
		"audit.verify":                            "verified the audit log",
		"POST /api/v1/run-steps":                  "did run-steps",
		"DELETE /api/v1/datasets/{id}":            "removed datasets",
		"something else that nobody has foreseen": "something else that nobody has foreseen",
	} {
		if got := Deed("", action); got != want {
			t.Errorf("%s is told as %q, want %q", action, got, want)
		}
	}
}

func TestEveryScopeStandsInOneGroup(t *testing.T) {
	scopes := []string{"audit", "sessions", "mcp", "jobs", "something new"}
	n := 0
	for _, g := range (StoreTokens{Scopes: scopes}).Groups() {
		n += len(g.Scopes)
		for _, key := range []string{"scope." + g.Name, "scope." + g.Name + ".help"} {
			if text("", key) == key {
				t.Errorf("there is no text %s", key)
			}
		}
	}
	if n != len(scopes) || scopes[0] != "audit" {
		t.Errorf("%d of %v are in groups", n, scopes)
	}
}
