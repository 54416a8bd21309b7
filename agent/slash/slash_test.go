package slash

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestLongLinesAreBrokenBelowTheirColumn(t *testing.T) {
	for line, want := range map[string][]string{
		"short":                              {"short"},
		"one two three four five six":        {"one two three four", "five six"},
		"in     12 tokens of many others":    {"in     12 tokens of", "       many others"},
		"  ls   reads  a folder of the tree": {"  ls   reads  a", "       folder of", "       the tree"},
		"a-word-that-is-wider-than-the-line": {"a-word-that-is-wider-than-the-line"},
	} {
		var out bytes.Buffer
		c := &Conversation{Out: &out, Terminal: true, Columns: func() int { return 20 }}
		c.print("%s", line)
		if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
		out.Reset()
		c.Terminal = false
		if c.print("%s", line); out.String() != line+"\n" {
			t.Errorf("in a pipe %q becomes %q", line, out.String())
		}
	}
}
