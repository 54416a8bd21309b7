package file

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark/fleet"
)

// YAML returns a fleet file that Parse reads as f. Zero values are left out,
// and there are no defaults: each agent is complete.
func (f *File) YAML() []byte {
	var w fileWriter
	w.mapping(0, reflect.ValueOf(*f))
	return []byte(strings.TrimPrefix(w.String(), "\n"))
}

// fileWriter writes values below a key: a scalar after its colon, anything
// else on the lines that follow.
type fileWriter struct{ strings.Builder }

func (w *fileWriter) line(indent int, text string) {
	w.WriteString("\n" + strings.Repeat("  ", indent) + text)
}

// mapping writes the fields of a struct that are not zero.
func (w *fileWriter) mapping(indent int, v reflect.Value) {
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.IsExported() && hasContent(v.Field(i)) {
			w.line(indent, keyName(field)+":")
			w.value(indent+1, v.Field(i))
		}
	}
	if indent == 0 {
		w.WriteByte('\n')
	}
}

// hasContent reports whether a value has to be written. A pointer to a zero value
// has to, because it differs from nil.
func hasContent(v reflect.Value) bool {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[Permission]() || v.Type() == reflect.TypeFor[Mount]() {
		return !v.IsZero()
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() && hasContent(v.Field(i)) {
			return true
		}
	}
	return false
}

func (w *fileWriter) value(indent int, v reflect.Value) {
	switch value := v.Interface().(type) {
	case time.Duration:
		w.WriteString(" " + fleet.SpanText(value))
		return
	case Permission:
		w.text(indent, value.String())
		return
	case Mount:
		text := value.Source + ":" + value.Target
		if value.ReadOnly {
			text += ":ro"
		}
		w.text(indent, text)
		return
	case Sandbox:
		if value.Off {
			w.WriteString(" off")
			return
		}
	case System:
		if value.File == "" {
			w.text(indent, value.Text)
			return
		}
		w.line(indent, "file:")
		w.text(indent, value.File)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.value(indent, v.Elem())
	case reflect.Struct:
		w.mapping(indent, v)
	case reflect.Slice:
		for i := range v.Len() {
			w.item(indent, v.Index(i))
		}
	case reflect.Map:
		all := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			w.line(indent, key+":")
			w.text(indent+1, all[key])
		}
	case reflect.String:
		w.text(indent, v.String())
	default:
		fmt.Fprintf(w, " %v", v.Interface())
	}
}

// item writes a value of a list. The first key of a mapping follows the dash.
func (w *fileWriter) item(indent int, v reflect.Value) {
	var inner fileWriter
	inner.value(indent+1, v)
	text := strings.TrimPrefix(inner.String(), "\n"+strings.Repeat("  ", indent+1))
	w.line(indent, "- "+strings.TrimPrefix(text, " "))
}

// text writes a text: bare when it cannot be misread, as a block when that
// keeps its lines, and otherwise in quotes.
func (w *fileWriter) text(indent int, s string) {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	switch {
	case isPlainWord(s):
		w.WriteString(" " + s)
	case len(lines) > 1 && isBlock(s):
		w.WriteString(" |")
		if !strings.HasSuffix(s, "\n") {
			w.WriteByte('-')
		}
		for _, line := range lines {
			if line == "" {
				w.WriteByte('\n')
				continue
			}
			w.line(indent, line)
		}
	default:
		w.WriteString(" " + quotedText(s))
	}
}

// isPlainWord reports whether a text needs no quotes in any YAML.
func isPlainWord(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || !('0' <= r && r <= '9') && !strings.ContainsRune("_-./", r)) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return false
	}
	return true
}

// isBlock reports whether a block preserves a text: it does not begin with
// white space, ends with at most one newline, and has nothing that needs an
// escape.
func isBlock(s string) bool {
	if s == "" || strings.ContainsRune(" \t\n", rune(s[0])) || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(line) == "" && line != "" {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == unicode.ReplacementChar
	})
}

// quotedText writes a text in double quotes, on one line.
func quotedText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text can always be encoded
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if unicode.IsControl(r) || r == '\ufeff' {
			out.WriteString(`\u` + fmt.Sprintf("%04s", strconv.FormatInt(int64(r), 16)))
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
