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

func openWorkspace(t *testing.T) (*Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	w, err := OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, dir
}

func put(t *testing.T, name, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".tidemark-") {
			t.Errorf("%s was left behind", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplaceKeepsTheModeOfAFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such modes here")
	}
	w, dir := openWorkspace(t)
	for _, mode := range []fs.FileMode{0o755, 0o600, 0o664} {
		name := filepath.Join(dir, "run.sh")
		put(t, name, "old", mode)
		if err := w.Replace("run.sh", []byte("new")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode || content(t, name) != "new" {
			t.Errorf("mode %v, content %q; want %v and the new content", got, content(t, name), mode)
		}
		os.Remove(name)
	}
	noLeftovers(t, dir)
}

func TestReplaceMakesNewFilesAsAnEditorWould(t *testing.T) {
	w, dir := openWorkspace(t)
	if err := w.Replace("a/b/new.txt", []byte("new")); err != nil {
		t.Fatal(err)
	}
	// What the umask makes of 0666 is what any other new file has.
	other := filepath.Join(dir, "other")
	f, err := os.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	want, err := os.Stat(other)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat(filepath.Join(dir, "a", "b", "new.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Mode() != want.Mode() {
		t.Errorf("a new file has mode %v, one by os.Create %v", got.Mode(), want.Mode())
	}
	noLeftovers(t, dir)
}

func TestReplaceWritesThroughLinksInsideAndRefusesLinksOut(t *testing.T) {
	w, dir := openWorkspace(t)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "secret"), "secret", 0o600)
	put(t, filepath.Join(dir, "deep", "real"), "old", 0o600)
	for link, target := range map[string]string{
		"inside":       "deep/real",
		"deep/up":      "../deep/real",
		"folder":       "deep",
		"out":          filepath.Join(outside, "secret"),
		"outdir":       outside,
		"climb":        "../" + filepath.Base(outside) + "/secret",
		"circle":       "circle",
		"deep/climber": "../../x",
		"absolute":     filepath.Join(dir, "deep", "real"),
		"self":         ".",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	for i, name := range []string{"inside", "deep/up", "folder/real", "folder/up"} {
		want := strings.Repeat("x", i+1)
		if err := w.Replace(name, []byte(want)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := content(t, filepath.Join(dir, "deep", "real")); got != want {
			t.Errorf("%s: the file behind it holds %q, want %q", name, got, want)
		}
		if info, err := os.Lstat(filepath.Join(dir, "inside")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: the link is a link no more: %v", name, err)
		}
	}
	for _, name := range []string{"out", "outdir/secret", "outdir/new", "climb", "circle", "deep/climber", "absolute", "self",
		"../x", "/etc/x", ".", "", "a/../../x"} {
		if err := w.Replace(name, []byte("taken")); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	if err := w.Replace("out", nil); !errors.Is(err, ErrLeadsOut) {
		t.Errorf("a link out: %v, want ErrLeadsOut", err)
	}
	if got := content(t, filepath.Join(outside, "secret")); got != "secret" {
		t.Errorf("the file outside holds %q", got)
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("%d files outside, want 1", len(names))
	}
	noLeftovers(t, dir)
}

func TestReplaceRefusesWhatIsNoWritableFile(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "folder", "x"), "", 0o600)
	if err := w.Replace("folder", []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := w.Replace("folder/x/y", []byte("x")); err == nil {
		t.Error("a file was made below a file")
	}
	if os.Getuid() == 0 {
		return // to root, nothing is read-only
	}
	name := filepath.Join(dir, "fixed")
	put(t, name, "fixed", 0o400)
	if err := w.Replace("fixed", []byte("x")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a read-only file: %v, want a refusal", err)
	}
	noLeftovers(t, dir)
}
