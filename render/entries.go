package render

import (
	"bufio"
	"errors"
	"fmt"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Entries prints entries for people, live ones as they come, and counts those
// that it folded. Damage is shown in its place, the rest is printed, and the
// damage is returned at the end.
func Entries(w *bufio.Writer, entries iter.Seq2[tidemark.Entry, error], o *Options, live bool) (folded int, err error) {
	var damage error
	between := false // a blank line is due
	for e, err := range entries {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damage = err
			fmt.Fprintf(w, "%d [damaged: %s]\n\n", e.Seq, CleanLine(err.Error()))
		case err != nil:
			return folded, err
		case !o.All && e.Empty():
			continue
		default:
			fold := !o.All && e.Context()
			if fold {
				folded++
			}
			if between && !fold { // lines of context are not separated
				fmt.Fprintln(w)
			}
			if err := Entry(w, e, o); err != nil {
				return folded, err
			}
			if between = fold; !fold {
				fmt.Fprintln(w)
			}
		}
		if live {
			if err := w.Flush(); err != nil {
				return folded, err
			}
		}
	}
	if between {
		fmt.Fprintln(w)
	}
	return folded, damage
}
