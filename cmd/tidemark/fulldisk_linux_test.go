package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// On a disk without a byte to spare, entries are refused and everything that
// deletes works: rm, purge, gc. What was purged is in no file any more, and
// what it leaves is room for entries again.
func TestFullDiskStillLetsPeopleDelete(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	t.Parallel()
	for _, kind := range []string{"sqlite", "files"} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, plain %v", kind, plain), func(t *testing.T) {
				t.Parallel()
				deleteOnAFullDisk(t, kind, plain)
			})
		}
	}
}

func deleteOnAFullDisk(t *testing.T, kind string, plain bool) {
	home, disk := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	run := func(want int, said string, args ...string) string {
		t.Helper()
		cmd := tidemarkIn(home, append([]string{"--store", kind + ":" + filepath.Join(disk, "kept", "store")}, args...)...)
		cmd.Stdin = strings.NewReader(said)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s = %d, want %d (%v)\n%s", args, got, want, err, out)
		}
		return string(out)
	}
	more := func(what string) string {
		return fmt.Sprintf(`{"role":"user","content":"%s %s"}`+"\n", what, noise(4<<10))
	}
	create := []string{"append", "new"}
	if plain {
		create = append([]string{"--no-encrypt"}, create...)
	}
	var ids []string
	id := regexp.MustCompile(`(?m)^([0-9a-f-]{36}) 1$`)
	for _, what := range []string{"mackerel", "herring", "sardine", "anchovy"} {
		out := run(0, strings.Repeat(more(what), 40), create...)
		ids = append(ids, id.FindStringSubmatch(out)[1])
	}
	fillDisk(t, filepath.Join(disk, "ballast"))

	if out := run(14, strings.Repeat(more("haddock"), 200), "append", ids[3]); !strings.Contains(out, "room") {
		t.Errorf("append says: %s", out)
	}
	run(0, "", "rm", ids[0])
	run(0, "", "purge", ids[0], "--yes")
	run(0, "", "purge", ids[1], "--yes")
	run(0, "", "rm", ids[2])
	run(0, "", "gc")
	if out := run(0, "", "ls", "-A", "--json"); strings.Contains(out, ids[0]) || strings.Contains(out, ids[1]) {
		t.Errorf("still listed: %s", out)
	}
	run(0, "", "restore", ids[2])
	run(0, more("plaice"), "append", ids[3])
	run(0, "", "verify")
	for _, word := range []string{"mackerel", "herring"} {
		if name := holds(t, filepath.Join(disk, "kept"), word); name != "" {
			t.Errorf("%s still holds %q", name, word)
		}
	}
	if plain && holds(t, filepath.Join(disk, "kept"), "anchovy") == "" {
		t.Error("no file of a plain store holds what is kept: the look for words sees nothing")
	}
}

// fillDisk writes until not a byte more fits.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := 64 << 10; chunk > 0; chunk /= 8 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, chunk))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// holds returns the first file below dir with word in it.
func holds(t *testing.T, dir, word string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || found != "" {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(word)) {
			found = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
