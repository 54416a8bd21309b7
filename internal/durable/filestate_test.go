package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// lots is more than any file here has.
const lots = 1 << 20

func stateOf(t *testing.T, w *Workspace, name string) FileState {
	t.Helper()
	s, err := w.State(name, lots)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unixOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("modes and links of Unix")
	}
}

func TestAFileIsPutBackWithItsModeAndContent(t *testing.T) {
	unixOnly(t)
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "run.sh"), "one", 0o750)
	before := stateOf(t, w, "run.sh")
	put(t, filepath.Join(dir, "run.sh"), "two", 0o640)
	if err := w.Put("run.sh", stateOf(t, w, "run.sh"), before); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "run.sh"))
	if err != nil || info.Mode().Perm() != 0o750 || content(t, filepath.Join(dir, "run.sh")) != "one" {
		t.Errorf("mode %v, %v, content %q", info.Mode(), err, content(t, filepath.Join(dir, "run.sh")))
	}
	noLeftovers(t, dir)
}

func TestWhatWasNotThereIsRemovedWithTheFoldersMadeForIt(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "kept", "other"), "x", 0o600)
	before := stateOf(t, w, "kept/new/deep/file")
	if before.Kind != Absent || before.Folder != "kept" {
		t.Fatalf("%+v", before)
	}
	if err := w.Replace("kept/new/deep/file", []byte("made")); err != nil {
		t.Fatal(err)
	}
	if err := w.Put("kept/new/deep/file", stateOf(t, w, "kept/new/deep/file"), before); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept", "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folders are still there: %v", err)
	}
	content(t, filepath.Join(dir, "kept", "other"))
}

func TestAFolderThatSomebodyUsesStays(t *testing.T) {
	w, dir := openWorkspace(t)
	before := stateOf(t, w, "new/file")
	if err := w.Replace("new/file", []byte("made")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "new", "theirs"), "x", 0o600)
	if err := w.Put("new/file", stateOf(t, w, "new/file"), before); err != nil {
		t.Fatal(err)
	}
	content(t, filepath.Join(dir, "new", "theirs"))
}

func TestALinkIsPutBackAsALink(t *testing.T) {
	unixOnly(t)
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "a"), "a", 0o600)
	if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	link := stateOf(t, w, "l")
	if link.Kind != Link || link.Target != "a" {
		t.Fatalf("%+v", link)
	}
	if err := w.Put("l", link, FileState{Kind: Regular, Data: []byte("file")}); err != nil {
		t.Fatal(err)
	}
	if content(t, filepath.Join(dir, "a")) != "a" {
		t.Error("the link was followed")
	}
	if err := w.Put("l", stateOf(t, w, "l"), link); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "l")); err != nil || to != "a" {
		t.Errorf("link to %q, %v", to, err)
	}
}

func TestNothingIsPutOutsideOfTheFolder(t *testing.T) {
	unixOnly(t)
	w, dir := openWorkspace(t)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "file"), "theirs", 0o600)
	put(t, filepath.Join(dir, "inside", "file"), "inside", 0o600)
	put(t, filepath.Join(dir, "sub", "file"), "mine", 0o600)
	was := stateOf(t, w, "sub/file")
	if err := os.RemoveAll(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	to := FileState{Kind: Regular, Data: []byte("written")}
	for _, target := range []string{outside, "../" + filepath.Base(outside), "inside"} {
		if err := os.Symlink(target, filepath.Join(dir, "sub")); err != nil {
			t.Fatal(err)
		}
		if err := w.Put("sub/file", was, to); !errors.Is(err, ErrLeadsOut) {
			t.Errorf("through a link to %s: %v, want ErrLeadsOut", target, err)
		}
		if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"../file", "/etc/passwd", ".", "", "a/../../file"} {
		if err := w.Put(name, FileState{Kind: Absent}, to); !errors.Is(err, ErrLeadsOut) {
			t.Errorf("%q: %v, want ErrLeadsOut", name, err)
		}
	}
	for _, target := range []string{"/etc/passwd", "../file", "../../x"} {
		if err := w.Put("l", FileState{Kind: Absent}, FileState{Kind: Link, Target: target}); !errors.Is(err, ErrLeadsOut) {
			t.Errorf("a link to %q: %v, want ErrLeadsOut", target, err)
		}
	}
	if content(t, filepath.Join(outside, "file")) != "theirs" || content(t, filepath.Join(dir, "inside", "file")) != "inside" {
		t.Error("a file behind a link was written")
	}
}

func TestWhatSomebodyChangedAfterTheLookIsNotReplaced(t *testing.T) {
	w, dir := openWorkspace(t)
	name := filepath.Join(dir, "file")
	to := FileState{Kind: Regular, Data: []byte("new")}
	for _, c := range []struct {
		what          string
		before, after func()
	}{
		{"rewritten", func() { put(t, name, "one", 0o600) }, func() { put(t, name, "longer", 0o600) }},
		{"removed", func() { put(t, name, "one", 0o600) }, func() { os.Remove(name) }},
		{"made", func() { os.Remove(name) }, func() { put(t, name, "theirs", 0o600) }},
		{"made a folder", func() { os.Remove(name) }, func() { os.Mkdir(name, 0o700) }},
	} {
		c.before()
		was := stateOf(t, w, "file")
		c.after()
		if err := w.Put("file", was, to); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want ErrChanged", c.what, err)
		}
	}
	noLeftovers(t, dir)
}

func TestAChangeBetweenKeepingAndReplacingIsNotLost(t *testing.T) {
	w, dir := openWorkspace(t)
	name := filepath.Join(dir, "file")
	put(t, name, "one", 0o600)
	err := w.ReplaceKeeping("file", []byte("ours"), func(_ string, look func(int64) (FileState, error), _ FileState) error {
		_, err := look(lots)
		put(t, name, "what somebody else wrote", 0o600)
		return err
	})
	if !errors.Is(err, ErrChanged) || content(t, name) != "what somebody else wrote" {
		t.Errorf("%v, content %q", err, content(t, name))
	}
}

func TestWhatCannotBeKeptIsNotReplaced(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "file"), "one", 0o600)
	full := errors.New("no room")
	if err := w.ReplaceKeeping("file", []byte("two"), func(string, func(int64) (FileState, error), FileState) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if content(t, filepath.Join(dir, "file")) != "one" {
		t.Error("it was replaced")
	}
	noLeftovers(t, dir)
}

func TestStateSaysWhatItDidNotRead(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "large"), strings.Repeat("x", 101), 0o600)
	s, err := w.State("large", 100)
	if err != nil || s.Unread != "it has 101 bytes, and at most 100 are kept" || s.Data != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if err := w.Put("large", s, s); err == nil {
		t.Error("a content that was not read was put")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, w, "folder"); s.Kind != Other {
		t.Errorf("%+v", s)
	}
	if err := w.Put("folder", stateOf(t, w, "folder"), FileState{Kind: Regular}); err == nil {
		t.Error("a folder was replaced")
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		put(t, filepath.Join(dir, "secret"), "x", 0o200)
		if s := stateOf(t, w, "secret"); s.Unread != "it may not be read" {
			t.Errorf("%+v", s)
		}
	}
}

func TestAHardLinkKeepsItsContent(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "file"), "one", 0o600)
	elsewhere := filepath.Join(t.TempDir(), "same")
	if err := os.Link(filepath.Join(dir, "file"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := w.Put("file", stateOf(t, w, "file"), FileState{Kind: Regular, Data: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	if content(t, elsewhere) != "one" || content(t, filepath.Join(dir, "file")) != "two" {
		t.Errorf("the other name has %q", content(t, elsewhere))
	}
}
