package durable_test

import (
	"runtime"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func TestTwoFilesExchangeTheirNames(t *testing.T) {
	dir, err := durable.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	fsys := durable.Retrying(dir)
	for _, d := range []string{"tmp", "kept"} {
		if err := fsys.Mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Write(fsys, "tmp/new", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if ok, err := durable.Exchange(fsys, "tmp/new", "kept/a"); ok || err != nil {
		t.Errorf("Exchange with nothing = %v, %v", ok, err)
	}
	if err := durable.Write(fsys, "kept/a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	ok, err := durable.Exchange(fsys, "tmp/new", "kept/a")
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		if runtime.GOOS == "linux" {
			t.Skip("the file system of the temporary folder does not exchange names")
		}
		return
	}
	for name, want := range map[string]string{"kept/a": "new", "tmp/new": "old"} {
		if got, err := durable.ReadFile(fsys, name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
}
