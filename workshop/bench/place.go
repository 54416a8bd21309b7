package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// The backends that are measured. Memory keeps nothing: it shows what the
// rules above the backends cost.
const (
	inMemory = "memory"
	inFiles  = "files"
	inSQLite = "sqlite"

	// sealed, in front of a backend, is the same under encryption.
	sealed = "sealed "
)

var durable = []string{inFiles, inSQLite}

// place is a store of its own.
type place struct {
	*store.Store // nil while it is closed
	backend      string
	dir          string
	url          string   // as the command line names it
	keyFile      string   // of a sealed one
	environ      []string // of the processes that use it
	who          tidemark.Holder
	ago          time.Duration      // by how much its clock is behind
	session      tidemark.SessionID // the only one, or the long one, in a store that was made for it
}

// open makes a store of a backend below a fresh directory.
func (r *run) open(ctx context.Context, backend, name string) (*place, error) {
	p, err := r.site(backend, name)
	if err != nil {
		return nil, err
	}
	return p, p.open(ctx)
}

// site is the location of a store that is about to be made.
func (r *run) site(backend, name string) (*place, error) {
	dir := filepath.Join(r.dir, strings.ReplaceAll(name+"-"+backend, " ", "-"))
	p := &place{backend: backend, dir: dir, who: process.Self("bench")}
	switch strings.TrimPrefix(backend, sealed) {
	case inFiles:
		p.url = "files:" + filepath.Join(dir, "store")
	case inSQLite:
		p.url = "sqlite:" + filepath.Join(dir, "tidemark.db")
	}
	if strings.HasPrefix(backend, sealed) {
		p.keyFile = filepath.Join(dir, "key")
	}
	return p, os.MkdirAll(dir, 0o700)
}

// path is where the backend keeps its file or its folder.
func (p *place) path() string {
	_, path, _ := strings.Cut(p.url, ":")
	return path
}

func (p *place) open(ctx context.Context) error {
	b, err := p.openBackend(ctx)
	if err != nil {
		return err
	}
	if p.keyFile != "" {
		if b, err = p.unseal(ctx, b); err != nil {
			return err
		}
	}
	p.Store = store.New(b, &store.Options{Places: search.EachWord, Now: func() time.Time { return time.Now().Add(-p.ago) }})
	return nil
}

// openBackend opens what is on the disk, sealed or not.
func (p *place) openBackend(ctx context.Context) (tidemark.Backend, error) {
	switch strings.TrimPrefix(p.backend, sealed) {
	case inFiles:
		return files.Open(ctx, p.path(), &files.Options{Create: true, Listed: []string{"session", "job"}})
	case inSQLite:
		return sqlite.Open(ctx, p.path(), &sqlite.Options{Create: true})
	}
	return memory.New(), nil
}

// unseal opens a sealed store, and seals a new one.
func (p *place) unseal(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	contents, err := os.ReadFile(p.keyFile)
	if err == nil {
		key, err := seal.KeyFile(contents)
		if err != nil {
			return nil, err
		}
		return seal.Open(ctx, inner, key)
	}
	contents = seal.NewKeyFile()
	slot, err := seal.FileSlot("bench", contents)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.keyFile, contents, 0o600); err != nil {
		return nil, err
	}
	return seal.Create(ctx, inner, slot)
}

// close keeps what is on the disk.
func (p *place) close() error {
	if p.Store == nil {
		return nil
	}
	err := p.Store.Close()
	p.Store = nil
	return err
}

// leave closes a store and removes it.
func (p *place) leave() error { return errors.Join(p.close(), os.RemoveAll(p.dir)) }

// kept returns the store of that name, filled on first use: large ones
// serve several parts.
func (r *run) kept(ctx context.Context, backend, name string, fill func(*place) error) (*place, error) {
	key := name + " in " + backend
	p := r.places[key]
	if p != nil {
		if p.Store == nil {
			return p, p.open(ctx)
		}
		return p, nil
	}
	r.say("making %s", key)
	p, err := r.open(ctx, backend, name)
	if err != nil {
		return nil, err
	}
	r.places[key] = p
	return p, fill(p)
}

