// Package cursor imports the chats of the Cursor editor from its database of keys
// and values: one row for each chat, and one for each bubble in it. The database
// may have many gigabytes of other things, so only rows are read whose keys say
// that they are chats. It reads neither settings nor secrets, and writes nothing.
// It was built from descriptions, without a database to compare with.
//
//	for s, err := range cursor.Tool().Import(ctx, place) { … }
package cursor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	// name is the name of the tool, and its key in Extra.
	name = "cursor"
	// file is the database in a user folder.
	file = "globalStorage/state.vscdb"
	// table and the prefixes of its keys.
	table         = "cursorDiskKV"
	composerKey   = "composerData:"
	bubbleKey     = "bubbleId:"
	schemaBytes   = 64 << 10
	statusRunning = "generating"
)

// homes are the user folders on Linux, macOS and Windows.
var homes = []string{".config/Cursor/User", "Library/Application Support/Cursor/User", "AppData/Roaming/Cursor/User"}

// Tool returns the converter of Cursor.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "Cursor", Homes: homes, Detect: detect, Import: importAll, Files: convert.FilesLike(listed()...)}
}

// places are where a Source may have the database.
func places() (all []string) {
	for _, dir := range append(slices.Clone(homes), ".") {
		all = append(all, path.Join(dir, file), path.Join(dir, path.Base(file)))
	}
	return all
}

// listed are the files of the database in all these places.
func listed() (patterns []string) {
	for _, place := range places() {
		patterns = append(patterns, convert.DatabaseFiles(place)...)
	}
	return patterns
}

// find returns the database of a Source: a home folder, a user folder, the folder
// of the database, or the database; "": there is none.
func find(p convert.Source) string {
	if convert.IsFile(p.FS, p.Path) {
		return p.Path
	}
	for _, place := range places() {
		if at := path.Join(p.Path, place); convert.IsFile(p.FS, at) {
			return at
		}
	}
	return ""
}

func detect(_ context.Context, p convert.Source) bool {
	b, err := convert.Head(p.FS, cmp.Or(find(p), "missing"), schemaBytes)
	return err == nil && bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) && bytes.Contains(b, []byte(table))
}

// composer is what is known of a chat before its bubbles are read.
type composer struct {
	id, title, model, project string
	created, updated          time.Time
	helpers                   []string
	bubbles                   []string // none: they are in the chat
	rest                      convert.Object

	stamp string // of its rows; of those of a chat that is the same, with its helpers
	same  bool   // it is as it was when it was imported
}

