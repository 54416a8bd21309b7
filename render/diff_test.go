package render

import (
	"strings"
	"testing"
)

func TestADiffHasNumbersAndSigns(t *testing.T) {
	var old []string
	for _, s := range strings.Fields("one two three four five six seven eight nine ten eleven twelve thirteen fourteen") {
		old = append(old, s+"\n")
	}
	now := append(append(append([]string{}, old[:1]...), "2\n", "2b\n"), old[2:]...)
	now[len(now)-1] = "the\tlast \x1b[31mone\n"
	lines := Diff(Change{Old: strings.Join(old, ""), New: strings.Join(now, "")})
	want := []string{" 1   one", " 2 - two", " 2 + 2", " 3 + 2b", " 4   three", " 5   four", " 6   five", "     …",
		"12   eleven", "13   twelve", "14   thirteen", "14 - fourteen", "15 + the    last \\x1b[31mone"}
	got := DiffForTerminal(lines, 0, false)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if added, removed := Changed(lines); added != 3 || removed != 2 {
		t.Errorf("+%d -%d", added, removed)
	}
	for _, row := range DiffForTerminal(lines, 10, false) {
		if Width(row) > 10 {
			t.Errorf("%q is wider than 10 columns", row)
		}
	}
	colored := DiffForTerminal(lines[1:3], 0, true)
	if !strings.HasPrefix(colored[0], "\x1b["+red+"m") || !strings.HasPrefix(colored[1], "\x1b["+green+"m") {
		t.Errorf("colours: %q", colored)
	}
	if same := Diff(Change{Old: "a\n", New: "a\n"}); len(same) != 0 {
		t.Errorf("nothing changes, but %v", same)
	}
}
