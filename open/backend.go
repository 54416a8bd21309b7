package open

import (
	"context"
	"errors"
	"net"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/store"
)

// listed are the kinds that commands list, the newest first: sessions and jobs.
var listed = []string{"session", "job"}

// grouped are the kinds whose ids end with their group: the names that lead to sessions.
var grouped = []string{"name"}

// Backend opens the backend that a store URL names, without decrypting anything:
// see Unseal for that.
func Backend(ctx context.Context, url string, o *Options) (tidemark.Backend, error) {
	k := newOpener(o)
	scheme, path, _ := strings.Cut(url, ":")
	if (scheme == "sqlite" || scheme == "files") && path == "" {
		return nil, tidemark.Invalidf("store %q: a path is missing", url)
	}
	switch scheme {
	case "sqlite":
		b, err := sqlite.Open(ctx, path, &sqlite.Options{ReadOnly: k.Access == Read, Create: k.Access == Create, Upgrading: k.Upgrading, Damaged: k.Damaged})
		if err != nil {
			return nil, err
		}
		return k.withCold(b), nil
	case "files":
		b, err := files.Open(ctx, path, &files.Options{ReadOnly: k.Access == Read, Create: k.Access == Create, Upgrading: k.Upgrading, Listed: listed, Grouped: grouped})
		if err != nil {
			return nil, err
		}
		return k.withCold(b), nil
	case "memory":
		return memory.New(), nil
	case "postgres", "postgresql":
		b, err := postgres.Open(ctx, url, &postgres.Options{Others: Databases(k.Environ)})
		if err != nil {
			return nil, DatabaseHint(err)
		}
		return k.withCold(b), nil
	case "http", "https":
		return k.remote(ctx, url)
	}
	return nil, hint.With(tidemark.Invalidf("store %q: unknown kind", url), "write sqlite:%s or files:%s", url, url)
}

// remote opens the store of a server. The token comes from the environment or, for
// a server on this machine, from the file that the server wrote.
func (k *opener) remote(ctx context.Context, address string) (tidemark.Backend, error) {
	b, err := remote.Open(ctx, address, &remote.Options{ReadOnly: k.Access == Read, Token: Tokens(k.Environ)(address)})
	if errors.Is(err, tidemark.ErrDenied) {
		return nil, hint.With(err, "set $TIDEMARK_TOKEN, or $TIDEMARK_TOKEN_FILE, to a token of that server: tidemark token create")
	}
	if errors.Is(err, tidemark.ErrNoStore) {
		return nil, hint.With(err, "see whether a server answers there: tidemark version --server %s; start one with: tidemark serve", address)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Tokens returns what finds the token for the server at an address. The token file
// that a server on this machine wrote is never sent to another machine.
func Tokens(environ []string) func(address string) func(context.Context) (string, error) {
	return func(address string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return tokenFor(environ, address) }
	}
}

func tokenFor(environ []string, address string) (string, error) {
	file := Getenv(environ, "TIDEMARK_TOKEN_FILE")
	if token := Getenv(environ, "TIDEMARK_TOKEN"); token != "" {
		return token, nil
	}
	if file == "" && !onThisMachine(address) {
		return "", nil
	}
	path, err := TokenPath(environ, file)
	if err != nil {
		return "", err
	}
	return ReadToken(path)
}

func onThisMachine(address string) bool {
	u, err := neturl.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// IsPostgres reports whether a store URL names a PostgreSQL database.
func IsPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// Share says who else may read a session of the store at a URL. A workspace may be
// named by its name. ErrInvalid: it is not clear with whom.
func Share(ctx context.Context, s *store.Store, url string, id tidemark.SessionID, scope tidemark.Scope) (err error) {
	if !slices.Contains([]string{tidemark.Private, tidemark.InWorkspace, tidemark.InTenant}, scope.With) {
		return tidemark.Invalidf("%q: want private, workspace or tenant", scope.With)
	}
	if (scope.With == tidemark.InWorkspace) != (scope.Workspace != "") {
		return hint.With(tidemark.Invalidf("which workspace?"), "tidemark share %.8s workspace --workspace NAME", id)
	}
	if scope.Workspace != "" && IsPostgres(url) {
		if scope.Workspace, err = postgres.WorkspaceIn(url, scope.Workspace); err != nil {
			return err
		}
	}
	return s.Share(ctx, id, scope)
}

// DatabaseOwner is the environment variable with the URL of the role that owns
// the tables of a database. It contains a password, so it is no flag.
const DatabaseOwner = "TIDEMARK_DATABASE_OWNER"

// DatabaseHint adds what to do when a database is not ready for use.
func DatabaseHint(err error) error {
	switch {
	case errors.Is(err, tidemark.ErrNoStore):
		return hint.With(err, "make its tables with: %s=postgres://OWNER@… tidemark database migrate; the database itself is made by: createdb", DatabaseOwner)
	case errors.Is(err, tidemark.ErrDenied):
		return hint.With(err, "check the role in the URL and its password ($PGPASSWORD, ~/.pgpass), and what the database lets it do: tidemark database check")
	}
	return err
}

// WithoutPassword returns a store URL that may be shown to people.
func WithoutPassword(store string) string {
	if u, err := neturl.Parse(store); err == nil && u.User != nil {
		return u.Redacted()
	}
	return store
}

// HasAudit reports whether a store can keep an audit log. A store of files cannot.
func HasAudit(url string) bool { return !strings.HasPrefix(url, "files:") }
