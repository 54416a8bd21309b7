package sqlite

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// Mend makes files private again and rebuilds damaged indexes of the tables. It
// changes no row of a record or a line: where these are damaged, it says so.
func (b *Backend) Mend(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, step := range []func(*writer, func(string)) error{mendModes, mendViews, mendIndexes, mendTouched, reportRest} {
			var said []string
			err := b.runJob(ctx, &job{do: func(w *writer) error {
				said = nil
				return step(w, func(s string) { said = append(said, s) })
			}})
			if isCorrupt(err) || isDamage(err) {
				said, err = []string{fmt.Sprintf("cannot be repaired in place: %v", err), wayOut}, nil
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, s := range said {
				if !yield(s, nil) {
					return
				}
			}
		}
		b.runJob(ctx, &job{alone: true, do: func(w *writer) error { w.clearWAL(); return nil }})
		if err := b.trustAgain(ctx); err != nil {
			yield("", err)
		}
	}
}

// trustAgain reopens the connections as those of a store with an intact schema,
// if Mend has repaired it.
func (b *Backend) trustAgain(ctx context.Context) error {
	if b.state == nil {
		return nil
	}
	return b.runJob(ctx, &job{alone: true, do: func(w *writer) error {
		c, err := openConn(b.path, forWriting, writing...)
		if err == nil && !wholeSchema(c, w.version) {
			c.close()
			return &unreadable{b.path, "its schema is still damaged: " + b.state.describe()}
		}
		if err == nil {
			err = c.keepWAL()
		}
		if err != nil {
			return err
		}
		w.c.close()
		w.c, w.standings = c, nil
		b.state = nil
		b.readers.setCondition(nil)
		return nil
	}})
}

// wayOut is what a person can do about damaged rows.
const wayOut = "tidemark verify names what is damaged, and tidemark export or migrate into a new store keeps everything that can be read"

// diagnosis is what SQLite reports about the parts of a file.
type diagnosis struct {
	indexes map[string]bool // of tables, from which they can be rebuilt
	rest    []string
}

// unsafe reports whether the schema's own tree or the list of free pages is
// damaged: data written to such a file may be lost.
func (i *diagnosis) unsafe() bool {
	return slices.ContainsFunc(i.rest, func(text string) bool {
		for _, begin := range []string{"Tree 1 ", "Freelist: ", "Fragmentation of "} {
			if strings.HasPrefix(text, begin) {
				return true
			}
		}
		return false
	})
}

var (
	inTree  = expression.WhenNeeded(`^Tree (\d+) `)
	inIndex = expression.WhenNeeded(`(?:missing from|entries in|entry in) index (\S+)$`)
)

// diagnose finds out by SQLite's own check what is damaged.
func diagnose(c *conn) (*diagnosis, error) {
	type object struct{ kind, name, table string }
	trees, names := make(map[int64]object), make(map[string]object)
	err := c.do(`SELECT rootpage, type, name, tbl_name FROM sqlite_schema`, nil, func(s *stmt) {
		o := object{s.text(1), s.text(2), s.text(3)}
		trees[s.int(0)], names[o.name] = o, o
	})
	if err != nil {
		return nil, err
	}
	found := &diagnosis{indexes: make(map[string]bool)}
	sort := func(o object, text string) {
		if o.kind == "index" {
			found.indexes[o.name] = true
		} else {
			found.rest = append(found.rest, text)
		}
	}
	err = c.do(fmt.Sprintf("PRAGMA integrity_check(%d)", checkFaults), nil, func(s *stmt) {
		for text := range strings.SplitSeq(s.text(0), "\n") {
			text = strings.TrimSpace(text)
			if text == "ok" || text == "" || strings.HasPrefix(text, "*** in database") {
				continue
			}
			if m := inTree().FindStringSubmatch(text); m != nil {
				root, _ := strconv.ParseInt(m[1], 10, 64)
				sort(trees[root], text)
			} else if m := inIndex().FindStringSubmatch(text); m != nil {
				sort(names[m[1]], text)
			} else {
				found.rest = append(found.rest, text)
			}
		}
	})
	return found, err
}

func mendModes(w *writer, report func(string)) error {
	wide := w.b.checkModes()
	narrow(w.b.path)
	for _, fault := range wide {
		d := fault.(*tidemark.Damage)
		report(d.Place + ": " + d.What + ": narrowed")
	}
	return nil
}

// mendViews rewrites the views and triggers when the text of one is damaged: all
// of them, because SQLite has to read a view before its triggers. A row is
// recognized by its name or by its text; anything else that somebody added
// stays.
func mendViews(w *writer, report func(string)) error {
	if w.b.state == nil {
		return nil
	}
	want, err := schemaOf(w.version, here)
	if err != nil {
		return err
	}
	for _, o := range want.objects {
		if !o.isView() {
			continue
		}
		err := w.c.do(`DELETE FROM sqlite_schema WHERE name = ?1 OR sql = ?2`, func(s *stmt) {
			s.setText(1, o.name)
			s.setText(2, o.sql)
		}, nil)
		if err == nil {
			err = w.c.do(`INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES (?1, ?2, ?3, 0, ?4)`, func(s *stmt) {
				s.setText(1, o.kind)
				s.setText(2, o.name)
				s.setText(3, o.table)
				s.setText(4, o.sql)
			}, nil)
		}
		if err != nil {
			return err
		}
	}
	cookie, err := w.c.number("PRAGMA schema_version")
	if err != nil {
		return err
	}
	for _, fault := range w.b.state.faults {
		report(fault.(*tidemark.Damage).Place + " was damaged: written again")
	}
	return w.c.run(fmt.Sprintf("PRAGMA schema_version=%d", cookie+1)) // makes others reload it
}

func mendIndexes(w *writer, report func(string)) error {
	found, err := diagnose(w.c)
	if err != nil {
		return err
	}
	for name := range found.indexes {
		if err := w.c.run(`REINDEX "` + name + `"`); err != nil {
			return err
		}
		report("index " + name + " was damaged: rebuilt from its table")
	}
	return nil
}

// mendTouched corrects the place of records in the listings.
func mendTouched(w *writer, report func(string)) error {
	var wrong []tidemark.Key
	err := checkTouched(w.c, func(err error) {
		wrong = append(wrong, err.(*tidemark.Damage).Key)
	})
	if err != nil {
		return err
	}
	for _, k := range wrong {
		err := w.c.do(`UPDATE record SET touched = max(updated, ifnull((SELECT l.updated FROM log l WHERE l.kind = ?1 AND l.id = ?2), updated))
  WHERE kind = ?1 AND id = ?2`, func(s *stmt) {
			s.setText(1, k.Kind)
			s.setText(2, k.ID)
		}, nil)
		if err != nil {
			return err
		}
		delete(w.standings, k)
		report(k.String() + ": its column touched was put right")
	}
	return nil
}

// reportRest reports what stays damaged.
func reportRest(w *writer, report func(string)) error {
	found, err := diagnose(w.c)
	if err != nil {
		return err
	}
	for _, text := range found.rest {
		report("left as it is: " + text)
	}
	rows := 0
	for _, look := range []func(*conn, func(error)) error{checkHeads, checkArrived, checkStray} {
		err := look(w.c, func(err error) {
			rows++
			report("left as it is: " + err.Error())
		})
		if err != nil {
			return err
		}
	}
	if len(found.rest)+rows > 0 {
		report(wayOut)
	}
	return nil
}
