package process

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// programPages is how much of the program is in memory, in kilobytes.
func programPages(t *testing.T) (kilobytes int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("this system does not tell")
	}
	defer f.Close()
	ours := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if first, _, _ := strings.Cut(line, " "); !strings.HasSuffix(first, ":") {
			ours = strings.HasSuffix(line, " "+program) && !strings.Contains(line, " rw")
		}
		var n int
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); err == nil && ours {
			kilobytes += n
		}
	}
	return kilobytes
}

func TestPagesOfTheProgramAreGivenUp(t *testing.T) {
	before := programPages(t)
	ReleasePages()
	after := programPages(t)
	if after > before {
		t.Errorf("%d kB of the program are in memory, and %d were", after, before)
	}
	t.Logf("%d kB of %d are left", after, before)
}
