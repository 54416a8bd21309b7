// Package backendtest is the one suite that every Backend passes, local or
// remote, plain or sealed, without exceptions: the promises of the contract as
// tests, random histories against package memory as the model, and benchmarks.
//
//	func TestBackend(t *testing.T) { backendtest.Run(t, place) }
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// A Place makes an empty place to store things in, and returns how to open it.
// Each call of open returns another handle on the same place, as another process
// would get; handles may be open at the same time.
type Place func(t testing.TB) (open func() tidemark.Backend)

// Run runs the suite.
func Run(t *testing.T, place Place) {
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c.run(&bench{TB: t, open: place(t)})
		})
	}
	t.Run("random_histories_match_the_model", func(t *testing.T) {
		t.Parallel()
		Model(t, place)
	})
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"a record is found as it was put", recordIsFound},
	{"what was never put is not found", missingIsNotFound},
	{"a put at another version conflicts and changes nothing", putConflicts},
	{"a delete needs the version that stands", deleteConflicts},
	{"a required version must stand", requireMustStand},
	{"lines are read back as they were appended", linesAreFound},
	{"a span is cut to what is there", spans},
	{"an append at another length conflicts", appendConflicts},
	{"a key seen before is not appended again", keysAreKnown},
	{"a key is known among the newest ten thousand lines", keysInTheWindow},
	{"a batch happens whole or not at all", allOrNothing},
	{"a head commits with its log", heads},
	{"a listing is newest first and an append makes new", listNewest},
	{"a listing asks by group state prefix and due", listFilters},
	{"a listing goes on behind a cursor", listCursor},
	{"a dropped log is gone and can begin again", drops},
	{"a batch that breaks the rules is refused", refuses},
	{"bodies of any bytes survive", anyBytes},
	{"what was given may be changed afterwards", noAliases},
	{"of concurrent appends at one seq one wins", oneWins},
	{"concurrent writers of many logs all succeed", manyWriters},
	{"another handle sees a commit at once", handlesAgree},
	{"everything is there after opening again", reopen},
	{"a loop may stop and may commit inside", loopsAreFree},
	{"a cancelled commit changes nothing", cancelled},
	{"a closed backend serves nothing", closed},
	{"a watcher wakes when a log grows", watches},
	{"a walk names everything once in order", walks},
	{"what is adopted keeps its versions times and batches", adopts},
	{"what stands is not adopted over", adoptConflicts},
	{"a checker finds nothing wrong with a healthy place", checks},
	{"a trimmed log keeps its head and its newer lines", trimKeepsTheRest},
	{"a trimmed log tells what is left of a span", trimTellsTheRest},
	{"a trim at another length conflicts and changes nothing", trimConflicts},
	{"lines that are put back are as they were and their keys are known", fillBringsBack},
	{"a trimmed log grows as long as the key window is there", longLogsGrow},
	{"a trimmed log can be dropped and begin again", trimmedIsDropped},
}

// bench is the setup of a test case: a place, a handle, and a clock that only
// goes forward.
type bench struct {
	testing.TB
	open func() tidemark.Backend
	be   tidemark.Backend
	mu   sync.Mutex
	now  time.Time
}

func (b *bench) backend() tidemark.Backend {
	if b.be == nil {
		b.be = b.open()
		b.Cleanup(func() { b.be.Close() })
	}
	return b.be
}

func (b *bench) tick() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.IsZero() {
		b.now = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	}
	b.now = b.now.Add(1500 * time.Millisecond)
	return b.now
}

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

// NewRecord returns a record with a valid sum.
func NewRecord(k tidemark.Key, version int64, body string) tidemark.Record {
	r := tidemark.Record{Key: k, Version: version, Body: []byte(body)}
	r.Sum = r.Checksum()
	return r
}

// NewLine returns a line with a valid sum.
func NewLine(log tidemark.Key, seq int64, body string) tidemark.Line {
	l := tidemark.Line{
		Seq: seq, Kind: "user", Body: []byte(body),
		At:       time.Date(2026, 1, 1, 0, 0, 0, int(seq%1000)*1000, time.UTC),
		Position: tidemark.Position{Parent: seq - 1, Depth: seq, Nodes: (seq + 1) / 2, Turn: seq / 2},
	}
	return sealed(log, l)
}

func sealed(log tidemark.Key, l tidemark.Line) tidemark.Line {
	l.Sum = l.Checksum(log)
	return l
}

func (b *bench) batch(parts ...any) tidemark.Batch {
	b.Helper()
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: b.tick()}
	for _, p := range parts {
		switch p := p.(type) {
		case tidemark.Record:
			batch.Puts = append(batch.Puts, p)
		case tidemark.Append:
			batch.Appends = append(batch.Appends, p)
		case tidemark.Trim:
			batch.Trims = append(batch.Trims, p)
		case filled:
			batch.Fills = append(batch.Fills, tidemark.Append(p))
		case tidemark.Batch:
			batch.Require, batch.Deletes, batch.Drops = p.Require, p.Deletes, p.Drops
		default:
			b.Fatalf("batch of %T", p)
		}
	}
	return batch
}

// keep commits and fails the test when that fails.
func (b *bench) keep(parts ...any) tidemark.Batch {
	b.Helper()
	batch := b.batch(parts...)
	if _, err := b.backend().Commit(context.Background(), batch); err != nil {
		b.Fatalf("Commit = %v", err)
	}
	return batch
}

// fails commits and expects an error that answers to want.
func (b *bench) fails(want error, parts ...any) tidemark.Receipt {
	b.Helper()
	r, err := b.backend().Commit(context.Background(), b.batch(parts...))
	if !errors.Is(err, want) {
		b.Fatalf("Commit = %v, want %v", err, want)
	}
	return r
}

func (b *bench) get(k tidemark.Key) tidemark.Record {
	b.Helper()
	r, err := b.backend().Get(context.Background(), k)
	if err != nil {
		b.Fatalf("Get(%s) = %v", k, err)
	}
	return r
}

func (b *bench) lines(log tidemark.Key, spans ...tidemark.Span) (lines []tidemark.Line) {
	b.Helper()
	for l, err := range b.backend().Lines(context.Background(), log, spans...) {
		if err != nil {
			b.Fatalf("Lines(%s) = %v", log, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func (b *bench) list(q tidemark.Query) (records []tidemark.Record) {
	b.Helper()
	for r, err := range b.backend().List(context.Background(), q) {
		if err != nil {
			b.Fatalf("List(%+v) = %v", q, err)
		}
		records = append(records, r)
	}
	return records
}

func ids(records []tidemark.Record) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

func seqs(lines []tidemark.Line) (seqs []int64) {
	for _, l := range lines {
		seqs = append(seqs, l.Seq)
	}
	return seqs
}

func (b *bench) same(got, want any) {
	b.Helper()
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func run(log tidemark.Key, from, to int64) tidemark.Append {
	a := tidemark.Append{Log: log}
	for s := from; s <= to; s++ {
		a.Lines = append(a.Lines, NewLine(log, s, fmt.Sprintf(`{"n":%d}`, s)))
	}
	return a
}

func keyed(log tidemark.Key, seq int64, k string) tidemark.Line {
	l := NewLine(log, seq, `{}`)
	l.Key = k
	return sealed(log, l)
}