// large are the fields of a chat that hold its conversation, or copies of code.
var large = []string{"fullConversationHeadersOnly", "conversation", "conversationMap", "codeBlockData", "originalFileStates", "text", "richText", "context", "composerId", "name", "createdAt", "lastUpdatedAt", "modelConfig",
	"workspaceIdentifier", "subagentComposerIds", "subComposerIds"}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		d := &database{SourceDatabase: convert.SourceDatabase{Source: p, Name: find(p)}}
		if d.Name == "" {
			yield(nil, convert.Skipf(p.Path, "there is no database of Cursor"))
			return
		}
		err := d.Open(ctx)
		var all []*composer
		var skips []error
		if err == nil {
			defer d.Close()
			all, skips, err = d.composers(ctx)
		}
		if err = cmp.Or(ctx.Err(), err); err != nil {
			if ctx.Err() == nil {
				err = &convert.Skip{What: d.Name, Why: err}
			}
			yield(nil, err)
			return
		}
		for _, skip := range skips {
			if !yield(nil, skip) {
				return
			}
		}
		all = convert.InOrder(all, func(c *composer) convert.Identity { return convert.Identity{ID: c.id, CreatedAt: c.created} })
		byID, owned := owners(all)
		for _, c := range all {
			switch {
			case owned[c.id]:
			case c.same:
				if !yield(convert.SameSession(c.id, c.stamp), nil) {
					return
				}
			default:
				s, err := d.session(ctx, c, byID, owned)
				if !yield(s, err) || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// owners finds the chats that others started as helpers.
func owners(all []*composer) (byID map[string]*composer, owned map[string]bool) {
	byID, owned = map[string]*composer{}, map[string]bool{}
	for _, c := range all {
		byID[c.id] = c
	}
	for _, c := range all {
		for _, h := range c.helpers {
			owned[h] = owned[h] || h != c.id && byID[h] != nil && !slices.Contains(byID[h].helpers, c.id)
		}
	}
	return byID, owned
}

// session makes a session, with the helpers that it started, and theirs, as
// workers.
func (d *database) session(ctx context.Context, c *composer, byID map[string]*composer, owned map[string]bool) (*convert.Session, error) {
	s := &convert.Session{
		Session:   tidemark.Session{ForeignID: c.id, Agent: name, Title: c.title, Model: c.model, Project: c.project, Mode: tidemark.ModeRemote, CreatedAt: c.created, Extra: convert.Keep(name, c.rest)},
		UpdatedAt: c.updated,
	}
	all, seen := []*composer{c}, map[string]bool{c.id: true}
	for i := 0; i < len(all); i++ {
		for _, id := range all[i].helpers {
			if h := byID[id]; h != nil && owned[id] && !seen[id] {
				seen[id], all = true, append(all, h)
			}
		}
	}
	kept := keptChat{Created: c.created}
	stamps := []any{c.stamp}
	for _, h := range all[1:] {
		kept.Helpers, stamps = append(kept.Helpers, h.id), append(stamps, h.stamp)
	}
	if state, err := json.Marshal(kept); err == nil { // else it is read each time
		s.Units = convert.RowUnits(c.id, convert.Stamp(stamps), state)
	}
	whole := *s
	if len(all) == 1 && d.goOn(ctx, s, c) {
		s.Whole = func() (*convert.Session, error) { return d.whole(ctx, &whole, all) }
		return s, nil
	}
	return d.whole(ctx, s, all)
}

// whole gives a session the entries of a chat, and its workers those of the helpers
// behind it.
func (d *database) whole(ctx context.Context, s *convert.Session, all []*composer) (*convert.Session, error) {
	values, rows, err := d.hold(ctx, all)
	if err != nil {
		return nil, &convert.Skip{What: "chat " + s.ForeignID, Why: err}
	}
	d.read(ctx, s, values, rows, point{}, "")
	for _, h := range all[1:] {
		s.Workers = append(s.Workers, convert.Worker{Name: h.id, Entries: d.entries(ctx, h.id, values, point{}, nil)})
	}
	return s, nil
}

// database is the database of Cursor.
type database struct {
	convert.SourceDatabase
	all bool // chats are read whether they changed or not
}

// composers reads what is known of all chats. A chat in which nothing was said is
// left out: the editor makes one for every window.
func (d *database) composers(ctx context.Context) (all []*composer, skips []error, err error) {
	tables, err := d.Columns(ctx, table)
	if err == nil && !slices.Contains(tables[table], "key") {
		err = tidemark.Invalidf("it has no table %s: not a database of Cursor's chats", table)
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := d.stamps(ctx)
	if err != nil {
		return nil, nil, err
	}
	same := d.same(found)
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if c := same[id]; c != nil {
			all = append(all, c)
			continue
		}
		if _, helper := same[id]; helper {
			continue
		}
		c, err := d.composer(ctx, id)
		if err != nil {
			skips = append(skips, err)
		} else if c != nil {
			c.stamp = found[id]
			all = append(all, c)
		}
	}
	// A chat that another one names as its helper now is read again.
	for _, c := range all {
		if slices.ContainsFunc(c.helpers, func(h string) bool { _, ok := same[h]; return ok }) {
			d.all = true
			return d.composers(ctx)
		}
	}
	return all, skips, nil
}

// keptChat is what a chat leaves in the ledger.
type keptChat struct {
	Created time.Time `json:"created,omitzero"`
	Helpers []string  `json:"helpers,omitempty"` // and theirs
}

// stamps are what tells whether chats were changed. Rows are replaced and get new
// numbers, which the index of keys has, so no value is read. Of the newest bubble there
// is also the length, should a row be written again in its place.
func (d *database) stamps(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	const of = "FROM " + table + " b WHERE b.key >= ?3 || substr(s.key, ?4) || ':' AND b.key < ?3 || substr(s.key, ?4) || ';'"
	const bubbles = "(SELECT count(*) || ' ' || ifnull(sum(b.rowid), 0) " + of + "), (SELECT octet_length(n.value) FROM " + table + " n WHERE n.rowid = (SELECT max(b.rowid) " + of + "))"
	statement := fmt.Sprintf("SELECT s.key, s.rowid, octet_length(s.value), %s FROM %s s WHERE s.key > ?1 AND s.key < ?2 ORDER BY s.key LIMIT %d", bubbles, table, chatsAtOnce)
	for after, n := composerKey, chatsAtOnce; n == chatsAtOnce; {
		n = 0
		for row, err := range d.Query(ctx, statement, after, next(composerKey), bubbleKey, len(composerKey)+1) {
			if errors.Is(err, tidemark.ErrConflict) && n > 0 {
				n = chatsAtOnce // it goes on after the last one
				break
			}
			if err != nil {
				return nil, err
			}
			n, after = n+1, convert.CellText(row[0])
			found[strings.TrimPrefix(after, composerKey)] = convert.Stamp(row)
		}
	}
	return found, nil
}

// chatsAtOnce is how many chats are looked at in one statement.
const chatsAtOnce = 100

// same returns the chats that are as they were when they were imported, and nil for
// their helpers.
func (d *database) same(found map[string]string) map[string]*composer {
	same := map[string]*composer{}
	if d.Source.Left == nil || d.all {
		return same
	}
	for id, stamp := range found {
		_, state, ok := d.Source.Left(convert.SessionUnit + id)
		var kept keptChat
		if !ok || json.Unmarshal(state, &kept) != nil {
			continue
		}
		stamps := []any{stamp}
		for _, h := range kept.Helpers {
			stamps = append(stamps, found[h])
		}
		c := &composer{id: id, created: kept.Created, stamp: convert.Stamp(stamps), same: true}
		if _, ok := d.SameRows(id, c.stamp); ok {
			same[id] = c
			for _, h := range kept.Helpers {
				same[h] = nil
			}
		}
	}
	return same
}

// composer reads what is known of a chat; nil if nothing was said in it.
func (d *database) composer(ctx context.Context, id string) (*composer, error) {
	err := tidemark.CheckID(id)
	var o convert.Object
	if err == nil {
		o, err = d.value(ctx, composerKey+id)
	}
	if err != nil {
		return nil, &convert.Skip{What: "chat " + id, Why: err}
	}
	if len(o.List("fullConversationHeadersOnly"))+len(o.List("conversation")) == 0 {
		return nil, nil
	}
	return about(id, o), nil
}

func about(id string, o convert.Object) *composer {
	model, _ := o.Object("modelConfig")
	where, _ := o.Object("workspaceIdentifier")
	uri, _ := where.Object("uri")
	c := &composer{id: id, title: o.Text("name"), model: model.Text("modelName"), project: uri.Text("fsPath"), created: moment(o["createdAt"]), updated: moment(o["lastUpdatedAt"]), bubbles: headersOf(o), rest: filled(o.Without(large...))}
	for _, key := range []string{"subagentComposerIds", "subComposerIds"} {
		for _, raw := range o.List(key) {
			if h, ok := convert.Text(raw); ok && !slices.Contains(c.helpers, h) {
				c.helpers = append(c.helpers, h)
			}
		}
	}
	return c
}

// next returns the end of a range of keys with a prefix.
func next(prefix string) string { return prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1) }

// moment reads a time: milliseconds, or RFC 3339.
func moment(raw json.RawMessage) time.Time {
	if text, ok := convert.Text(raw); ok {
		return convert.ParseTime(text)
	}
	return convert.Milli(convert.Object{"t": raw}.Number("t"))
}

// filled leaves out fields with nothing in them: a bubble has a hundred.
func filled(o convert.Object) convert.Object {
	for key, value := range o {
		switch strings.TrimSpace(string(value)) {
		case "null", "false", "0", `""`, "[]", "{}":
			delete(o, key)
		}
	}
	return o
}
