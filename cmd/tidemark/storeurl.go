package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

// location returns where the store is, and who says so.
func (a *app) location() (url, origin string, err error) {
	switch env := os.Getenv("TIDEMARK_STORE"); {
	case a.storeURL != "":
		return a.storeURL, "flag --store", nil
	case env != "":
		return env, "environment TIDEMARK_STORE", nil
	case a.config.Store != "":
		return a.config.Store, a.config.origins["store"], nil
	}
	dir, err := dataDir()
	return "sqlite:" + filepath.Join(dir, "tidemark.db"), "default", err
}

// openBackend opens the place that the store URL names.
func (a *app) openBackend(ctx context.Context, place string, how access) (tidemark.Backend, error) {
	scheme, path, _ := strings.Cut(place, ":")
	if (scheme == "sqlite" || scheme == "files") && path == "" {
		return nil, tidemark.Invalidf("store %q: a path is missing", place)
	}
	switch scheme {
	case "sqlite":
		b, err := sqlite.Open(ctx, path, &sqlite.Options{ReadOnly: how == reads, Create: how == creates, Upgrading: a.upgrading, Damaged: a.damaged})
		if err != nil {
			return nil, err
		}
		return b, nil
	case "files":
		b, err := files.Open(ctx, path, &files.Options{ReadOnly: how == reads, Create: how == creates, Upgrading: a.upgrading})
		if err != nil {
			return nil, err
		}
		return b, nil
	case "memory":
		return memory.New(), nil
	case "postgres", "postgresql":
		b, err := postgres.Open(ctx, place, nil)
		if err != nil {
			return nil, databaseHint(err)
		}
		return b, nil
	case "http", "https":
		return a.openRemote(ctx, place, how)
	}
	return nil, withHint(tidemark.Invalidf("store %q: unknown kind", place), "write sqlite:%s or files:%s", place, place)
}

// upgrading says that an older store becomes one of this program, and where
// what it was is kept.
func (a *app) upgrading(from, to int64, backup string) {
	a.say("tidemark: the store has format %d and is upgraded to format %d; what it is now is kept as %s", from, to, backup)
}

// damaged says that something of the store is damaged that it is used without.
func (a *app) damaged(what string) {
	a.say("tidemark: the store is damaged, and its sessions are still there: %s. Repair it with: tidemark doctor --fix", what)
}

// openRemote opens the store of a server. Its token comes from the
// environment; that of a server on this machine lies where it put it.
func (a *app) openRemote(ctx context.Context, address string, how access) (tidemark.Backend, error) {
	b, err := remote.Open(ctx, address, &remote.Options{ReadOnly: how == reads, Token: serverToken(address)})
	if errors.Is(err, tidemark.ErrDenied) {
		return nil, withHint(err, "set $TIDEMARK_TOKEN, or $TIDEMARK_TOKEN_FILE, to a token of that server: tidemark token create")
	}
	if errors.Is(err, tidemark.ErrNoStore) {
		return nil, withHint(err, "see whether a server answers there: tidemark version --server %s; start one with: tidemark serve", address)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// serverToken returns what tells the token for a server, "" when there is none.
// The one that a server on this machine made is for that one alone.
func serverToken(address string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		file := os.Getenv("TIDEMARK_TOKEN_FILE")
		if token := os.Getenv("TIDEMARK_TOKEN"); token != "" {
			return token, nil
		}
		if file == "" && !onThisMachine(address) {
			return "", nil
		}
		path, err := tokenPath(file)
		if err != nil {
			return "", err
		}
		return readToken(path)
	}
}

func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// withoutPassword is a store URL as it may be shown.
func withoutPassword(store string) string {
	if u, err := url.Parse(store); err == nil && u.User != nil {
		return u.Redacted()
	}
	return store
}
