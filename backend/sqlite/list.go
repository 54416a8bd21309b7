package sqlite

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// listKeys is how many records a listing looks up at once. They are found at one
// moment and read in pages later, so a record that is touched while the listing
// runs keeps its place and is not missed. A longer listing continues after the
// last of them.
const listKeys = 1 << 16

func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		l := lister{q: q, left: q.Limit}
		if q.Limit <= 0 {
			l.left = math.MaxInt
		}
		for !l.done {
			next := l
			err := b.snapshot(ctx, func(c *conn) error {
				next = l // it starts over when it is called again
				return next.next(c)
			})
			if err != nil {
				yield(tidemark.Record{}, err)
				return
			}
			l = next
			for _, f := range l.found {
				if !yield(f.record, f.err) {
					return
				}
			}
		}
	}
}

// lister carries a listing from page to page.
type lister struct {
	q     tidemark.Query
	left  int   // how many more may be yielded
	refs  []ref // found, in order, not yet read
	more  bool  // there may be more after refs
	begun bool
	done  bool
	found []foundRecord
	bytes int  // of their bodies
	apart bool // records are read one by one, since a page of the table is damaged
}

type foundRecord struct {
	record tidemark.Record
	err    error
}

// ref is a record's place in the order: its id and the time that it is ordered
// by, if any.
type ref struct {
	id string
	at int64
}

func (l *lister) next(c *conn) error {
	l.found, l.bytes = l.found[:0], 0
	if l.follow(c) {
		return l.run(c)
	}
	if len(l.refs) == 0 {
		if l.begun && !l.more {
			l.done = true
			return nil
		}
		if err := l.look(c); err != nil {
			return err
		}
	}
	if l.found == nil {
		l.found = make([]foundRecord, 0, min(len(l.refs), pageRows))
	}
	for len(l.refs) > 0 && l.room() {
		if err := l.read(c); err != nil {
			return err
		}
	}
	l.done = l.left == 0 || len(l.refs) == 0 && !l.more
	return nil
}

// atOnce is how many records a listing reads with one statement, where there are as
// many: to begin and to end a statement costs half as much as to find a record.
const atOnce = 16

// sqlSome reads up to atOnce records, in the order of their ids among the parameters.
// A parameter that is NULL stands for none.
var sqlSome = strings.Replace(selectRecord, ` FROM record r`, ` FROM (VALUES (?2), (?3), (?4), (?5), (?6), (?7), (?8), (?9), (?10),
  (?11), (?12), (?13), (?14), (?15), (?16), (?17)) some CROSS JOIN record r`, 1) + ` AND r.id = some.column1`

// read takes the next of the refs.
func (l *lister) read(c *conn) error {
	if some := l.refs[:min(len(l.refs), atOnce)]; len(some) > 1 && !c.standing {
		n, err := l.readSome(c, some)
		if err != nil && !isCorrupt(err) {
			return err
		}
		if l.refs = l.refs[n:]; err == nil {
			return nil
		}
		// The next one is on a damaged page, or the one behind it; it is read by itself.
	}
	r, err := get(c, tidemark.Key{Kind: l.q.Kind, ID: l.refs[0].id})
	l.refs = l.refs[1:]
	var damage *tidemark.Damage
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	l.take(r, err)
	return nil
}

// readSome takes the records of up to atOnce refs, until the page has no room. It
// returns how many of them it is done with.
func (l *lister) readSome(c *conn, some []ref) (n int, err error) {
	s, err := c.prepare(sqlSome)
	if err != nil {
		return 0, err
	}
	defer s.reset()
	s.setText(1, l.q.Kind)
	for i := range atOnce {
		if i < len(some) {
			s.setText(i+2, some[i].id)
		} else {
			s.setNull(i + 2)
		}
	}
	for l.room() {
		more, err := s.step()
		if err != nil {
			return n, err
		}
		if !more {
			return len(some), nil
		}
		id := s.view(17)
		i := slices.IndexFunc(some[n:], func(r ref) bool { return r.id == string(id) })
		if i < 0 {
			return n, &sqliteError{lib.SQLITE_CORRUPT, "a record is out of order"}
		}
		n += i // those before it have been deleted since they were found
		r, err := scanRecord(s, tidemark.Key{Kind: l.q.Kind, ID: some[n].id})
		l.take(r, err)
		n++
	}
	return n, nil
}

