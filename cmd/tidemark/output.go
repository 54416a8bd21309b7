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

// wantsJSON reports whether the command prints data for programs.
func (a *app) wantsJSON() bool { return a.json != "" || a.jq != "" || a.template != "" }

// print prints the result of a command: v as data for programs, or what human
// writes for people.
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

// format returns the format of data for programs, from the flags.
func (a *app) format() data.Format {
	return data.Format{Fields: a.json, JQ: a.jq, Template: a.template, Terminal: a.terminal}
}

// jsonLine prints a value as one line of JSON.
func (a *app) jsonLine(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say prints a message for people on stderr, unless --quiet is given.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, render.Clean(fmt.Sprintf(format, args...)))
	}
}

// when formats a time for people: relative on a terminal, exact in a pipe.
func (a *app) when(t time.Time) string {
	if a.terminal {
		return render.Ago(t, time.Now())
	}
	return t.Format(time.RFC3339)
}

// table returns an empty table for this output.
func (a *app) table(head ...string) *render.Table {
	return &render.Table{Head: head, Terminal: a.terminal, Color: a.color, Columns: a.columns}
}

// abbreviateHome writes a path in the home folder with ~, which is shorter.
func abbreviateHome(path string) string {
	home, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && err == nil {
		return filepath.Join("~", rest)
	}
	return path
}
