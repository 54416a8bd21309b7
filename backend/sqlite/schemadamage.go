package sqlite

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// The texts in the table sqlite_schema say what the other pages are. SQLite
// refuses the whole file when one of them is damaged, even that of a view that
// the program never uses. So the texts are compared with those that the program
// itself writes, and damaged ones are worked around:
//
//   - Views and their triggers are for people with a shell. Without them
//     everything is read and written as usual, and Mend writes them again.
//   - Where a table or an index is in doubt, the tables are located by their
//     pages and read, not written; Recover rebuilds the file.

// schemaSums are the sums of the texts of each version, for the check in every
// Open.
var schemaSums = map[int64]uint32{1: 0xdf172527, 2: 0xc4d9facc, 3: 0xdf172527}

// layouts are the pages where the tables of version 1 and their indexes begin:
// in a store as it was made, and in one that was rewritten without its free space,
// with the tables of version 2 and without. The texts do not show when such a page number is
// damaged, and the page it then leads to may look like a table. A store that
// another program rewrote may have other numbers, and has all its pages
// examined.
var layouts = []map[string]int64{
	{"record": 2, "record_touched": 3, "record_state": 4, "record_group": 5, "record_due": 6, "log": 7, "sqlite_autoindex_log_1": 8, "line": 9, "line_key": 10},
	{"record": 2, "log": 3, "sqlite_autoindex_log_1": 4, "line": 5, "record_touched": 11, "record_state": 12, "record_group": 13, "record_due": 14, "line_key": 15},
	{"record": 2, "log": 3, "sqlite_autoindex_log_1": 4, "line": 5, "record_touched": 6, "record_state": 7, "record_group": 8, "record_due": 9, "line_key": 10},
}

// object is a row of sqlite_schema.
type object struct{ kind, name, table, sql string }

func (o object) String() string { return o.kind + " " + o.name }

func (o object) isView() bool { return o.kind == "view" || o.kind == "trigger" }

// schema is what sqlite_schema holds.
type schema struct {
	objects []object
	begins  map[string]int64 // the first page of each, 0 for a view
}

// readSchema reads as much of sqlite_schema as is readable.
func readSchema(c *conn) (s schema, err error) {
	s.begins = make(map[string]int64)
	err = c.do(`SELECT type, name, tbl_name, sql, rootpage FROM sqlite_schema`, nil, func(st *stmt) {
		o := object{st.text(0), st.text(1), st.text(2), st.text(3)}
		s.objects = append(s.objects, o)
		s.begins[o.name] = st.int(4)
	})
	return s, err
}

// sum does not depend on the order, which differs in a file that was made
// smaller.
func (s schema) sum() (sum uint32) {
	for _, o := range s.objects {
		sum += crc32.Checksum([]byte(strings.Join([]string{o.kind, o.name, o.table, o.sql}, "\x00")), castagnoli)
		if o.isView() && s.begins[o.name] != 0 {
			sum++
		}
	}
	return sum
}

// laidOut reports whether the tables begin where they do in stores that this
// program makes.
func (s schema) laidOut() bool {
	return slices.ContainsFunc(layouts, func(l map[string]int64) bool {
		for name, page := range l {
			if s.begins[name] != page {
				return false
			}
		}
		return true
	})
}

// leads reports whether the tables begin where trees of their shape begin, and
// no two tables or indexes at the same page: SQLite opens no such file.
func (s schema) leads(r *roots) bool {
	taken := make(map[int64]bool)
	for _, page := range s.begins {
		if page != 0 && taken[page] {
			return false
		}
		taken[page] = true
	}
	for name, pages := range map[string][]int64{"record": r.record, "log": r.log, "line": r.line, "sqlite_autoindex_log_1": r.logKey} {
		if len(pages) > 1 || len(pages) == 1 && pages[0] != s.begins[name] {
			return false
		}
	}
	return true
}

// condition is what is wrong with the schema of a store. A nil one is intact.
type condition struct {
	faults []error
	roots  *roots // not nil: the file's own table definitions must not be used
}

// wholeSchema reports whether the schema is exactly the one of its version.
func wholeSchema(c *conn, version int64) bool {
	s, err := readSchema(c)
	return err == nil && s.laidOut() && s.sum() == schemaSums[version]
}

// examine compares the schema of a store with the one of its version. The
// connection is a lenient one.
func examine(c *conn, version int64, set setting) (*condition, error) {
	want, err := schemaOf(version, set)
	if err != nil {
		return nil, err
	}
	have, err := readSchema(c)
	if err != nil && !isCorrupt(err) {
		return nil, err
	}
	found := new(condition)
	doubt := err != nil
	if doubt {
		found.add("the table sqlite_schema", err.Error())
	}
	for _, o := range want.objects {
		if !slices.Contains(have.objects, o) || o.isView() && have.begins[o.name] != 0 {
			found.add(o.String(), "its text in sqlite_schema is not what it was")
			doubt = doubt || !o.isView()
		}
	}
	if !doubt && have.laidOut() {
		return found.orNil(), nil
	}
	r, err := findRoots(c)
	if err != nil {
		return nil, err
	}
	if !doubt && !have.leads(r) {
		found.add("the table sqlite_schema", "a table or an index does not begin where it says")
		doubt = true
	}
	if doubt {
		found.roots = r
	}
	return found.orNil(), nil
}

// orNil is nil when nothing is wrong: somebody added a table of their own, or
// rewrote the file.
func (f *condition) orNil() *condition {
	if len(f.faults) == 0 {
		return nil
	}
	return f
}

