package main

import (
	"fmt"
	"io"

	"github.com/tidemark-sessions/tidemark/render"
)

// print says what came of each thing, what it is called there and here.
func (i *importer) print(w io.Writer) error {
	if i.terminal {
		i.sayFrom(w)
	}
	t := i.table("STATE", "SESSION", "ENTRIES", "TOOL", "FOREIGN ID", "TITLE")
	if !i.terminal {
		t = i.table("STATE", "SESSION", "ENTRIES", "FROM", "TOOL", "FOREIGN ID", "TITLE")
	}
	for _, r := range i.rows {
		id := ""
		if r.Session != "" {
			id = i.shortID(r.Session)
		} else if r.Kind != "" {
			id = r.Kind
		}
		if i.terminal {
			t.row(r.State, id, fmt.Sprint(r.Entries), r.Tool, render.Truncate(r.ForeignID, foreignColumns), r.Title)
		} else {
			t.row(r.State, id, fmt.Sprint(r.Entries), r.From, r.Tool, r.ForeignID, r.Title)
		}
	}
	return t.print(w)
}

// foreignColumns is how much of a foreign id a terminal shows: enough to tell
// it from others, and to type.
const foreignColumns = 14

// sayFrom names the places that things came from, each once.
func (i *importer) sayFrom(w io.Writer) {
	last := ""
	for _, r := range i.rows {
		if r.From != last {
			fmt.Fprintf(w, "from %s\n", render.CleanLine(fromHome(r.From)))
		}
		last = r.From
	}
}