// room reports whether a page takes another record.
func (l *lister) room() bool { return len(l.found) < pageRows && l.bytes < pageBytes && l.left > 0 }

// take adds a record to the page, unless it was deleted or changed since it was
// found.
func (l *lister) take(r tidemark.Record, err error) {
	now := l.q
	now.After = nil // it was after the cursor when it was found
	if err == nil && (r.Version == 0 || !now.Includes(r)) {
		return
	}
	l.found = append(l.found, foundRecord{r, err})
	l.bytes += len(r.Body)
	l.left--
}

// follow reports whether all records of a part of the table are listed, in the
// order in which they lie there.
func (l *lister) follow(c *conn) bool {
	return !l.apart && !c.standing && l.q.Order == tidemark.ByID && l.q.State == "" && l.q.Group == "" && l.q.DueBy.IsZero()
}

// run reads a page of such records with one statement, several times as fast as
// by looking for each. Where the table is damaged, the rest is read one by one.
func (l *lister) run(c *conn) error {
	from := l.q.Prefix
	if l.q.After != nil {
		from = max(from, l.q.After.ID+"\x00") // the first behind it
	}
	f := filter{text: map[int]string{1: l.q.Kind, 2: from}, ints: map[int]int64{4: pageRows}}
	if below := successor(l.q.Prefix); below != "" {
		f.text[3] = below
	} else {
		f.endless = 3
	}
	n, stopped := 0, false
	var last tidemark.Key
	err := f.run(c, sqlRecords, func(s *stmt) bool {
		key := tidemark.Key{Kind: l.q.Kind, ID: s.text(17)}
		r, err := scanRecord(s, key)
		l.take(r, err)
		n, last, stopped = n+1, key, !l.room()
		return !stopped
	})
	if n > 0 {
		l.q.After = &tidemark.Record{Key: last}
	}
	switch {
	case isCorrupt(err):
		l.apart = true
	case err != nil:
		return err
	default:
		l.done = l.left == 0 || n < pageRows && !stopped
	}
	return nil
}

// look fetches the next refs.
func (l *lister) look(c *conn) error {
	if c.standing && !l.begun {
		l.begun, l.more = true, false
		return l.salvage(c, nil)
	}
	want := min(l.left, listKeys)
	refs, err := refsOf(c, l.q, want)
	if isCorrupt(err) && !l.begun {
		l.begun, l.more = true, false
		return l.salvage(c, err)
	}
	if err != nil {
		return err
	}
	l.begun, l.refs, l.more = true, refs, len(refs) == want && want < l.left
	if l.more {
		last := refs[len(refs)-1]
		after := tidemark.Record{Key: tidemark.Key{Kind: l.q.Kind, ID: last.id}}
		if l.q.Order == tidemark.ByDue {
			after.Due = timeOf(last.at)
		} else {
			after.UpdatedAt = timeOf(last.at)
		}
		l.q.After = &after
	}
	return nil
}

// salvage lists what can still be reached when an index or a page of the table
// is damaged: by id from both ends, sorted here. A nil cause means that there is
// only no index.
func (l *lister) salvage(c *conn, cause error) error {
	seen := make(map[string]bool)
	for _, order := range []string{"", " DESC"} {
		err := c.do(`SELECT id FROM record WHERE kind = ?1 ORDER BY id`+order, func(s *stmt) { s.setText(1, l.q.Kind) },
			func(s *stmt) { seen[s.text(0)] = true })
		if err != nil && !isCorrupt(err) {
			return err
		}
	}
	var records []tidemark.Record
	for id := range seen {
		r, err := get(c, tidemark.Key{Kind: l.q.Kind, ID: id})
		switch {
		case err != nil && !errors.Is(err, tidemark.ErrCorrupt):
			return err
		case err != nil:
			l.found = append(l.found, foundRecord{r, err})
		case l.q.Includes(r):
			records = append(records, r)
		}
	}
	slices.SortFunc(records, l.q.Compare)
	for _, r := range records[:min(len(records), l.left)] {
		l.refs = append(l.refs, ref{id: r.ID})
	}
	if cause != nil {
		place := tidemark.Damage{Key: tidemark.Key{Kind: l.q.Kind}, Place: "table record", What: "some records cannot be listed: " + cause.Error()}
		l.found = append(l.found, foundRecord{err: &place})
	}
	return nil
}