func (f *condition) add(place, what string) {
	f.faults = append(f.faults, &tidemark.Damage{Place: place, What: what})
}

// describe says what is wrong, in one line.
func (f *condition) describe() string {
	var all []string
	for _, fault := range f.faults {
		d := fault.(*tidemark.Damage)
		all = append(all, d.Place+": "+d.What)
	}
	return strings.Join(all, "; ")
}

// schemaOf makes the schema of a version in memory and returns its texts.
func schemaOf(version int64, set setting) (schema, error) {
	c, err := openConn("schema", inMemory)
	if err != nil {
		return schema{}, err
	}
	defer c.close()
	if err := c.run(tables + views()); err != nil {
		return schema{}, err
	}
	for _, step := range set.stepsTo(version) {
		if err := step(c); err != nil {
			return schema{}, err
		}
	}
	return readSchema(c)
}

// lenient makes a connection load as much of a schema as can be parsed. It has
// to be set before anything loads the schema.
const lenient = "writable_schema=ON"

// open opens a connection that reads, or writes, in spite of the damage.
func (f *condition) open(path, how string, pragmas ...string) (*conn, error) {
	if f == nil {
		return openConn(path, how, pragmas...)
	}
	c, err := openLenient(path, how, pragmas...)
	if err == nil && f.roots != nil {
		if err = c.standIn(f.roots); err == nil && how != forWriting {
			err = c.run("PRAGMA query_only=ON")
		}
		if err != nil {
			c.close()
		}
	}
	return c, err
}

func openLenient(path, how string, pragmas ...string) (*conn, error) {
	pragmas = slices.DeleteFunc(slices.Clone(pragmas), func(p string) bool { return p == "query_only=ON" })
	c, err := openConn(path, how, lenient)
	if err != nil {
		return nil, err
	}
	readSchema(c) // the first statement fails if the schema is damaged, and loads what can be loaded
	for _, p := range pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// standIns are definitions of the tables for a connection without the schema.
var standIns = map[string]string{
	"record": `(kind TEXT, id TEXT, version INTEGER, "group" TEXT, state TEXT, due INTEGER, updated INTEGER, touched INTEGER,
  batch TEXT, sum INTEGER, body BLOB, PRIMARY KEY (kind, id)) WITHOUT ROWID`,
	"log": `(number INTEGER PRIMARY KEY, kind TEXT, id TEXT, length INTEGER, updated INTEGER, parent INTEGER, depth INTEGER, nodes INTEGER,
  turn INTEGER, chain BLOB, sum INTEGER, indexed INTEGER DEFAULT 0, behind INTEGER DEFAULT 1)`,
	"line": `(id INTEGER PRIMARY KEY, log INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL, seq INTEGER GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
  kind TEXT, "key" TEXT, at INTEGER, parent INTEGER, depth INTEGER, nodes INTEGER, turn INTEGER, chain BLOB, batch TEXT, sum INTEGER, body BLOB)`,
}

// standIn gives the connection tables that begin at the given pages, under the
// names that statements use. They exist in its memory only: nothing in the file
// changes.
func (c *conn) standIn(r *roots) error {
	c.standing = true
	for _, name := range slices.Sorted(maps.Keys(standIns)) {
		pages := map[string][]int64{"record": r.record, "log": r.log, "line": r.line}[name]
		if len(pages) == 0 {
			if err := c.run(`CREATE TEMP TABLE ` + name + standIns[name]); err != nil {
				return err
			}
			continue
		}
		var parts []string
		for i, page := range pages {
			part := fmt.Sprintf(`"%s at page %d"`, name, page)
			if err := c.imposter(page, `CREATE TABLE `+part+standIns[name]); err != nil {
				return err
			}
			parts = append(parts, `SELECT * FROM main.`+part)
			if i == 0 && name == "log" && len(pages) == 1 && len(r.logKey) == 1 {
				if err := c.imposter(r.logKey[0], `CREATE UNIQUE INDEX "log by its key" ON `+part+` (kind, id)`); err != nil {
					return err
				}
			}
		}
		if err := c.run(`CREATE TEMP VIEW ` + name + ` AS ` + strings.Join(parts, ` UNION ALL `)); err != nil {
			return err
		}
	}
	return nil
}

// imposter makes a table or an index that begins at a page of the file, in the
// memory of the connection only.
func (c *conn) imposter(page int64, sql string) error {
	set := func(on, page int32) error {
		name, err := libc.CString("main")
		if err != nil {
			return err
		}
		defer libc.Xfree(c.tls, name)
		list := libc.NewVaList(c.db, name, on, page)
		defer libc.Xfree(c.tls, list)
		if rc := lib.Xsqlite3_test_control(c.tls, lib.SQLITE_TESTCTRL_IMPOSTER, list); rc != lib.SQLITE_OK {
			return c.fault(rc)
		}
		return nil
	}
	if err := set(1, int32(page)); err != nil {
		return err
	}
	err := c.run(sql)
	if off := set(0, 0); err == nil {
		err = off
	}
	return err
}

// unreadable is a store of ours that has to be repaired before it can be used.
type unreadable struct {
	path, what string
}

func (e *unreadable) Error() string {
	return fmt.Sprintf("store %s: %s; repair it with: tidemark doctor --fix", e.path, e.what)
}
func (e *unreadable) Is(target error) bool { return target == tidemark.ErrCorrupt }
