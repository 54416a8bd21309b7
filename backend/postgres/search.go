package postgres

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// firstHits is the size of the first page of a search; most callers want few.
const firstHits = 32

// countHits is how far the lines of a group of terms are counted, to start with
// the rarest group.
const countHits = 1000

// maxPrefixBytes bounds a prefix that can be searched for: longer words are cut
// in the index.
const maxPrefixBytes = maxWordBytes - 32

// Search yields the newest lines first, of the principal's own logs and of those
// that others share. The index is walked from the newest line of each word down;
// a prefix costs more the more lines match it. ErrInvalid: a prefix is empty, or
// over maxPrefixBytes.
func (b *Backend) Search(ctx context.Context, a tidemark.IndexQuery) iter.Seq2[tidemark.Hit, error] {
	return func(yield func(tidemark.Hit, error) bool) {
		s, err := b.searching(ctx, a)
		for err == nil && !s.done {
			if err = s.next(ctx); err != nil {
				break
			}
			for _, h := range s.hits {
				if !yield(h.Hit, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(tidemark.Hit{}, err)
		}
	}
}

// searching carries a search from page to page.
type searching struct {
	b     *Backend
	query tidemark.IndexQuery // the rarest group first
	left  int
	size  int
	after *hitRow
	hits  []hitRow
	done  bool
}

type hitRow struct {
	tidemark.Hit
	owner, log id
}

func (b *Backend) searching(ctx context.Context, a tidemark.IndexQuery) (*searching, error) {
	s := &searching{b: b, left: a.Limit, query: tidemark.IndexQuery{All: slices.Clone(a.All), None: a.None}}
	if a.Limit <= 0 {
		s.left = math.MaxInt
	}
	for _, terms := range append(slices.Clone(a.All), a.None) {
		for _, t := range terms {
			if t.Prefix && (t.Word == "" || len(t.Word) > maxPrefixBytes) {
				return nil, tidemark.Invalidf("search: the beginning of a word has 1 to %d bytes, not %d", maxPrefixBytes, len(t.Word))
			}
		}
	}
	s.done = len(a.All) == 0 || slices.ContainsFunc(a.All, func(any []tidemark.Term) bool { return len(any) == 0 })
	if s.done {
		return s, b.query(ctx, namedLogs{}, func(*pgx.Batch) {})
	}
	if len(a.All) > 1 {
		return s, s.rarestFirst(ctx)
	}
	return s, nil
}

// newestWords is the order of the indexes of words.
const newestWords = ` order by w.at desc, w.owner, w.log, w.seq`

// rarestFirst counts the lines of each group, up to a bound.
func (s *searching) rarestFirst(ctx context.Context) error {
	counts := make([]int64, len(s.query.All))
	err := s.b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		for i, any := range s.query.All {
			w := &statement{}
			w.WriteString(`select count(*) from (select from (`)
			s.sources(w, any, w.arg(countHits), "", newestWords)
			w.WriteString(`) h limit ` + w.arg(countHits) + `) n`)
			batch.Queue(w.String(), w.args...).QueryRow(func(row pgx.Row) error { return row.Scan(&counts[i]) })
		}
	})
	if err != nil {
		return err
	}
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	all := s.query.All
	s.query.All = nil
	for _, i := range order {
		s.query.All = append(s.query.All, all[i])
	}
	return nil
}

// matches writes the condition that the row w of table word has one of the
// terms.
func (q *statement) matches(row string, terms []tidemark.Term) string {
	var words [][]byte
	var or []string
	for _, t := range terms {
		if !t.Prefix {
			words = append(words, wordOut(t.Word))
			continue
		}
		from := []byte(t.Word)
		cond := row + `.word >= ` + q.arg(from)
		if below := successor(from); below != nil {
			cond += ` and ` + row + `.word < ` + q.arg(below)
		}
		or = append(or, "("+cond+")")
	}
	switch len(words) {
	case 0:
	case 1: // a list is taken for a long one, and then another index may look better
		or = append(or, row+`.word = `+q.arg(words[0]))
	default:
		or = append(or, row+`.word = any(`+q.arg(words)+`::bytea[])`)
	}
	return "(" + strings.Join(or, " or ") + ")"
}

// successor returns the first bytes after all that begin with prefix.
func successor(prefix []byte) []byte {
	b := slices.Clone(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return b
		}
		b = b[:len(b)-1]
	}
	return nil
}