// refsOf returns the first n refs, at most, of the records that match q.
func refsOf(c *conn, q tidemark.Query, n int) ([]ref, error) {
	switch {
	case q.Order == tidemark.ByID && q.Group != "" && q.Prefix == "":
		return grouped(c, q, n)
	case q.Order == tidemark.ByID, q.Order == tidemark.ByDue:
		return plain(c, q, n)
	case q.Prefix != "" || !q.DueBy.IsZero():
		return sorted(c, q, n)
	}
	return newestFirst(c, q, n)
}

// filter is the part of a statement that selects the records.
type filter struct {
	sql  strings.Builder
	text map[int]string
	ints map[int]int64
	// endless is a parameter that is behind every text, 0 for none.
	endless int
}

// The numbers of the parameters, the same in every listing.
const (
	pKind = iota + 1
	pState
	pGroup
	pFrom
	pBelow
	pDueBy
	pAfterID
	pAfterAt
	pLimit
)

// filterOf writes q's conditions. Where the statement does not name an index, a
// plus keeps SQLite from choosing another one than the primary key.
func filterOf(q tidemark.Query, pinned bool) *filter {
	plus := "+"
	if pinned {
		plus = ""
	}
	f := &filter{text: map[int]string{pKind: q.Kind}, ints: map[int]int64{}}
	f.sql.WriteString(` WHERE kind = ?1`)
	if q.State != "" {
		f.sql.WriteString(` AND ` + plus + `state = ?2`)
		f.text[pState] = q.State
	}
	if q.Group != "" {
		f.sql.WriteString(` AND ` + plus + `"group" = ?3`)
		f.text[pGroup] = q.Group
	}
	if q.Prefix != "" {
		f.sql.WriteString(` AND id >= ?4`)
		f.text[pFrom] = q.Prefix
		if below := successor(q.Prefix); below != "" {
			f.sql.WriteString(` AND id < ?5`)
			f.text[pBelow] = below
		}
	}
	if !q.DueBy.IsZero() {
		f.sql.WriteString(` AND ` + plus + `due <= ?6`)
		f.ints[pDueBy] = q.DueBy.UnixMicro()
	}
	return f
}

// successor returns the first string after all that begin with prefix.
func successor(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}

func (f *filter) run(c *conn, sql string, row func(*stmt) bool) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	defer s.reset()
	for i, v := range f.text {
		s.setText(i, v)
	}
	for i, v := range f.ints {
		s.setInt(i, v)
	}
	if f.endless > 0 {
		s.setBytes(f.endless, nil, false) // to SQLite a blob is more than any text
	}
	for {
		more, err := s.step()
		if err != nil || !more || !row(s) {
			return err
		}
	}
}

// plain lists in the order of the primary key or of the index on due.
func plain(c *conn, q tidemark.Query, n int) (refs []ref, err error) {
	f := filterOf(q, q.Order == tidemark.ByDue)
	sql := `SELECT id, 0 FROM record`
	order := ` ORDER BY id`
	if q.Order == tidemark.ByDue {
		sql = `SELECT id, due FROM record INDEXED BY record_due`
		order = ` ORDER BY due, id`
		f.sql.WriteString(` AND due IS NOT NULL`)
	}
	if q.After != nil {
		f.text[pAfterID] = q.After.ID
		if q.Order == tidemark.ByDue {
			f.sql.WriteString(` AND (due, id) > (?8, ?7)`)
			f.ints[pAfterAt] = q.After.Due.UnixMicro()
		} else {
			f.sql.WriteString(` AND id > ?7`)
		}
	}
	f.ints[pLimit] = int64(n)
	err = f.run(c, sql+f.sql.String()+order+` LIMIT ?9`, func(s *stmt) bool {
		refs = append(refs, ref{s.text(0), s.int(1)})
		return true
	})
	return refs, err
}

