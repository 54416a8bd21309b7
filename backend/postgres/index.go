package postgres

import (
	"context"
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark"
)

// Limits of one transaction that adds to the index, so that a large import does
// not keep the database busy with one of them while others append.
const (
	indexLines = 2048
	indexWords = 8_000
)

// maxWordBytes bounds a word in the index. A longer one is cut to this length,
// ending in its hash; words of exactly this length are therefore cut ones.
const maxWordBytes = 1000

func wordOut(word string) []byte {
	if len(word) < maxWordBytes {
		return append(make([]byte, 0, len(word)), word...)
	}
	sum := sha256.Sum256([]byte(word))
	return append([]byte(word[:maxWordBytes-len(sum)]), sum[:]...)
}

const sqlUnindexed = `select l.id, l.indexed, l.length from tidemark.log l
  where l.behind and l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id > $4 order by l.id limit $5`

// Unindexed yields the principal's own logs; each owner's are indexed by a
// process that can read them for that owner.
func (b *Backend) Unindexed(ctx context.Context, kinds ...string) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		if b.mayChange() != nil {
			return
		}
		for _, kind := range kinds {
			for after, more := "", true; more; {
				var lags []tidemark.Lag
				err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
					lags = nil
					each(batch.Queue(sqlUnindexed, b.who.tenant, b.who.user, toText(kind), after, pageRows), func(rows pgx.Rows) error {
						lag := tidemark.Lag{Log: tidemark.Key{Kind: kind}}
						err := rows.Scan(&lag.Log.ID, &lag.From, &lag.To)
						lag.From++
						lags = append(lags, lag)
						return err
					})
				})
				if err != nil {
					yield(tidemark.Lag{}, err)
					return
				}
				for _, lag := range lags {
					if after = lag.Log.ID; lag.From <= lag.To && !yield(lag, nil) {
						return
					}
				}
				more = len(lags) == pageRows
			}
		}
	}
}

// progress is how far a log is indexed.
type progress struct {
	log             id
	scope           *id
	length, indexed int64
}

// indexing is one call of Index, which may take several transactions.
type indexing struct {
	b     *Backend
	lines []tidemark.Indexed
	begun map[tidemark.Key]progress // how far each log was indexed when the call began
	done  int                       // lines dealt with
}

