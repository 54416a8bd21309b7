package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var at = time.Unix(1750000000, 0).UTC()

// folder makes the same files as everybody else does, in their own way.
func folder(t *testing.T, file, script os.FileMode, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := file
		if filepath.Base(name) == "run" {
			mode = script
		}
		if err := os.WriteFile(full, []byte("of "+name), mode); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-time.Duration(len(name)) * time.Hour)
		if err := os.Chtimes(full, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, name, dir string) []byte {
	t.Helper()
	full := filepath.Join(t.TempDir(), name)
	if err := pack(full, os.DirFS(dir), at); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSameFilesMakeTheSameArchive(t *testing.T) {
	mine := folder(t, 0o600, 0o700, "b/run", "a", "c/d/e")
	yours := folder(t, 0o664, 0o775, "c/d/e", "b/run", "a")
	for _, name := range []string{"x_1.tar.gz", "x_1.zip"} {
		if !bytes.Equal(packed(t, name, mine), packed(t, name, yours)) {
			t.Errorf("%s: differs by when, how and in which order its files were made", name)
		}
		more := folder(t, 0o600, 0o600, "b/run", "a", "c/d/e")
		if bytes.Equal(packed(t, name, mine), packed(t, name, more)) {
			t.Errorf("%s: is the same when a program can no longer be run", name)
		}
	}
}

func TestArchivesHoldWhatWasInTheFolder(t *testing.T) {
	dir := folder(t, 0o600, 0o700, "b/run", "a")
	want := []string{"x_1/ 755", "x_1/a 644 of a", "x_1/b/ 755", "x_1/b/run 755 of b/run"}
	var got []string
	note := func(name string, mode os.FileMode, r io.Reader, when time.Time) {
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		line := name + " " + map[os.FileMode]string{0o755: "755", 0o644: "644"}[mode.Perm()]
		if len(b) > 0 {
			line += " " + string(b)
		}
		if got = append(got, line); !when.Equal(at) {
			t.Errorf("%s: is of %s", name, when)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(packed(t, "x_1.tar.gz", dir)))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: belongs to %d:%d %s", h.Name, h.Uid, h.Gid, h.Uname)
		}
		note(h.Name, h.FileInfo().Mode(), r, h.ModTime)
	}
	b := packed(t, "x_1.zip", dir)
	s, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		note(f.Name, f.Mode(), r, f.Modified)
	}
	for i, line := range append(want, want...) {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%q, want %q twice", got, want)
		}
	}
}

func TestOtherNamesAndLinksAreRefused(t *testing.T) {
	if err := pack(filepath.Join(t.TempDir(), "x.rar"), os.DirFS(t.TempDir()), at); err == nil {
		t.Error("an archive of an unknown kind is made")
	}
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Skip("no symlinks here: ", err)
	}
	if err := pack(filepath.Join(t.TempDir(), "x.zip"), os.DirFS(dir), at); err == nil {
		t.Error("a link is followed")
	}
}
