package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
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

// dataDir is where this platform keeps the data of programs.
func dataDir() (string, error) {
	// A relative XDG path is not valid and is to be ignored.
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) && runtime.GOOS != "windows" {
		return filepath.Join(dir, "tidemark"), nil
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("APPDATA"); dir != "" {
			return filepath.Join(dir, "tidemark"), nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", tidemark.Invalidf("no home folder: %w", err)
	}
	switch runtime.GOOS {
	case "windows":
		return filepath.Join(home, "AppData", "Roaming", "tidemark"), nil
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "tidemark"), nil
	}
	return filepath.Join(home, ".local", "share", "tidemark"), nil
}

// openBackend opens the place that the store URL names.
func (a *app) openBackend(ctx context.Context, url string, how access) (tidemark.Backend, error) {
	scheme, path, _ := strings.Cut(url, ":")
	if (scheme == "sqlite" || scheme == "files") && path == "" {
		return nil, tidemark.Invalidf("store %q: a path is missing", url)
	}
	switch scheme {
	case "sqlite":
		b, err := sqlite.Open(ctx, path, &sqlite.Options{ReadOnly: how == reads, Create: how == creates})
		if err != nil {
			return nil, err
		}
		return b, nil
	case "files":
		b, err := files.Open(ctx, path, &files.Options{ReadOnly: how == reads, Create: how == creates})
		if err != nil {
			return nil, err
		}
		return b, nil
	case "memory":
		return memory.New(), nil
	case "postgres", "postgresql", "http", "https":
		return nil, withHint(tidemark.Unsupportedf("store %q: this version keeps sessions on one machine only", url),
			"use sqlite:PATH or files:DIR")
	}
	return nil, withHint(tidemark.Invalidf("store %q: unknown kind", url), "write sqlite:%s or files:%s", url, url)
}
