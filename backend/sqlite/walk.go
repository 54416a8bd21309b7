package sqlite

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Each half walks down an index, and SQLite merges them.
const sqlWalk = `SELECT kind, id FROM record WHERE (kind, id) > (?1, ?2)
UNION SELECT kind, id FROM log WHERE (kind, id) > (?1, ?2) AND kind <> '' ORDER BY 1, 2 LIMIT ?3`

// walkRows is how many keys are read first: each opening of a plain store asks whether
// there is anything at all.
const walkRows = 2

// Walk yields every key. When a damaged page is in the way, it yields what can
// be reached from both ends, and then the *Damage.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		rows := walkRows
		for more := true; more; rows = pageRows {
			var keys []tidemark.Key
			var damage error
			err := b.snapshot(ctx, func(c *conn) (err error) {
				keys, damage = nil, nil
				err = c.do(sqlWalk, func(s *stmt) {
					s.setText(1, after.Kind)
					s.setText(2, after.ID)
					s.setInt(3, int64(rows))
				}, func(s *stmt) { keys = append(keys, tidemark.Key{Kind: s.text(0), ID: s.text(1)}) })
				more = len(keys) == rows
				if isCorrupt(err) {
					damage = &tidemark.Damage{Place: "tables record and log", What: "some keys cannot be named: " + err.Error()}
					more = false
					keys, err = reachable(c, after)
				}
				return err
			})
			if err != nil {
				yield(tidemark.Key{}, err)
				return
			}
			for _, k := range keys {
				if after = k; !yield(k, nil) {
					return
				}
			}
			if damage != nil {
				yield(tidemark.Key{}, damage)
			}
		}
	}
}

// reachable returns the keys after after that SQLite reaches from either end of
// the two tables.
func reachable(c *conn, after tidemark.Key) (keys []tidemark.Key, err error) {
	seen := make(map[tidemark.Key]bool)
	for _, from := range []string{"record ORDER BY kind, id", "record ORDER BY kind DESC, id DESC", "log ORDER BY kind, id",
		"log ORDER BY kind DESC, id DESC", "log ORDER BY number", "log ORDER BY number DESC"} {
		err := c.do("SELECT kind, id FROM "+from, nil, func(s *stmt) {
			if k := (tidemark.Key{Kind: s.text(0), ID: s.text(1)}); k.Kind != "" && compareKeys(k, after) > 0 {
				seen[k] = true
			}
		})
		if err != nil && !isCorrupt(err) {
			return nil, err
		}
	}
	for k := range seen {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys, nil
}

func compareKeys(a, b tidemark.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}
