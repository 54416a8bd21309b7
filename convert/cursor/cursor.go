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
	rest                      convert.Object
}

// large are the fields of a chat that hold its conversation, or copies of code.
var large = []string{"fullConversationHeadersOnly", "conversation", "conversationMap", "codeBlockData", "originalFileStates", "text", "richText", "context", "composerId", "name", "createdAt", "lastUpdatedAt", "modelConfig",
	"workspaceIdentifier", "subagentComposerIds", "subComposerIds"}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		d := &database{convert.SourceDatabase{Source: p, Name: find(p)}}
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
		byID, owned := map[string]*composer{}, map[string]bool{}
		for _, c := range all {
			byID[c.id] = c
		}
		for _, c := range all {
			for _, h := range c.helpers {
				owned[h] = owned[h] || h != c.id && byID[h] != nil && !slices.Contains(byID[h].helpers, c.id)
			}
		}
		for _, c := range all {
			if !owned[c.id] && !yield(d.session(ctx, c, byID, owned), nil) {
				return
			}
		}
	}
}

// session makes a session, with the helpers that it started, and theirs, as
// workers.
func (d *database) session(ctx context.Context, c *composer, byID map[string]*composer, owned map[string]bool) *convert.Session {
	s := &convert.Session{
		Session: tidemark.Session{ForeignID: c.id, Agent: name, Title: c.title, Model: c.model, Project: c.project, Mode: tidemark.ModeRemote, CreatedAt: c.created, Extra: convert.Keep(name, c.rest)},
		Entries: d.entries(ctx, c.id), UpdatedAt: c.updated,
	}
	seen := map[string]bool{c.id: true}
	todo := slices.Clone(c.helpers)
	for len(todo) > 0 {
		h := byID[todo[0]]
		todo = todo[1:]
		if h == nil || !owned[h.id] || seen[h.id] {
			continue
		}
		seen[h.id] = true
		s.Workers = append(s.Workers, convert.Worker{Name: h.id, Entries: d.entries(ctx, h.id)})
		todo = append(todo, h.helpers...)
	}
	return s
}

// database is the database of Cursor.
type database struct{ convert.SourceDatabase }

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
	for row, err := range d.Query(ctx, "SELECT key, CASE WHEN octet_length(value) <= ? THEN value END FROM "+table+" WHERE key >= ? AND key < ? ORDER BY key", convert.MaxLine, composerKey, next(composerKey)) {
		if err != nil {
			return nil, nil, err
		}
		id := strings.TrimPrefix(convert.CellText(row[0]), composerKey)
		var o convert.Object
		why := tidemark.CheckID(id)
		if why == nil && (json.Unmarshal([]byte(convert.CellText(row[1])), &o) != nil || o == nil) {
			why = tidemark.Invalidf("is not JSON, or longer than %d bytes", convert.MaxLine)
		}
		if why != nil {
			skips = append(skips, &convert.Skip{What: "chat " + id, Why: why})
			continue
		}
		if len(o.List("fullConversationHeadersOnly"))+len(o.List("conversation")) == 0 {
			continue
		}
		all = append(all, about(id, o))
	}
	return all, skips, nil
}

func about(id string, o convert.Object) *composer {
	model, _ := o.Object("modelConfig")
	where, _ := o.Object("workspaceIdentifier")
	uri, _ := where.Object("uri")
	c := &composer{id: id, title: o.Text("name"), model: model.Text("modelName"), project: uri.Text("fsPath"), created: moment(o["createdAt"]), updated: moment(o["lastUpdatedAt"]), rest: filled(o.Without(large...))}
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
