package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/render/data"
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
	return a.format().Print(a.out, v)
}

// format is how the flags want data for programs.
func (a *app) format() data.Format {
	return data.Format{Fields: a.json, JQ: a.jq, Template: a.template, Terminal: a.terminal}
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