// sources writes a statement for the newest lines that have one of the terms, at
// most limit from each place where they may be: each word walks down an index of
// its own for the principal, the tenant itself, and each scope.
func (s *searching) sources(q *statement, terms []tidemark.Term, limit, where, order string) {
	tenant := q.arg(s.b.who.tenant)
	var each []string
	var words [][]byte
	for _, t := range terms {
		if t.Prefix {
			each = append(each, q.matches("w", []tidemark.Term{t}))
		} else {
			words = append(words, wordOut(t.Word))
		}
	}
	if len(words) > 0 {
		each = append(each, "")
	}
	sep := ""
	part := func(from, whose string) {
		for _, cond := range each {
			// A line may have several words that begin alike, and counts once.
			list, word, once := from, cond, "distinct "
			if cond == "" {
				once = ""
				list, word = from+`unnest(`+q.arg(words)+`::bytea[]) t(word) cross join `, `w.word = t.word`
			}
			q.WriteString(sep + `select p.* from ` + list + `lateral (select ` + once + `w.owner, w.log, w.seq, w.at from tidemark.word w where w.tenant = ` + tenant +
				whose + ` and ` + word + where + order + ` limit ` + limit + `) p`)
			sep = " union all "
		}
	}
	owners := []id{s.b.whose()}
	if s.b.of == nil && s.b.who.tenant != s.b.who.user {
		owners = append(owners, s.b.who.tenant)
	}
	part(`unnest(`+q.arg(owners)+`::uuid[]) o(owner) cross join `, ` and w.owner = o.owner`)
	if s.b.of != nil {
		return
	}
	scopes := append(slices.Clone(s.b.also), s.b.who.tenant)
	part(`unnest(`+q.arg(scopes)+`::uuid[]) o(scope) cross join `, ` and w.scope = o.scope and w.owner <> `+q.arg(s.b.who.user)+` and w.owner <> `+tenant)
}

// next reads a page.
func (s *searching) next(ctx context.Context) error {
	s.size = min(max(2*s.size, firstHits), pageRows)
	n := min(s.size, s.left)
	q := &statement{}
	limit := q.arg(n)
	where := ""
	if a := s.after; a != nil {
		at, owner, log, seq := q.arg(a.At), q.arg(a.owner), q.arg(a.log), q.arg(a.Seq)
		where = fmt.Sprintf(` and w.at <= %[1]s and (w.at < %[1]s or w.owner > %[2]s or w.owner = %[2]s and (w.log > %[3]s or w.log = %[3]s and w.seq > %[4]s))`, at, owner, log, seq)
	}
	for _, any := range s.query.All[1:] {
		where += ` and ` + q.also(any)
	}
	if len(s.query.None) > 0 {
		where += ` and not ` + q.also(s.query.None)
	}
	q.WriteString(`select h.at, h.owner, h.log, h.seq, l.kind, l.id from (select distinct m.at, m.owner, m.log, m.seq from (`)
	s.sources(q, s.query.All[0], limit, where, newestWords)
	q.WriteString(`) m order by m.at desc, m.owner, m.log, m.seq limit ` + limit + `) h
  left join tidemark.log l on l.tenant = ` + q.arg(s.b.who.tenant) + ` and l.owner = h.owner and l.log = h.log order by h.at desc, h.owner, h.log, h.seq`)
	rows := 0
	err := s.b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		s.hits, rows = s.hits[:0], 0
		each(batch.Queue(q.String(), q.args...), func(r pgx.Rows) error {
			var h hitRow
			var at time.Time
			var kind, name *string
			err := r.Scan(&at, &h.owner, &h.log, &h.Seq, &kind, &name)
			h.At, h.Owner = at.UTC(), s.b.nameOf(h.owner)
			s.after = &hitRow{Hit: h.Hit, owner: h.owner, log: h.log}
			rows++
			if kind != nil {
				h.Log = tidemark.Key{Kind: *kind, ID: *name}
				s.hits = append(s.hits, h)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	s.left -= len(s.hits)
	s.done = rows < n || s.left <= 0
	return nil
}

// also writes the condition that the line of w has one of these terms, too. The
// order, that of the index of words, keeps PostgreSQL from looking among all
// words of the log.
func (q *statement) also(terms []tidemark.Term) string {
	return `(select true from tidemark.word x where x.tenant = w.tenant and x.owner = w.owner and x.log = w.log and x.seq = w.seq and x.at between w.at and w.at and ` +
		q.matches("x", terms) + ` order by x.at desc limit 1) is not null`
}
