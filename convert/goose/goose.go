// Package goose imports the sessions of Goose: the SQLite database of its later
// versions, and the file of JSON lines a session of its earlier ones. It reads
// sessions and messages, and neither settings nor secrets, and writes nothing. It
// was built from the source of Goose, without a store to compare with.
//
//	for s, err := range goose.Tool().Import(ctx, place) { … }
package goose

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	// name is the name of the tool, and its key in Extra.
	name     = "goose"
	database = "sessions.db"
	// schemaBytes is enough to hold the statements that made the tables.
	schemaBytes = 64 << 10
)

// homes are where Goose keeps sessions on Linux and macOS, and on Windows.
var homes = []string{".local/share/goose/sessions", "AppData/Roaming/Block/goose/data/sessions"}

// Tool returns the converter of Goose.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "Goose", Homes: homes, Moved: []convert.Moved{{Variable: "GOOSE_PATH_ROOT", Below: "data/sessions"}, {Variable: "XDG_DATA_HOME", Below: "goose/sessions"}},
		Detect: detect, Import: importAll, Files: convert.FilesLike(listed()...)}
}

// folders are where a Source may have its sessions.
func folders() []string { return append(slices.Clone(homes), "data/sessions", "sessions", ".") }

// listed are the files in every place that stores looks at.
func listed() (patterns []string) {
	for _, dir := range folders() {
		patterns = append(append(patterns, convert.DatabaseFiles(path.Join(dir, database))...), path.Join(dir, "*.jsonl"))
	}
	return patterns
}

// stores are what a Source has: at most one database, and files.
func stores(p convert.Source) (databases, files []string) {
	if convert.IsFile(p.FS, p.Path) {
		if path.Ext(p.Path) == ".jsonl" {
			return nil, []string{p.Path}
		}
		return []string{p.Path}, nil
	}
	for _, dir := range folders() {
		dir = path.Join(p.Path, dir)
		if file := path.Join(dir, database); convert.IsFile(p.FS, file) {
			databases = []string{file}
		}
		files = slices.DeleteFunc(convert.Glob(p.FS, dir, "*.jsonl"), func(file string) bool { return header(p.FS, file) == nil })
		if len(databases)+len(files) > 0 {
			return databases, files
		}
	}
	return nil, nil
}

func detect(_ context.Context, p convert.Source) bool {
	databases, files := stores(p)
	for _, db := range databases {
		b, _ := convert.Head(p.FS, db, schemaBytes)
		if bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) && bytes.Contains(b, []byte("content_json")) && bytes.Contains(b, []byte("working_dir")) {
			return true
		}
	}
	return convert.Sniff(files, func(file string) bool { return header(p.FS, file) != nil })
}

// header reads the first line of a file, nil when it is not that of a session.
func header(fsys fs.FS, file string) (h convert.Object) {
	b, err := convert.Head(fsys, file, schemaBytes)
	first, _, _ := bytes.Cut(b, []byte("\n"))
	if err != nil || json.Unmarshal(first, &h) != nil || h["type"] != nil || h["description"] == nil || h["message_count"] == nil && h["working_dir"] == nil {
		return nil
	}
	return h
}

// importAll yields the sessions of the database, and of the files those that it
// has not taken over.
func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		databases, files := stores(p)
		if len(databases)+len(files) == 0 {
			yield(nil, convert.Skipf(p.Path, "there is no store of Goose"))
			return
		}
		seen := map[string]bool{}
		for _, file := range databases {
			d := &source{SourceDatabase: convert.SourceDatabase{Source: p, Name: file}}
			if !d.importAll(ctx, seen, yield) {
				return
			}
		}
		for _, file := range files {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			id := strings.TrimSuffix(path.Base(file), ".jsonl")
			h, err := header(p.FS, file), tidemark.CheckID(id)
			if err == nil && h == nil {
				err = tidemark.Invalidf("does not begin like a session of Goose")
			}
			switch {
			case err != nil:
				if !yield(nil, &convert.Skip{What: file, Why: err}) {
					return
				}
			case !seen[id]:
				s := session(id, path.Dir(file), h)
				if s.Entries = lines(ctx, p.FS, file); !yield(s, nil) {
					return
				}
			}
		}
	}
}

// session makes a session from what is stored about it. Ids count the sessions
// of a day, and are unique on one machine only.
func session(id, dir string, about convert.Object) *convert.Session {
	model, _ := about.Object("model_config_json")
	return &convert.Session{
		Session: tidemark.Session{ForeignID: id, Agent: name, Title: cmp.Or(about.Text("name"), about.Text("description")), Project: about.Text("working_dir"),
			Model: model.Text("model_name"), Mode: convert.ModeOf(about.Text("provider_name")), CreatedAt: moment(about.Text("created_at")),
			Extra: convert.Keep(name, about.Without("id", "name", "working_dir", "created_at", "updated_at"))},
		UpdatedAt: moment(about.Text("updated_at")), LocalTo: dir,
	}
}

// moment reads a time as SQLite writes it, in UTC, or RFC 3339.
func moment(s string) time.Time {
	if t, err := time.Parse("2006-01-02 15:04:05", s); err == nil {
		return convert.ParseTime(t.Format(time.RFC3339Nano))
	}
	return convert.ParseTime(s)
}

// source is a database.
type source struct {
	convert.SourceDatabase
	columns []string // of sessions
}

// sessionColumns and messageColumns are needed; versions have others, too.
var (
	sessionColumns = []string{"id", "working_dir", "created_at", "updated_at"}
	messageColumns = []string{"id", "message_id", "session_id", "role", "content_json", "created_timestamp", "metadata_json"}
)

