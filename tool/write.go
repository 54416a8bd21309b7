package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// maxEdit bounds a file that is edited or searched as a whole.
const maxEdit = 10 << 20

type writeArguments struct {
	Path    string `json:"path" say:"the file: a path in the workspace (relative to its root), or session:FOLDER/NAME for the durable storage of this session, where FOLDER is memory, artifacts, buffers or meta" need:"yes"`
	Content string `json:"content" say:"the whole new content" need:"yes"`
}

func (b *Box) writeTool() Tool {
	return Tool{
		Name: "write",
		Description: "Writes a whole file, in one step; folders that are missing are made. A path in the workspace changes the user's own files. " +
			"A path like session:memory/notes.md changes the durable storage of this session, which stays with the session wherever it goes. " +
			"Nothing is copied between the two by itself.",
		Schema:   schemaOf(writeArguments{}),
		Effect:   Writes,
		Scope:    func(input json.RawMessage) string { return b.scopeOf(input, place.writeScope) },
		EachTime: b.eachWrite,
		Change: changeOf(b, func(a writeArguments) string { return a.Path }, func(ctx context.Context, p place, a writeArguments) (Change, error) {
			return b.writeChange(ctx, p, a.Content)
		}),
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a writeArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			p, err := b.locateFile(a.Path)
			if err != nil {
				return failed(err.Error()), nil
			}
			if c, err := b.writeChange(ctx, p, a.Content); err == nil && !stillChange(ctx, c) || err != nil && !stillChange(ctx, Change{}) || !stillScoped(ctx, p.writeScope()) {
				return failed(p.shown + ": " + errChanged.Error()), nil
			}
			b.makeWay(p)
			if err := b.replace(ctx, p, []byte(a.Content)); err != nil {
				return b.explain(ctx, p, err)
			}
			return Result{Text: fmt.Sprintf("Wrote %d bytes to %s.", len(a.Content), p.where())}, nil
		},
	}
}

// Tidy removes what an interrupted call to a tool that changes files left beside a
// file of the workspace. Outside of it nothing is touched: nobody was asked this
// time.
func (b *Box) Tidy(name string, input json.RawMessage) {
	var a struct{ Path string }
	if t := b.Find(name); t == nil || t.Change == nil || json.Unmarshal(input, &a) != nil {
		return
	}
	if p, err := b.locateFile(a.Path); err == nil && p.kind == inside {
		_ = b.workspace.Sweep(p.name) // it harms nobody where it cannot be removed
	}
}

// locateFile is locate for a path that has to be a file.
func (b *Box) locateFile(path string) (place, error) {
	p, err := b.locate(path)
	if err == nil && (path == "" || strings.HasSuffix(path, "/") || p.name == "." || p.kind == stored && isStoredFolder(p.name)) {
		err = fmt.Errorf("path %q: this names a folder; name a file", path)
	}
	return p, err
}

type editArguments struct {
	Path       string `json:"path" say:"the file: a path in the workspace (relative to its root), or session:FOLDER/NAME for the durable storage of this session" need:"yes"`
	OldString  string `json:"old_string" say:"the text to replace, exactly as it is in the file (without line numbers), and enough of it to occur only once" need:"yes"`
	NewString  string `json:"new_string" say:"the text to put in its place" need:"yes"`
	ReplaceAll bool   `json:"replace_all" say:"replace every occurrence; default false"`
}

func (b *Box) editTool() Tool {
	return Tool{
		Name: "edit",
		Description: "Replaces text in a file of the workspace, or with session:FOLDER/NAME in the session's durable storage. old_string has to match exactly once, " +
			"or replace_all is set. Line ends stay as they are in the file.",
		Schema:   schemaOf(editArguments{}),
		Effect:   Writes,
		Scope:    func(input json.RawMessage) string { return b.scopeOf(input, place.writeScope) },
		EachTime: b.eachWrite,
		Change:   changeOf(b, func(a editArguments) string { return a.Path }, b.editChange),
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a editArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			p, err := b.locateFile(a.Path)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.edit(ctx, p, a)
		},
	}
}

func (b *Box) edit(ctx context.Context, p place, a editArguments) (Result, error) {
	old, err := b.whole(ctx, p, maxEdit)
	if errors.Is(err, fs.ErrNotExist) {
		return failed(fmt.Sprintf("there is no %s; make it with write", p.where())), nil
	}
	if err != nil {
		return b.explain(ctx, p, err)
	}
	if looksBinary(old) {
		return failed(p.shown + " is binary; edit takes text"), nil
	}
	edited, lines, err := replaceText(old, a)
	if !stillChange(ctx, Change{Path: p.where(), Old: old, New: edited}) || !stillScoped(ctx, p.writeScope()) {
		err = errChanged
	}
	if err != nil {
		return failed(p.shown + ": " + err.Error()), nil
	}
	b.makeWay(p)
	if err := b.replace(ctx, p, edited); err != nil {
		return b.explain(ctx, p, err)
	}
	return Result{Text: fmt.Sprintf("Replaced %s in %s.", countOf(lines), p.where())}, nil
}

// countOf says how many matches there were and in which lines.
func countOf(lines []int) string {
	const most = 10
	var shown []string
	for _, n := range lines[:min(len(lines), most)] {
		shown = append(shown, strconv.Itoa(n))
	}
	at := strings.Join(shown, ", ")
	if len(lines) > most {
		at += ", …"
	}
	if len(lines) == 1 {
		return "1 match (line " + at + ")"
	}
	return fmt.Sprintf("%d matches (lines %s)", len(lines), at)
}

// replaceText edits the text of a file, and returns the lines of the matches
// before the edit. In a file whose lines all end in CR LF, newlines in the
// arguments mean CR LF, because models see and write only LF.
func replaceText(text []byte, a editArguments) (edited []byte, lines []int, err error) {
	from, to := a.OldString, a.NewString
	if n := bytes.Count(text, []byte("\n")); n > 0 && n == bytes.Count(text, []byte("\r\n")) {
		from, to = withCRLF(from), withCRLF(to)
	}
	switch {
	case from == "":
		return nil, nil, errors.New("old_string is empty; to write a whole file, use write")
	case from == to:
		return nil, nil, errors.New("old_string and new_string are the same: there is nothing to change")
	}
	lines = matchLines(text, []byte(from))
	switch {
	case len(lines) == 0:
		return nil, nil, errors.New("0 matches of old_string; read the file again: white space and line ends have to be the same, and line numbers are not part of it")
	case len(lines) > 1 && !a.ReplaceAll:
		return nil, nil, fmt.Errorf("%s of old_string; take more of the text around it into old_string, or set replace_all", countOf(lines))
	}
	return bytes.ReplaceAll(text, []byte(from), []byte(to)), lines, nil
}

func withCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// matchLines returns the line of each match.
func matchLines(text, old []byte) (lines []int) {
	line := 1
	for {
		i := bytes.Index(text, old)
		if i < 0 {
			return lines
		}
		line += bytes.Count(text[:i], []byte("\n"))
		lines = append(lines, line)
		line += bytes.Count(old, []byte("\n"))
		text = text[i+len(old):]
	}
}
