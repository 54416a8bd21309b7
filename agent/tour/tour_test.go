//go:build !windows

package tour

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWhatTheTourShowsIsWhatAShellWouldRun(t *testing.T) {
	for _, s := range Steps() {
		for _, c := range s.Commands {
			out, err := exec.Command("sh", "-c", "for word in "+c.Line+"; do printf '%s\\n' \"$word\"; done").Output()
			if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); err != nil || !slices.Equal(got, Words(c.Line)) {
				t.Errorf("%s\na shell has %q, the tour %q, %v", c.Line, got, Words(c.Line), err)
			}
			if !strings.HasPrefix(c.Line, "tidemark ") {
				t.Errorf("%s is not run by this program", c.Line)
			}
		}
	}
}

func TestLongLinesAreFoldedBetweenWords(t *testing.T) {
	for _, c := range []struct{ line, indent, want string }{
		{"", "  ", ""},
		{"short", "  ", "  short"},
		{"one two three four", "", "one two\nthree four"},
		{"  a table   has gaps", "", "  a table\n  has gaps"},
		{"a verylongwordthatstays whole", " ", " a\n verylongwordthatstays\n whole"},
		{"日本語 日本語", "", "日本語\n日本語"},
	} {
		if got := folded(c.line, 10, c.indent); got != c.want {
			t.Errorf("folded(%q, 10, %q) = %q, want %q", c.line, c.indent, got, c.want)
		}
	}
}
