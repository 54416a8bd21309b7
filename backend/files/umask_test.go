//go:build unix

package files_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

func TestNothingIsOpenToOthersWhateverTheUmask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "store")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	keep(t, b, run(sessA, 4, 4))
	tear(t, dir, "logs/session/a.ndjson", `{"seq":5,`)
	keep(t, b, run(sessA, 5, 5))
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