// grouped lists a group by id. The index on groups has another order, so the
// group is read and sorted here: a name is in a group of a handful, among
// records of its kind that are as many as the store has sessions.
func grouped(c *conn, q tidemark.Query, n int) (refs []ref, err error) {
	f := filterOf(q, true)
	f.sql.WriteString(` AND "group" <> ''`)
	if q.After != nil {
		f.sql.WriteString(` AND id > ?7`)
		f.text[pAfterID] = q.After.ID
	}
	err = f.run(c, `SELECT id FROM record INDEXED BY record_group`+f.sql.String(), func(s *stmt) bool {
		refs = append(refs, ref{id: s.text(0)})
		return true
	})
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.id, b.id) })
	return refs[:min(n, len(refs))], err
}

// sqlTouched is when a record was touched, exactly: the column touched unless
// that is the last microsecond of its second, which stands for any instant in
// it (see nextTouched).
const sqlTouched = `CASE WHEN r.touched % 1000000 IN (999999, -1) THEN (
  SELECT max(x.updated, ifnull((SELECT l.updated FROM log l WHERE l.kind = x.kind AND l.id = x.id), x.updated))
  FROM record x WHERE x.kind = r.kind AND x.id = r.id) ELSE r.touched END`

// sorted lists newest first the records that are best found by id or by due, and
// sorts them here.
func sorted(c *conn, q tidemark.Query, n int) (refs []ref, err error) {
	f := filterOf(q, q.Prefix == "")
	sql := `SELECT r.id, ` + sqlTouched + ` FROM record r`
	if q.Prefix == "" {
		sql += ` INDEXED BY record_due`
		f.sql.WriteString(` AND due IS NOT NULL`)
	}
	err = f.run(c, sql+f.sql.String(), func(s *stmt) bool {
		if r := (ref{s.text(0), s.int(1)}); behind(q, r) {
			refs = append(refs, r)
		}
		return true
	})
	slices.SortFunc(refs, compareNewest)
	return refs[:min(n, len(refs))], err
}

func compareNewest(a, b ref) int {
	switch {
	case a.at > b.at:
		return -1
	case a.at < b.at:
		return 1
	}
	return strings.Compare(a.id, b.id)
}

// behind reports whether r comes after the cursor of q.
func behind(q tidemark.Query, r ref) bool {
	return q.After == nil || compareNewest(ref{q.After.ID, q.After.Touched().UnixMicro()}, r) < 0
}

// newestFirst walks down an index on touched, which orders records by that time
// or, where the column stands for its whole second, by the end of the second.
// Records still to come are never newer than the index says, so a record is
// passed on as soon as the walk reaches its own time, and only records that were
// touched twice within one second need sorting.
func newestFirst(c *conn, q tidemark.Query, n int) (refs []ref, err error) {
	sql := `SELECT r.id, r.touched, ` + sqlTouched + ` FROM record r INDEXED BY record_touched`
	f := filterOf(q, true)
	switch {
	case q.Group != "":
		sql = strings.Replace(sql, "record_touched", "record_group", 1)
		f.sql.WriteString(` AND "group" <> ''`)
	case q.State != "":
		sql = strings.Replace(sql, "record_touched", "record_state", 1)
		f.sql.WriteString(` AND state <> ''`)
	}
	var waiting []ref // newest first
	pass := func(until ref) bool {
		for len(waiting) > 0 && len(refs) < n && compareNewest(waiting[0], until) <= 0 {
			refs = append(refs, waiting[0])
			waiting = waiting[1:]
		}
		return len(refs) < n
	}
	take := func(s *stmt) bool {
		r := ref{s.text(0), s.int(2)}
		if !pass(ref{r.id, s.int(1)}) {
			return false
		}
		if behind(q, r) {
			i, _ := slices.BinarySearchFunc(waiting, r, compareNewest)
			waiting = slices.Insert(waiting, i, r)
		}
		return true
	}
	f.ints[pAfterAt] = math.MaxInt64
	if q.After != nil {
		at := q.After.Touched().UnixMicro()
		f.ints[pAfterAt] = endOfSecond(at)
		if err := f.run(c, sql+f.sql.String()+` AND r.touched = ?8 ORDER BY r.id`, take); err != nil {
			return nil, err
		}
		f.ints[pAfterAt] = min(at, endOfSecond(at)-1)
	}
	if len(refs) < n {
		err = f.run(c, sql+f.sql.String()+` AND r.touched <= ?8 ORDER BY r.touched DESC, r.id`, take)
	}
	pass(ref{at: math.MinInt64})
	return refs, err
}
