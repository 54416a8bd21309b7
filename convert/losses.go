package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Losses counts what could not be represented in another tool's format, by
// description.
type Losses map[string]int

// Add counts one more.
func (l Losses) Add(what string) { l[what]++ }

// List lists what was lost, for people.
func (l Losses) List() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(l)) {
		if n := l[what]; n > 1 {
			what = fmt.Sprintf("%s (%d)", what, n)
		}
		all = append(all, what)
	}
	return all
}

// ResultText returns a tool's result as one text, for a format whose results are
// text only.
func (l Losses) ResultText(result tidemark.Block) string {
	var parts []string
	if result.Text != "" {
		parts = append(parts, result.Text)
	}
	for _, b := range result.Blocks {
		if b.Type == tidemark.BlockText {
			parts = append(parts, b.Text)
		} else {
			l.Add(b.Type + " blocks")
		}
	}
	return strings.Join(parts, "\n")
}
