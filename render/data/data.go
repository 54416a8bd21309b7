// Package data writes values for other programs: as JSON, as some of its
// fields, through a jq filter or through a Go template.
//
// JSON that it writes is harmless on a terminal and means the same. It never
// decides what a command shows; that is the value it is given.
//
//	err := data.Format{JQ: ".[].title"}.Print(os.Stdout, sessions)
package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/render"
)

// All are all fields of a value.
const All = "*"

// Format is how a value is written. At most one of JQ and Template is set.
type Format struct {
	Fields   string // separated by commas; All and "" select every field
	JQ       string // an expression
	Template string // of text/template
	Terminal bool   // the result of a filter or template goes to a terminal
}

// Print writes one value.
func (f Format) Print(w io.Writer, v any) error {
	b, err := records.Encode(v)
	if err != nil {
		return err
	}
	plain := f.JQ == "" && f.Template == "" && (f.Fields == All || f.Fields == "")
	if plain {
		_, err := w.Write(append(harmless(b), '\n'))
		return err
	}
	v = nil
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if f.Fields != All && f.Fields != "" {
		var err error
		if v, err = selectFields(v, strings.Split(f.Fields, ",")); err != nil {
			return err
		}
	}
	switch {
	case f.JQ != "":
		return f.runJQ(w, v)
	case f.Template != "":
		return f.runTemplate(w, v)
	}
	if b, err = records.Encode(v); err != nil {
		return err
	}
	_, err = w.Write(append(harmless(b), '\n'))
	return err
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

func (f Format) runJQ(w io.Writer, v any) error {
	query, err := gojq.Parse(f.JQ)
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
			if _, err := fmt.Fprintln(w, f.shown(s)); err != nil {
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

// shown is the text that a program asked for: exact in a pipe, where it is
// data, and harmless on a terminal.
func (f Format) shown(s string) string {
	if f.Terminal {
		return render.Clean(s)
	}
	return s
}

// numbers turns the exact numbers of a decoded value into those that jq
// computes with; integers stay exact.
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

func (f Format) runTemplate(w io.Writer, v any) error {
	t, err := template.New("").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			b, err := records.Encode(v)
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
			return render.Ago(t, time.Now()), err
		},
		"truncate": func(n int, s string) string { return render.Truncate(s, n) },
	}).Parse(f.Template)
	if err != nil {
		return tidemark.Invalidf("--template: %w", err)
	}
	var buf strings.Builder
	if err := t.Execute(&buf, v); err != nil {
		return tidemark.Invalidf("--template: %w", err)
	}
	out := f.shown(buf.String())
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	_, err = io.WriteString(w, out)
	return err
}
