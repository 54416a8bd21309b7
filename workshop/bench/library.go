package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// library is the corpus in every store that is searched and moved, and in
// files as other tools would keep it.
type library struct {
	*corpus
	text    int64             // bytes that can be searched
	stores  map[string]*place // by backend
	indexes map[string]indexed
	dir     string // of NDJSON, a file a session
}

// indexed is what an index cost.
type indexed struct {
	took  time.Duration
	lines int64
	bytes int64
}

var shelves = []string{inSQLite, sealed + inSQLite, inFiles, sealed + inFiles}

// copiesOfText is how much space the corpus needs at most: in each store,
// as files and as archives, with indexes, twice while it is moved.
const copiesOfText = 16

// longAgo is when the sessions of a library were written: a search looks at each one
// that was written in the minute before the index was made, which are all of them
// here, and few in a store that somebody uses.
const longAgo = time.Hour

// books returns a library of so many entries, made on first use; nil when
// there is no space for it.
func (r *run) books(ctx context.Context, n int) (*library, error) {
	if l := r.shelf[n]; l != nil {
		return l, l.open(ctx)
	}
	if free, err := machine.Free(r.dir); err != nil || free < int64(n)*1000*copiesOfText {
		r.table.skip("%s entries of 1 KB: there is not enough room on the disk", short(n))
		return nil, err
	}
	name := short(n) + " books"
	l := &library{corpus: newCorpus(n), stores: make(map[string]*place), indexes: make(map[string]indexed),
		dir: filepath.Join(r.dir, name)}
	r.shelf[n] = l
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	for _, backend := range shelves {
		p, err := r.open(ctx, backend, name)
		if err != nil {
			return nil, err
		}
		p.ago = longAgo
		l.stores[backend] = p
	}
	r.say("making %s entries of 1 KB in %d stores and as files", short(n), len(shelves))
	for n := range l.sessions() {
		if err := l.add(ctx, n); err != nil {
			return nil, err
		}
	}
	for _, p := range l.stores {
		p.ago = 0
	}
	for _, backend := range []string{inSQLite, sealed + inSQLite} {
		r.say("indexing %.0f MB in %s", float64(l.text)/1e6, backend)
		x, err := l.index(ctx, backend)
		if err != nil {
			return nil, err
		}
		l.indexes[backend] = x
	}
	if _, err := l.stores[inFiles].CatchUp(ctx, nil); err != nil {
		return nil, err
	}
	return l, nil
}

// add puts a session into all stores and into a file.
func (l *library) add(ctx context.Context, n int) error {
	about, entries := l.session(n)
	for i := range entries {
		l.text += int64(len(search.Text(entries[i])))
	}
	for _, p := range l.stores {
		if err := p.keep(ctx, about, entries); err != nil {
			return err
		}
	}
	return writeEntries(filepath.Join(l.dir, fmt.Sprintf("%06d.ndjson", n)), entries)
}

// keep makes a session of entries.
func (p *place) keep(ctx context.Context, about tidemark.Session, entries []tidemark.Entry) error {
	w := p.Create(about, p.who)
	p.session = w.ID()
	_, err := w.Append(ctx, entries...)
	return errors.Join(err, w.Close(ctx))
}

func writeEntries(name string, entries []tidemark.Entry) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	enc := json.NewEncoder(w)
	for i := range entries {
		if err := enc.Encode(&entries[i]); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// index makes the index of a store.
func (l *library) index(ctx context.Context, backend string) (x indexed, err error) {
	p := l.stores[backend]
	before, err := usedBytes(ctx, p.path())
	if err != nil {
		return x, err
	}
	begin := time.Now()
	if x.lines, err = p.CatchUp(ctx, nil); err != nil {
		return x, err
	}
	x.took = time.Since(begin)
	after, err := usedBytes(ctx, p.path())
	x.bytes = after - before
	return x, err
}

// usedBytes is how much of a database is in use.
func usedBytes(ctx context.Context, file string) (int64, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?mode=ro")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var n int64
	err = db.QueryRowContext(ctx, `SELECT (p.page_count - f.freelist_count) * s.page_size
		FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s`).Scan(&n)
	return n, err
}

// open opens the stores that are closed.
func (l *library) open(ctx context.Context) error {
	for _, p := range l.stores {
		if p.Store == nil {
			if err := p.open(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *library) close() error {
	var errs []error
	for _, p := range l.stores {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}
