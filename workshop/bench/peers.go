package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"

	_ "modernc.org/sqlite" // the driver of the transaction per entry
)

// What the store is compared with: the least that any program could do,
// and what programs like it do today.

// plainFile is a file that is appended to and synced, nothing else.
type plainFile struct{ f *os.File }

func openPlain(dir, name string) (*plainFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &plainFile{f}, err
}

func (p *plainFile) append(b []byte) error {
	if _, err := p.f.Write(b); err != nil {
		return err
	}
	return syncData(p.f)
}

// newFile makes a small file that survives a power cut: written aside,
// synced, renamed, and the directory synced.
func newFile(dir, name string, b []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name+".tmp"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// rowTable is a table of entries in SQLite, written with one transaction
// per entry, as durable as the store.
type rowTable struct {
	db   *sql.DB
	conn *sql.Conn
	put  *sql.Stmt

	mu  sync.Mutex
	seq int64
}

func openRows(ctx context.Context, dir string) (*rowTable, error) {
	dsn := "file:" + filepath.ToSlash(filepath.Join(dir, "rows.db")) +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	t := &rowTable{db: db}
	if t.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err = t.conn.ExecContext(ctx, `CREATE TABLE entry (session INTEGER, seq INTEGER, body TEXT, PRIMARY KEY (session, seq)) WITHOUT ROWID`); err != nil {
		return nil, err
	}
	t.put, err = t.conn.PrepareContext(ctx, `INSERT INTO entry VALUES (?, ?, ?)`)
	return t, err
}

func (t *rowTable) append(ctx context.Context, session int, body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	t.seq++
	if _, err := t.put.ExecContext(ctx, session, t.seq, string(body)); err != nil {
		return err
	}
	_, err := t.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (t *rowTable) close() error { return errors.Join(t.put.Close(), t.conn.Close(), t.db.Close()) }

// transcript is a file of entries as JSON, one per line, as most tools keep
// a session.
type transcript struct {
	name  string
	bytes int64
}

func writeTranscript(dir string, entries int) (transcript, error) {
	t := transcript{name: filepath.Join(dir, "transcript.ndjson")}
	f, err := os.OpenFile(t.name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return t, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for seq := range int64(entries) {
		b, err := json.Marshal(placed(seq + 1))
		if err != nil {
			return t, err
		}
		t.bytes += int64(len(b) + 1)
		w.Write(append(b, '\n'))
	}
	return t, errors.Join(w.Flush(), f.Sync(), f.Close())
}

// tailRead opens the file, reads its last 12 KB and closes it: the limit of a
// tail.
func (t transcript) tailRead() error {
	f, err := os.Open(t.name)
	if err != nil {
		return err
	}
	var buf [12 << 10]byte
	_, err = f.ReadAt(buf[:], max(t.bytes-int64(len(buf)), 0))
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// parseAll reads every entry to show the last ones.
func (t transcript) parseAll() ([]tidemark.Entry, error) {
	b, err := os.ReadFile(t.name)
	if err != nil {
		return nil, err
	}
	var all []tidemark.Entry
	for line := range bytes.Lines(b) {
		var e tidemark.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// copyTo copies the bytes into a new file, durably.
func (t transcript) copyTo(name string) error {
	from, err := os.Open(t.name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}

// rewriteTo parses every entry and writes it into a new file, durably: how a
// session is forked where the past is not shared.
func (t transcript) rewriteTo(name string) error {
	all, err := t.parseAll()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<20)
	enc := json.NewEncoder(w)
	for i := range all {
		if err := enc.Encode(&all[i]); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), to.Sync(), to.Close())
}

//go:embed tail.js
var tailScript string

// nodeTail lets node read the last 50 entries n times and returns the reported
// time for one: without its start, and after it has compiled the hot code.
func (t transcript) nodeTail(ctx context.Context, n int) (sample, error) {
	out, err := exec.CommandContext(ctx, "node", "-e", tailScript, t.name, strconv.Itoa(n)).Output()
	if err != nil {
		return sample{}, err
	}
	each, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return sample{}, fmt.Errorf("node said %.40q: %w", out, err)
	}
	return sample{each: each}, nil
}