func (d *source) importAll(ctx context.Context, seen map[string]bool, yield func(*convert.Session, error) bool) bool {
	skip := func(err error) bool {
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return false
		}
		return yield(nil, &convert.Skip{What: d.Name, Why: err})
	}
	if err := d.Open(ctx); err != nil {
		return skip(err)
	}
	defer d.Close()
	tables, err := d.Columns(ctx, "sessions", "messages")
	if err != nil {
		return skip(err)
	}
	d.columns = tables["sessions"]
	for _, c := range sessionColumns {
		if !slices.Contains(d.columns, c) {
			return skip(tidemark.Invalidf("its table sessions has no column %s: not a store of Goose", c))
		}
	}
	for _, c := range messageColumns {
		if !slices.Contains(tables["messages"], c) {
			return skip(tidemark.Invalidf("its table messages has no column %s: not a store of Goose", c))
		}
	}
	found, err := d.list(ctx)
	if err != nil {
		return skip(err)
	}
	for _, one := range found {
		if _, same := d.SameRows(one.id, one.stamp); same {
			if seen[one.id] = true; !yield(convert.SameSession(one.id, one.stamp), nil) {
				return false
			}
			continue
		}
		err := tidemark.CheckID(one.id)
		var about convert.Object
		if err == nil {
			about, err = d.about(ctx, one.id)
		}
		if err != nil {
			if !yield(nil, &convert.Skip{What: d.Name + ": a session", Why: err}) {
				return false
			}
			continue
		}
		s := d.read(ctx, session(one.id, path.Dir(d.Name), about), one.stamp)
		if seen[one.id] = true; !yield(s, nil) {
			return false
		}
	}
	return true
}

// found is a session of a database.
type found struct{ id, created, stamp string }

// list finds the sessions, the oldest first. A message is never changed in what is
// read of it: a conversation that is edited gets new rows.
func (d *source) list(ctx context.Context) (all []found, err error) {
	const messages = `(SELECT count(*) || ' ' || ifnull(max(id), 0) FROM messages WHERE session_id = s.id),
		(SELECT octet_length(content_json) FROM messages WHERE session_id = s.id ORDER BY id DESC LIMIT 1)`
	for row, err := range d.EachRow(ctx, "sessions", "s.id, s.created_at, "+messages+", "+convert.ShortColumns(d.columns)) {
		if err != nil {
			return nil, err
		}
		all = append(all, found{convert.CellText(row[0]), convert.CellText(row[1]), convert.Stamp(row)})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(strings.Compare(a.created, b.created), strings.Compare(a.id, b.id))
	})
	return all, nil
}

// about reads what is stored about a session.
func (d *source) about(ctx context.Context, id string) (convert.Object, error) {
	about := convert.Object{}
	for row, err := range d.Query(ctx, "SELECT "+convert.BoundedColumns(d.columns)+" FROM sessions WHERE id = ?", id) {
		if err != nil {
			return nil, err
		}
		for i, column := range d.columns {
			if text := convert.CellText(row[i]); strings.HasSuffix(column, "_json") && json.Valid([]byte(text)) {
				about[column] = json.RawMessage(text)
			} else if row[i] != nil {
				about.Set(column, row[i])
			}
		}
	}
	return about, nil
}

// entries yields the entries of a session behind a point, nil: all of them, in the
// order of Goose: times are in seconds. Rows get new numbers when a conversation is
// changed, so messages are known by their own ids. After is the last entry before the
// point; passed is called after each row with the last one then.
func (d *source) entries(ctx context.Context, id string, from *point, after string, passed func(row int64, last string)) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r, last := &reader{ids: convert.EntryIDs{}}, after
		where, args := "", []any{convert.MaxLine, id}
		if from != nil {
			where, args = " AND (created_timestamp, messages.id) > (?, ?)", append(args, from.Created, from.Row)
		}
		for row, err := range d.Query(ctx, `SELECT id, message_id, role, CASE WHEN octet_length(content_json) <= ? THEN content_json END, created_timestamp, metadata_json
			FROM messages WHERE session_id = ?`+where+` ORDER BY created_timestamp, messages.id`, args...) {
			if err == nil && row[3] == nil {
				err = tidemark.Invalidf("is longer than %d bytes", convert.MaxLine)
			}
			var made []convert.Entry
			if err == nil {
				m := convert.Object{"content": json.RawMessage(convert.CellText(row[3])), "metadata": json.RawMessage(cmp.Or(convert.CellText(row[5]), "{}"))}
				m.Set("id", convert.CellText(row[1]))
				m.Set("role", convert.CellText(row[2]))
				m.Set("created", row[4])
				made, err = r.take(m, "row."+convert.CellText(row[0]))
			}
			if err != nil {
				what := fmt.Sprintf("session %s", id)
				if row != nil {
					what += ": message " + convert.CellText(row[0])
				}
				if err = (&convert.Skip{What: what, Why: err}); !yield(convert.Entry{}, err) {
					return
				}
			}
			for _, e := range made {
				if last = e.ID; !yield(e, nil) {
					return
				}
			}
			if row != nil {
				number, _ := row[0].(int64)
				passed(number, last)
			}
		}
	}
}

// lines yields the entries of a file.
func lines(ctx context.Context, fsys fs.FS, file string) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := &reader{ids: convert.EntryIDs{}}
		for o, err := range convert.Objects(ctx, fsys, file) {
			if err == nil && o.Line == 1 {
				continue
			}
			var made []convert.Entry
			if err == nil {
				if made, err = r.take(o.Object, o.Place()); err != nil {
					err = &convert.Skip{What: fmt.Sprintf("%s line %d", file, o.Line), Why: err}
				}
			}
			if err != nil && !yield(convert.Entry{}, err) {
				return
			}
			for _, e := range made {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
