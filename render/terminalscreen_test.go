package render

import (
	"strings"
	"testing"

	"github.com/hinshun/vt10x"
)

func TestAScreenShowsWhatWasWritten(t *testing.T) {
	text := "# A title\n\nSome **bold words** and `code`, then " + strings.Repeat("x", 40) + " a word that is as wide as the screen.\n\n" +
		"- an item that goes on for more than a line of the screen\n\n```\n" + strings.Repeat("y", 81) + "\n```\n\n" +
		"| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted \x1b[2J\x1b[H\x1b]0;title\x07 text\n"
	for _, columns := range []int{10, 40, 80} {
		out := onTerminal(columns, true, strings.SplitAfter(text, "")...)
		screen := vt10x.New(vt10x.WithSize(columns, 60))
		if _, err := screen.Write([]byte(strings.ReplaceAll(out, "\n", "\r\n"))); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(screen.String()) {
			got = append(got, strings.TrimRight(line, " \n"))
		}
		shown := strings.TrimRight(strings.Join(got, "\n"), "\n") + "\n"
		want := colours.ReplaceAllString(out, "")
		var lines []string
		for line := range strings.Lines(want) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		if want = strings.Join(lines, "\n") + "\n"; shown != want {
			t.Errorf("at %d columns the screen shows\n%s\nand was sent\n%s", columns, shown, want)
		}
		if title := screen.Title(); title != "" {
			t.Errorf("the title became %q", title)
		}
	}
}
