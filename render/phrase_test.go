package render

import (
	"strings"
	"testing"
)

func TestTheFirstLineOfALongTextIsCutAsAnyOther(t *testing.T) {
	long := strings.Repeat("tide ", 40)
	for _, text := range []string{long, long[:99], long[:100], long[:101], long[:102] + "\n", "  " + long, long[:98] + "\nnext", long[:99] + "é" + long, long[:100] + "\u0301" + long,
		long[:101] + "\u0301" + long, long[:50] + "\x1b[1m" + long, long[:99] + "\t" + long, long[:100] + "海", strings.Repeat("海", 60), ""} {
		for _, columns := range []int{1, 2, 99, 100, 101, 500} {
			line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
			if got, want := FirstLine(text, columns), Truncate(CleanLine(line), columns); got != want {
				t.Errorf("FirstLine(%q, %d) = %q, want %q", text, columns, got, want)
			}
		}
	}
}
