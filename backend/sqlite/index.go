package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Limits of one transaction that adds to the index, so that a commit never waits
// long for it.
const (
	indexLines = 2048
	indexBytes = 2 << 20 // of words
)

// The id of a line in the index is derived from its time, so that descending ids
// give the newest first, whenever they were indexed. Time is divided into
// stretches of bucketIDs ids, one id every idMicros. A line takes the id after
// the last used one in the stretch of its time or, when that stretch is full,
// one of the first later stretch that has space. Ids that are close together
// keep the index small: with 16384 ids a minute it is half as large again.
const (
	idMicros  = 2_000_000
	bucketIDs = 64
	// firstBucket makes the ids of all representable years positive.
	firstBucket = 62_135_596_800_000_000/(idMicros*bucketIDs) + 1
)

// bucketAt returns the stretch of a time in microseconds.
func bucketAt(micros int64) int64 {
	return (micros + firstBucket*idMicros*bucketIDs) / (idMicros * bucketIDs)
}

// indexing is one call of Index, which may take several transactions.
type indexing struct {
	lines []tidemark.Indexed
	begun map[tidemark.Key]progress // how far each log was indexed when the call began
	done  int                       // lines dealt with
}

// progress is how far a log is indexed.
type progress struct {
	number, length, indexed int64
	born                    string // the batch of its first line: a log that is dropped and made again may get the same number
}

// Index adds lines in transactions of bounded size. The first one checks all the
// lines, so nothing is added when they do not continue where the index ends.
// Lines that another program indexes or drops later are skipped.
func (b *Backend) Index(ctx context.Context, lines ...tidemark.Indexed) error {
	x := &indexing{lines: lines}
	for x.done < len(lines) {
		if err := b.runJob(ctx, &job{do: x.next}); err != nil {
			return err
		}
	}
	return nil
}

// next runs one transaction.
func (x *indexing) next(w *writer) error {
	now := make(map[tidemark.Key]progress)
	if x.begun == nil {
		begun, err := x.check(w.c)
		if err != nil {
			return err
		}
		x.begun = begun
	}
	var docs []doc
	bytes, end := 0, x.done
	for ; end < len(x.lines) && end-x.done < indexLines && bytes < indexBytes; end++ {
		l := &x.lines[end]
		p, ok := now[l.Log]
		if !ok {
			var err error
			if p, err = readProgress(w.c, l.Log); err != nil {
				return err
			}
		}
		switch {
		case p.born != x.begun[l.Log].born || l.Seq <= p.indexed:
			now[l.Log] = p
			continue
		case l.Seq != p.indexed+1 || l.Seq > p.length:
			return tidemark.Conflictf("%s: line %d is not the next to index", l.Log, l.Seq)
		}
		p.indexed++
		now[l.Log] = p
		if d := makeDoc(p.number, l); len(d.text) > 0 {
			docs = append(docs, d)
			bytes += len(d.text)
		}
	}
	if err := addDocs(w.c, docs); err != nil {
		return asDamage(err, tidemark.Key{}, searchIndex)
	}
	for k, p := range now {
		if err := w.setProgress(k, p); err != nil {
			return err
		}
	}
	x.done = end
	return nil
}

// check checks that the lines of every log continue where its index ends.
func (x *indexing) check(c *conn) (map[tidemark.Key]progress, error) {
	begun, next := make(map[tidemark.Key]progress), make(map[tidemark.Key]int64)
	for i := range x.lines {
		l := &x.lines[i]
		p, ok := begun[l.Log]
		if !ok {
			var err error
			if p, err = readProgress(c, l.Log); err != nil {
				return nil, err
			}
			begun[l.Log], next[l.Log] = p, p.indexed
		}
		if next[l.Log]++; p.number == 0 || l.Seq > p.length || l.Seq != next[l.Log] {
			return nil, tidemark.Conflictf("%s: line %d is not the next to index", l.Log, l.Seq)
		}
	}
	return begun, nil
}

func readProgress(c *conn, k tidemark.Key) (p progress, err error) {
	err = c.do(`SELECT number, length, indexed, (SELECT n.batch FROM line n WHERE n.id = (number << 32) + 1) FROM log WHERE kind = ?1 AND id = ?2`, func(s *stmt) {
		s.setText(1, k.Kind)
		s.setText(2, k.ID)
	}, func(s *stmt) { p = progress{s.int(0), s.int(1), s.int(2), s.text(3)} })
	return p, err
}

