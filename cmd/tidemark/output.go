package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
)

// wantsJSON reports whether the command is to print data for programs.
func (a *app) wantsJSON() bool { return a.json != "" || a.jq != "" || a.template != "" }

// print writes what a command found: v for programs, or as human says for
// people.
func (a *app) print(v any, human func(w io.Writer) error) error {
	if !a.wantsJSON() {
		w := bufio.NewWriter(a.out)
		if err := human(w); err != nil {
			return err
		}
		return w.Flush()
	}
	b, err := marshal(v)
	if err != nil {
		return err
	}
	return a.printJSON(a.out, b)
}

// printJSON selects fields, applies --jq or --template, and writes one value.
func (a *app) printJSON(w io.Writer, b []byte) error {
	plain := a.jq == "" && a.template == "" && (a.json == "*" || a.json == "")
	if plain {
		_, err := w.Write(append(harmless(b), '\n'))
		return err
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if a.json != "*" && a.json != "" {
		var err error
		if v, err = selectFields(v, strings.Split(a.json, ",")); err != nil {
			return err
		}
	}
	switch {
	case a.jq != "":
		return a.runJQ(w, v)
	case a.template != "":
		return a.runTemplate(w, v)
	}
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(harmless(b), '\n'))
	return err
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(buf.Bytes(), "\n"), err
}

// harmless escapes, inside JSON strings, what a terminal could act on. The
// value stays the same.
func harmless(b []byte) []byte {
	if render.Clean(string(b)) == string(b) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if s := string(b[i : i+n]); n > 1 && render.Clean(s) != s || r == 0x7f {
			if r > 0xffff {
				r -= 0x10000
				out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
		} else {
			out = append(out, s...)
		}
		i += n
	}
	return out
}

// selectFields keeps the named fields of an object or of each one in a list.
func selectFields(v any, fields []string) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			var err error
			if v[i], err = selectFields(v[i], fields); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		kept := make(map[string]any, len(fields))
		for _, f := range fields {
			kept[strings.TrimSpace(f)] = v[strings.TrimSpace(f)]
		}
		return kept, nil
	}
	return v, nil
}

func (a *app) runJQ(w io.Writer, v any) error {
	query, err := gojq.Parse(a.jq)
	if err != nil {
		return tidemark.Invalidf("--jq: %w", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return tidemark.Invalidf("--jq: %w", err)
	}
	for it := code.Run(numbers(v)); ; {
		r, ok := it.Next()
		if !ok {
			return nil
		}
		if err, ok := r.(error); ok {
			return tidemark.Invalidf("--jq: %w", err)
		}
		if s, ok := r.(string); ok {
			if _, err := fmt.Fprintln(w, a.shown(s)); err != nil {
				return err
			}
			continue
		}
		b, err := gojq.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(harmless(b), '\n')); err != nil {
			return err
		}
	}
}

// shown is text as a program asked for it: exact in a pipe, where it is data,
// and harmless on a terminal.
func (a *app) shown(s string) string {
	if a.terminal {
		return render.Clean(s)
	}
	return s
}

// numbers turns the exact numbers of a decoded value into those jq computes
// with; whole ones stay exact.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

func (a *app) runTemplate(w io.Writer, v any) error {
	t, err := template.New("").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			b, err := marshal(v)
			return string(b), err
		},
		"join": func(sep string, list []any) string {
			var parts []string
			for _, v := range list {
				parts = append(parts, fmt.Sprint(v))
			}
			return strings.Join(parts, sep)
		},
		"timeago": func(s string) (string, error) {
			t, err := time.Parse(time.RFC3339, s)
			return ago(t, time.Now()), err
		},
		"truncate": func(n int, s string) string { return render.Truncate(s, n) },
	}).Parse(a.template)
	if err != nil {
		return tidemark.Invalidf("--template: %w", err)
	}
	var buf strings.Builder
	if err := t.Execute(&buf, v); err != nil {
		return tidemark.Invalidf("--template: %w", err)
	}
	out := a.shown(buf.String())
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	_, err = io.WriteString(w, out)
	return err
}

// jsonLine prints a value as one line of JSON.
func (a *app) jsonLine(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say tells people something on stderr, unless they asked for quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, render.Clean(fmt.Sprintf(format, args...)))
	}
}

// ago is how long ago t was, in the largest fitting unit.
func ago(t, now time.Time) string { return render.Ago(t, now) }

// when is a time for people: relative on a terminal, exact in a pipe.
func (a *app) when(t time.Time) string {
	if a.terminal {
		return ago(t, time.Now())
	}
	return t.Format(time.RFC3339)
}

// table prints rows aligned on a terminal, and as plain tab-separated lines,
// with nothing cut and no heading, in a pipe.
type table struct {
	a    *app
	head []string
	rows [][]string
}

func (a *app) table(head ...string) *table { return &table{a: a, head: head} }

func (t *table) row(cells ...string) {
	row := make([]string, len(t.head))
	for i := range row {
		row[i] = render.CleanLine(cells[i])
	}
	t.rows = append(t.rows, row)
}

func (t *table) print(w io.Writer) error {
	if !t.a.terminal {
		for _, r := range t.rows {
			fmt.Fprintln(w, strings.Join(r, "\t"))
		}
		return nil
	}
	if len(t.rows) == 0 {
		return nil
	}
	widths := make([]int, len(t.head))
	for _, r := range append([][]string{t.head}, t.rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], render.Width(c))
		}
	}
	for n, r := range append([][]string{t.head}, t.rows...) {
		line := t.line(r, widths)
		if n == 0 && t.a.color {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		fmt.Fprintln(w, line)
	}
	return nil
}

// line aligns one row; the last column gets what room is left.
func (t *table) line(cells []string, widths []int) string {
	var b strings.Builder
	used := 0
	for i, c := range cells {
		if i == len(cells)-1 {
			b.WriteString(render.Truncate(c, max(t.a.columns-used, 8)))
			break
		}
		b.WriteString(c)
		b.WriteString(strings.Repeat(" ", widths[i]-render.Width(c)+2))
		used += widths[i] + 2
	}
	return strings.TrimRight(b.String(), " ")
}

// fromHome is a path as people write it, so that it leaves room for others.
func fromHome(path string) string {
	home, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && err == nil {
		return filepath.Join("~", rest)
	}
	return path
}