// Index adds lines in transactions of bounded size. The first one checks all the
// lines, so nothing is added when they do not continue where the index ends.
// Lines that another program indexes or drops later are skipped.
func (b *Backend) Index(ctx context.Context, lines ...tidemark.Indexed) error {
	if err := b.mayChange(); err != nil {
		return err
	}
	x := &indexing{b: b, lines: lines}
	for x.done < len(lines) {
		end := 0
		err := b.inTransaction(ctx, func(tx pgx.Tx) (err error) {
			end, err = x.next(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		x.done = end
	}
	return nil
}

const sqlProgress = `select u.kind, u.id, l.log, l.scope, l.length, l.indexed from unnest($3::text[], $4::text[]) u(kind, id)
  cross join lateral (select * from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = u.kind and l.id = u.id limit 1) l`

// look returns how far each log of lines is indexed. It locks nothing, so that
// nobody who appends waits while words are added.
func (x *indexing) look(ctx context.Context, tx pgx.Tx, lines []tidemark.Indexed) (map[tidemark.Key]progress, error) {
	seen := make(map[tidemark.Key]bool)
	for i := range lines {
		seen[lines[i].Log] = true
	}
	var kinds, ids []string
	for _, k := range slices.SortedFunc(maps.Keys(seen), compareKeys) {
		kinds, ids = append(kinds, toText(k.Kind)), append(ids, toText(k.ID))
	}
	rows, err := tx.Query(ctx, sqlProgress, x.b.who.tenant, x.b.who.user, kinds, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := make(map[tidemark.Key]progress)
	for rows.Next() {
		var k tidemark.Key
		var p progress
		if err := rows.Scan(&k.Kind, &k.ID, &p.log, &p.scope, &p.length, &p.indexed); err != nil {
			return nil, err
		}
		have[k] = p
	}
	return have, rows.Err()
}

// next runs one transaction. It returns the end of the lines that are done.
func (x *indexing) next(ctx context.Context, tx pgx.Tx) (end int, err error) {
	// A power cut may lose what is added, which is then indexed again.
	if _, err := tx.Exec(ctx, `set local synchronous_commit = off`); err != nil {
		return 0, err
	}
	lines := x.lines[x.done:]
	if x.begun == nil {
		begun, err := x.look(ctx, tx, lines)
		if err != nil {
			return 0, err
		}
		if err := follows(lines, begun); err != nil {
			return 0, err
		}
		x.begun = begun
	}
	words := 0
	for end = x.done; end < len(x.lines) && end-x.done < indexLines && words < indexWords; end++ {
		words += len(x.lines[end].Words)
	}
	lines = x.lines[x.done:end]
	now, err := x.look(ctx, tx, lines)
	if err != nil {
		return 0, err
	}
	return end, x.add(ctx, tx, lines, now)
}

// follows checks that the lines of every log continue where its index ends.
func follows(lines []tidemark.Indexed, have map[tidemark.Key]progress) error {
	next := make(map[tidemark.Key]int64)
	for i := range lines {
		l := &lines[i]
		p, ok := have[l.Log]
		if _, begun := next[l.Log]; !begun {
			next[l.Log] = p.indexed
		}
		if next[l.Log]++; !ok || l.Seq > p.length || l.Seq != next[l.Log] {
			return tidemark.Conflictf("%s: line %d is not the next to index", l.Log, l.Seq)
		}
	}
	return nil
}

const (
	sqlNewWords = `insert into tidemark.word (tenant, owner, log, seq, scope, word, at)
  select $1, $2, u.* from unnest($3::uuid[], $4::bigint[], $5::uuid[], $6::bytea[], $7::timestamptz[]) u`
	// It changes nothing when the log is another one than it was, is shared in
	// another way, or was indexed by somebody else.
	sqlIndexed = `update tidemark.log l set indexed = $5, behind = $5 < l.length where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4
  and l.log = $6 and l.indexed = $7 and l.scope is not distinct from $8`
)

// add adds the words of lines to logs that stand as they did now, and records
// how far they are indexed: last, because that locks the logs until COMMIT.
func (x *indexing) add(ctx context.Context, tx pgx.Tx, lines []tidemark.Indexed, now map[tidemark.Key]progress) error {
	done, err := x.addWords(ctx, tx, lines, now)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for _, k := range slices.SortedFunc(maps.Keys(done), compareKeys) {
		p := now[k]
		batch.Queue(sqlIndexed, x.b.who.tenant, x.b.who.user, toText(k.Kind), toText(k.ID), done[k], p.log, p.indexed, p.scope).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return errMoved
			}
			return nil
		})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// addWords returns how far each log will be indexed.
func (x *indexing) addWords(ctx context.Context, tx pgx.Tx, lines []tidemark.Indexed, now map[tidemark.Key]progress) (map[tidemark.Key]int64, error) {
	var logs []id
	var seqs []int64
	var scopes []*id
	var words [][]byte
	var ats []time.Time
	done := make(map[tidemark.Key]int64)
	for i := range lines {
		l := &lines[i]
		p, ok := now[l.Log]
		upto := max(p.indexed, done[l.Log])
		switch {
		case !ok || p.log != x.begun[l.Log].log || l.Seq <= upto:
			continue
		case l.Seq != upto+1 || l.Seq > p.length:
			return nil, tidemark.Conflictf("%s: line %d is not the next to index", l.Log, l.Seq)
		}
		done[l.Log] = l.Seq
		once := slices.Clone(l.Words)
		slices.Sort(once)
		for _, w := range slices.Compact(once) {
			logs, seqs, scopes, words, ats = append(logs, p.log), append(seqs, l.Seq), append(scopes, p.scope), append(words, wordOut(w)), append(ats, l.At)
		}
	}
	if len(words) == 0 {
		return done, nil
	}
	_, err := tx.Exec(ctx, sqlNewWords, x.b.who.tenant, x.b.who.user, logs, seqs, scopes, words, ats)
	return done, err
}

// Unindex empties the index of what the principal owns.
func (b *Backend) Unindex(ctx context.Context) error {
	if err := b.mayChange(); err != nil {
		return err
	}
	return b.inTransaction(ctx, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`select from tidemark.log l where l.tenant = $1 and l.owner = $2 order by l.kind, l.id for no key update`, b.who.tenant, b.who.user)
		batch.Queue(`delete from tidemark.word w where w.tenant = $1 and w.owner = $2`, b.who.tenant, b.who.user)
		batch.Queue(`update tidemark.log l set indexed = 0, behind = true where l.tenant = $1 and l.owner = $2 and (l.indexed <> 0 or not l.behind)`, b.who.tenant, b.who.user)
		return tx.SendBatch(ctx, batch).Close()
	})
}