// setProgress stores how far a log is indexed now. It is not covered by the sum
// of the head: Check compares it with the index itself.
func (w *writer) setProgress(k tidemark.Key, p progress) error {
	if p.number == 0 {
		return nil
	}
	behind := p.length > p.indexed
	if s := w.standings[k]; s != nil {
		s.behind = behind
	}
	return w.c.do(`UPDATE log SET indexed = ?2, behind = ?3 WHERE number = ?1`, func(s *stmt) {
		s.setInt(1, p.number)
		s.setInt(2, p.indexed)
		s.setInt(3, 0)
		if behind {
			s.setInt(3, 1)
		}
	}, nil)
}

// doc is a line as it goes into the index.
type doc struct {
	id   int64 // in the index
	at   int64
	line int64 // its id in the table line
	text []byte
}

func makeDoc(number int64, l *tidemark.Indexed) doc {
	d := doc{line: number<<seqBits | l.Seq, at: l.At.UnixMicro()}
	if len(l.Words) == 0 {
		return d
	}
	n := 0
	for _, word := range l.Words {
		n += len(word) + 3
	}
	d.text = make([]byte, 0, n)
	for _, word := range l.Words {
		d.text = append(appendToken(d.text, word), ' ')
	}
	return d
}

// addDocs writes docs in the order of their ids: FTS5 ends a segment of its
// index whenever an id goes back.
func addDocs(c *conn, docs []doc) error {
	slices.SortFunc(docs, func(a, b doc) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.line, b.line)) })
	next := int64(0) // the id after the last one
	for i := range docs {
		d := &docs[i]
		if bucket := bucketAt(d.at); next%bucketIDs == 0 || next/bucketIDs < bucket {
			var err error
			if next, err = freeID(c, max(bucket, next/bucketIDs)); err != nil {
				return err
			}
		}
		d.id = next
		next++
		if err := addDoc(c, d); err != nil {
			return err
		}
	}
	return flushWords(c)
}

// flushWords has FTS5 write what it still holds in memory. It would otherwise do
// so inside COMMIT, where damage would leave the outcome of the commit unknown.
func flushWords(c *conn) error { return c.run(`INSERT INTO word (word) VALUES ('flush')`) }

func addDoc(c *conn, d *doc) error {
	err := c.do(`INSERT INTO word (rowid, words) VALUES (?1, ?2)`, func(s *stmt) {
		s.setInt(1, d.id)
		s.setBytes(2, d.text, true)
	}, nil)
	if err != nil {
		return err
	}
	return c.do(`INSERT INTO hit (id, line) VALUES (?1, ?2)`, func(s *stmt) {
		s.setInt(1, d.id)
		s.setInt(2, d.line)
	}, nil)
}

// freeID returns the id after the last one of a stretch, or of the first later
// stretch that has space.
func freeID(c *conn, bucket int64) (int64, error) {
	for ; ; bucket++ {
		next := bucket * bucketIDs
		err := c.do(`SELECT max(id) FROM hit WHERE id BETWEEN ?1 AND ?2`, func(s *stmt) {
			s.setInt(1, bucket*bucketIDs)
			s.setInt(2, (bucket+1)*bucketIDs-1)
		}, func(s *stmt) {
			if !s.null(0) {
				next = s.int(0) + 1
			}
		})
		if err != nil || next/bucketIDs == bucket {
			return next, err
		}
	}
}

// unindexLines removes the lines of a log from the index. FTS5 notes that they
// are gone; their words stay in its pages until these are merged, at the latest
// by Compact. A damaged index is recreated: it must not keep anybody from
// purging.
func (w *writer) unindexLines(first, last int64) error {
	err := w.removeDocs(first, last)
	if isCorrupt(err) {
		err = emptyIndex(w)
	}
	return err
}

func (w *writer) removeDocs(first, last int64) error {
	var ids []int64
	err := w.c.do(`SELECT id FROM hit WHERE line BETWEEN ?1 AND ?2 ORDER BY id`, func(s *stmt) {
		s.setInt(1, first)
		s.setInt(2, last)
	}, func(s *stmt) { ids = append(ids, s.int(0)) })
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, id := range ids {
		for _, sql := range []string{`DELETE FROM word WHERE rowid = ?1`, `DELETE FROM hit WHERE id = ?1`} {
			if err := w.c.do(sql, func(s *stmt) { s.setInt(1, id) }, nil); err != nil {
				return err
			}
		}
	}
	return flushWords(w.c)
}

// Unindex empties the index.
func (b *Backend) Unindex(ctx context.Context) error {
	return b.runJob(ctx, &job{do: emptyIndex})
}

// searchIndex is the place that damage of the index is reported at.
const searchIndex = "the search index"

// emptyIndex recreates the index, whatever state it is in.
func emptyIndex(w *writer) error {
	for _, s := range w.standings {
		s.behind = s.head.number != 0
	}
	return w.c.run(`DROP TABLE word; DELETE FROM hit; UPDATE log SET indexed = 0, behind = 1; ` + tableWord)
}
