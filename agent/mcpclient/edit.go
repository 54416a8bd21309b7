package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/project"
)

// Add adds a server to a file, which is made if it is not there; what else is
// in it stays. ErrExists: there is one of this name. ErrInvalid: the server or
// the file is wrong.
func Add(ctx context.Context, file string, s Server) error {
	if err := s.check(); err != nil {
		return tidemark.Invalidf("%w", err)
	}
	def, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return edit(ctx, file, func(servers map[string]json.RawMessage) error {
		if servers[s.Name] != nil {
			return tidemark.Existsf("%s has a server %s", file, s.Name)
		}
		servers[s.Name] = def
		return nil
	})
}

// Remove removes a server from a file. ErrNotFound: there is none of this name.
func Remove(ctx context.Context, file, name string) error {
	return edit(ctx, file, func(servers map[string]json.RawMessage) error {
		if servers[name] == nil {
			return tidemark.NotFoundf("%s has no server %.60q", file, name)
		}
		delete(servers, name)
		return nil
	})
}

// edit replaces the servers of a file by what change makes of them, durably and
// under a lock that all processes of the user share.
func edit(ctx context.Context, file string, change func(map[string]json.RawMessage) error) error {
	folder, name := filepath.Dir(file), filepath.Base(file)
	if err := durable.MakeDir(folder); err != nil {
		return tidemark.Storagef("%w", err)
	}
	lock, err := durable.OpenLock(file + ".lock")
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	defer lock.Close()
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	all := make(map[string]json.RawMessage)
	servers := make(map[string]json.RawMessage)
	b, err := project.ReadOwn(file, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tidemark.Invalidf("%s: %w", file, err)
	}
	if len(bytes.TrimSpace(b)) > 0 {
		if err := json.Unmarshal(b, &all); err != nil {
			return tidemark.Invalidf("%s: %w", file, err)
		}
		if raw := all["mcpServers"]; raw != nil {
			if err := json.Unmarshal(raw, &servers); err != nil || servers == nil {
				return tidemark.Invalidf("%s: mcpServers is no object", file)
			}
		}
	}
	if err := change(servers); err != nil {
		return err
	}
	if all["mcpServers"], err = json.Marshal(servers); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	dir, err := durable.OpenDir(folder)
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	defer dir.Close()
	// Whoever died while writing left one.
	fresh := fmt.Sprintf("%s.%d.tmp", name, os.Getpid())
	if err := dir.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tidemark.Storagef("%w", err)
	}
	if err := durable.Replace(dir, fresh, name, append(data, '\n')); err != nil {
		return tidemark.Storagef("%w", err)
	}
	return nil
}