// closeKept closes all large stores, as when no process has them open.
func (r *run) closeKept() error {
	var errs []error
	for _, p := range r.places {
		errs = append(errs, p.close())
	}
	for _, l := range r.shelf {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// bytesPerEntry is how much space an entry needs, including data not yet
// written back.
const bytesPerEntry = 1000

// long returns a store with one session of n entries, nil when there is no
// room for it.
func (r *run) long(ctx context.Context, backend string, n int) (*place, error) {
	name := short(n) + " entries"
	if r.places[name+" in "+backend] == nil {
		if free, err := machine.Free(r.dir); err != nil || free < int64(n)*bytesPerEntry {
			r.table.skip("%s in %s: there is not enough room on the disk", name, backend)
			return nil, err
		}
	}
	return r.kept(ctx, backend, name, func(p *place) (err error) {
		p.session, err = p.converse(ctx, n)
		return err
	})
}

// crowd returns a store with n sessions.
func (r *run) crowd(ctx context.Context, backend string, n int) (*place, error) {
	return r.kept(ctx, backend, short(n)+" sessions", func(p *place) error { return p.populate(ctx, n) })
}

var words = []string{"tide", "mark", "branch", "harbour", "a longer thought", "the list of files", "why it failed", "what to do next"}

// say returns the entry at a seq: some 240 bytes as a line of JSON, with a
// newline and a quote in it as messages have them.
func say(seq int64) tidemark.Entry {
	role, text := tidemark.User, "look at %q of %d,\nplease, and tell me about %s"
	if seq%2 == 0 {
		role, text = tidemark.Assistant, "here is %q (%d):\nthere is more of it in %s"
	}
	n := int(seq)
	return tidemark.Say(role, fmt.Sprintf(text, words[n%len(words)], n, words[(n/3)%len(words)]))
}

// placed is the entry at seq when two take turns, positioned as the store
// does.
func placed(seq int64) tidemark.Entry {
	e := say(seq)
	e.Seq, e.At = seq, time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC).Add(time.Duration(seq)*time.Millisecond)
	e.Position = tidemark.Position{Parent: seq - 1, Depth: seq, Nodes: (seq + 1) / 2, Turn: (seq - 1) / 2 * 2}
	return e
}

// stride is the number of entries that a long session grows by at a time.
const stride = 10_000

// converse makes a session of n entries.
func (p *place) converse(ctx context.Context, n int) (tidemark.SessionID, error) {
	w := p.Create(tidemark.Session{Title: fmt.Sprintf("a session of %d", n), Model: "demo"}, p.who)
	batch := make([]tidemark.Entry, 0, stride)
	for seq := int64(1); seq <= int64(n); seq++ {
		batch = append(batch, say(seq))
		if len(batch) < stride && seq < int64(n) {
			continue
		}
		if _, err := w.Append(ctx, batch...); err != nil {
			return "", err
		}
		batch = batch[:0]
	}
	return w.ID(), w.Close(ctx)
}

// projects is the number of projects that many sessions are spread over.
const projects = 100

func project(i int) string { return fmt.Sprintf("/projects/p%d", i%projects) }

// populate makes n sessions of two entries, by many writers at once.
func (p *place) populate(ctx context.Context, n int) error {
	const makers = 64
	var wait sync.WaitGroup
	errs := make([]error, makers)
	for m := range makers {
		wait.Go(func() {
			for i := m; i < n && errs[m] == nil; i += makers {
				w := p.Create(tidemark.Session{Title: fmt.Sprintf("session %d about %s", i, words[i%len(words)]),
					Model: "demo", Project: project(i)}, p.who)
				_, err := w.Append(ctx, say(1), say(2))
				errs[m] = errors.Join(err, w.Close(ctx))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// writers makes as many sessions and keeps them open for writing.
func (p *place) writers(ctx context.Context, n int) ([]*store.Writer, error) {
	all := make([]*store.Writer, n)
	for i := range all {
		all[i] = p.Create(tidemark.Session{Model: "demo"}, p.who)
		if _, err := all[i].Append(ctx, say(1)); err != nil {
			return nil, err
		}
	}
	return all, nil
}
