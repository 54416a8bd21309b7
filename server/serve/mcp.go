package serve

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/store"
)

// mcpTokenName is the file with the token of a server that serves only /mcp.
const mcpTokenName = "mcp.token"

// RunMCP serves only /mcp, to whoever has the token of the local user, until
// ctx ends. Of the Config it uses the Listener, the Hosts and the TokenFile;
// store opens the one store, and may report that there is none yet.
func RunMCP(ctx context.Context, c Config, store func(context.Context) (*store.Store, error), p Program) error {
	dir, err := open.DataDir(p.Environ)
	if err != nil && c.TokenFile == "" {
		return err
	}
	path := cmp.Or(c.TokenFile, filepath.Join(dir, mcpTokenName))
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	defer listener.Close()
	token, err := open.MakeToken(path)
	if err != nil {
		return err
	}
	s, err := server.New(server.Options{
		Open:   onlyStore(store),
		Auth:   auth.Any(auth.Local(token, tidemark.TenantOf(tenant.DefaultTenant, ""))),
		Holder: p.Holder, Hosts: append([]string{}, c.Hosts...), Log: p.Log, Version: p.Version, MCP: p.MCP,
	})
	if err != nil {
		return err
	}
	p.Say("The token is in %s; the path is /mcp", path)
	return c.Serve(ctx, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r) // Run serves everything else
			return
		}
		s.ServeHTTP(w, r)
	}), listener, &p)
}

// onlyStore is one store for every principal.
func onlyStore(open func(context.Context) (*store.Store, error)) func(context.Context, tidemark.Principal) (*store.Store, error) {
	return func(ctx context.Context, _ tidemark.Principal) (*store.Store, error) { return open(ctx) }
}
