package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/request"
)

func TestEveryPartOfTheAPIIsAScopeAndNothingElse(t *testing.T) {
	// What is no scope, and what stands beside the description.
	parts := []string{"me", "signin-code", "backend", auth.BlobsScope, "scim", request.MCPPath[1:]}
	for path := range newTestServer(t).api.OpenAPI().Paths {
		rest, ours := strings.CutPrefix(path, "/api/v1/")
		part, _, _ := strings.Cut(rest, "/")
		if !ours || slices.Contains(parts, part) {
			continue
		}
		parts = append(parts, part)
		if !slices.Contains(pages.TokenScopes, part) {
			t.Errorf("%s: no token can be for it alone", path)
		}
	}
	for _, scope := range pages.TokenScopes {
		if !slices.Contains(parts, scope) {
			t.Errorf("%s: there is no such part", scope)
		}
	}
}
