package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

func openDir(t *testing.T, dir string) *durable.Dir {
	t.Helper()
	d, err := durable.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestAReplacedFileIsOldOrNewWhateverHappens(t *testing.T) {
	base := crashfs.New()
	base.Mkdir("tmp")
	base.Mkdir("dir")
	base.SyncDir(".")
	if err := durable.Replace(base, "tmp/1", "dir/a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		disk := base.Copy()
		disk.StopAt(n)
		err := durable.Replace(disk, "tmp/2", "dir/a", []byte("new"))
		for i, loss := range crashfs.Losses {
			got, rerr := durable.ReadFile(disk.Cut(loss, uint64(i)), "dir/a")
			if rerr != nil || string(got) != "new" && (err == nil || string(got) != "old") {
				t.Errorf("call %d, %v: %q, %v; Replace = %v", n, loss, got, rerr, err)
			}
		}
		if err == nil {
			return
		}
	}
}

func TestAFailedReplaceLeavesNoTemporaryFile(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC, nil} {
		for n := 1; n < 10; n++ {
			disk := crashfs.New()
			disk.Mkdir("tmp")
			disk.Inject(crashfs.Fault{At: n, Err: fault})
			err := durable.Replace(durable.Retrying(disk), "tmp/1", "a", []byte("text"))
			disk.Inject(crashfs.Fault{})
			if names, _ := disk.Names("tmp"); len(names) > 0 {
				t.Errorf("call %d with %v left %v; Replace = %v", n, fault, names, err)
			}
			if got, rerr := durable.ReadFile(disk, "a"); err == nil && (rerr != nil || string(got) != "text") {
				t.Errorf("call %d with %v: %q, %v", n, fault, got, rerr)
			}
		}
	}
}

func TestInterruptedCallsAreTriedAgain(t *testing.T) {
	for n := 1; n < 12; n++ {
		disk := crashfs.New()
		disk.Inject(crashfs.Fault{At: n, Err: syscall.EINTR})
		p := durable.Retrying(disk)
		if err := errors.Join(durable.MkdirAll(p, "a/b"), durable.Replace(p, "t", "a/b/c", []byte("x"))); err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
}

func TestALockKeepsTwoHandlesApartAndEndsWithItsFile(t *testing.T) {
	d := openDir(t, t.TempDir())
	var f [2]durable.File
	for i := range f {
		var err error
		if f[i], err = d.OpenFile("lock", os.O_RDWR|os.O_CREATE); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := f[0].TryLock(); !ok || err != nil {
		t.Fatalf("TryLock = %t, %v", ok, err)
	}
	if ok, err := f[1].TryLock(); ok || err != nil {
		t.Errorf("TryLock of a locked file = %t, %v", ok, err)
	}
	f[0].Close()
	if ok, err := f[1].TryLock(); !ok || err != nil {
		t.Errorf("TryLock after Close = %t, %v", ok, err)
	}
	f[1].Close()
}

func TestNothingLeadsOutOfADir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(dir, "in")
	if err := durable.MakeDir(in); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(in, "out")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	d := openDir(t, in)
	for _, name := range []string{"../secret", "out/secret"} {
		if _, err := durable.ReadFile(d, name); err == nil {
			t.Errorf("%s can be read", name)
		}
		if err := d.Remove(name); err == nil {
			t.Errorf("%s can be removed", name)
		}
	}
}

func TestADirectoryThatWasMadeAnewIsFound(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	if err := errors.Join(d.Mkdir("k"), durable.Create(d, "k/a", []byte("1"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "k")), os.Mkdir(filepath.Join(dir, "k"), 0o700),
		os.WriteFile(filepath.Join(dir, "k", "a"), []byte("2"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := durable.ReadFile(d, "k/a"); err != nil || string(got) != "2" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if _, err := d.Stat("k/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of what is not there = %v", err)
	}
}
