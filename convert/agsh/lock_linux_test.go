package agsh_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func TestALockedFileOfMekaMeansNotFinished(t *testing.T) {
	dir := t.TempDir()
	script(t, "meka.sql", filepath.Join(dir, "meka.db"))
	if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.OpenLock(filepath.Join(dir, "locks", "33333333-3333-4333-8333-333333333333.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	open := func() bool {
		s := converttest.Read(t, agsh.Tool(), place(t, dir, ".")).Sessions[0]
		return strings.Contains(strings.Join(s.Lost, "\n"), "not finished")
	}
	if open() {
		t.Error("a lock file that nobody locks counts")
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadFile("/proc/locks"); err != nil || !strings.Contains(string(list), "FLOCK") {
		t.Skip("the kernel does not list its locks here")
	}
	if !open() {
		t.Error("a lock file that is locked does not count")
	}
}
