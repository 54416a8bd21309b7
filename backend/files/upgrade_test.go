package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func TestFormatIsWhatTheLastUpgradeMakes(t *testing.T) {
	if here.format() != Format {
		t.Errorf("Format is %d, and the upgrades lead to %d", Format, here.format())
	}
}

var (
	talked = tidemark.Key{Kind: "session", ID: "s"}
	then   = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

// later is a program some formats ahead of this one, which reads no older one as
// it is.
func later(steps ...upgrade) setting {
	set := setting{upgrades: append(slices.Clip(here.upgrades), steps...), now: func() time.Time { return then }}
	set.readable = set.format()
	return set
}

// addFile is an upgrade that can be run again.
func addFile(fsys durable.FS) error {
	err := durable.Create(fsys, "extra", []byte("x"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// talk appends one line to a log.
func talk(t *testing.T, b *Backend, seq int64) error {
	t.Helper()
	l := tidemark.Line{Seq: seq, Kind: "user", Body: []byte(`{"n":1}`), At: then}
	l.Sum = l.Checksum(talked)
	_, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: then, Appends: []tidemark.Append{{Log: talked, Lines: []tidemark.Line{l}}}})
	return err
}

// old makes a store of so many lines with the program of today.
func old(t *testing.T, dir string, lines int64) *Backend {
	t.Helper()
	b, err := Open(t.Context(), dir, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for seq := int64(1); seq <= lines; seq++ {
		if err := talk(t, b, seq); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// whole wants the store in dir to open with so many lines and no fault.
func whole(t *testing.T, dir string, set setting, lines int64) *Backend {
	t.Helper()
	b, err := open(context.Background(), dir, nil, set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	n := int64(0)
	for _, err := range b.Lines(context.Background(), talked) {
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(dir), err)
		}
		n++
	}
	if n != lines {
		t.Errorf("%s: %d lines, want %d", filepath.Base(dir), n, lines)
	}
	for err := range b.Check(context.Background()) {
		t.Errorf("%s: %v", filepath.Base(dir), err)
	}
	return b
}

// contents returns every file below dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			all[path] += " " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOlderStoreIsUpgradedAfterABackup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	running := old(t, dir, 5)
	if _, err := open(t.Context(), dir, &Options{ReadOnly: true}, later(addFile)); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("opened for reading: %v, want ErrUnsupported", err)
	}
	said := ""
	b, err := open(t.Context(), dir, &Options{Upgrading: func(from, to int64, backup string) { said = fmt.Sprint(from, to, " ", backup) }}, later(addFile))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	copied := dir + ".bak-v2-20260304T050607Z"
	if want := "2 3 " + copied; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "extra")); err != nil {
		t.Error(err)
	}
	if err := talk(t, running, 6); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("the older program, still running, commits: %v, want ErrUnsupported", err)
	}
	if _, err := running.Get(t.Context(), talked); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("the older program, still running, reads: %v, want ErrUnsupported", err)
	}
	if err := talk(t, whole(t, dir, later(addFile), 5), 6); err != nil {
		t.Error(err)
	}
	if err := talk(t, whole(t, copied, here, 5), 6); err != nil {
		t.Errorf("the copy takes no lines: %v", err)
	}
}

func TestStoreOfANewerProgramIsRefusedAndLeftAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old(t, dir, 5).Close()
	b, err := open(t.Context(), dir, nil, later(addFile, addFile))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	os.Remove(filepath.Join(dir, "locks/reserve")) // would be made again
	before := contents(t, filepath.Dir(dir))
	for _, o := range []*Options{nil, {ReadOnly: true}, {Create: true}} {
		_, err := Open(t.Context(), dir, o)
		var newer *tidemark.NewerError
		if !errors.As(err, &newer) || !errors.Is(err, tidemark.ErrUnsupported) {
			t.Fatalf("Open(%+v) = %v, want a NewerError", o, err)
		}
		want := tidemark.NewerError{What: "store " + dir, Format: 4, Known: 2, Backup: dir + ".bak-v2-20260304T050607Z"}
		if d := cmp.Diff(want, *newer); d != "" {
			t.Errorf("said:\n%s", d)
		}
	}
	if d := cmp.Diff(before, contents(t, filepath.Dir(dir))); d != "" {
		t.Errorf("refusing changed something:\n%s", d)
	}
}

func TestUpgradeThatIsCutOffIsGoneOnWith(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old(t, dir, 5).Close()
	cut := func(durable.FS) error { return errors.New("cut off") }
	for range 2 {
		if _, err := open(t.Context(), dir, nil, later(addFile, cut)); !errors.Is(err, tidemark.ErrStorage) {
			t.Fatalf("Open = %v, want ErrStorage", err)
		}
	}
	var newer *tidemark.NewerError
	if _, err := Open(t.Context(), dir, nil); !errors.As(err, &newer) {
		t.Errorf("an older program opens what is half upgraded: %v", err)
	}
	if _, err := open(t.Context(), dir, &Options{ReadOnly: true}, later(addFile, addFile)); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("what is half upgraded is read: %v", err)
	}
	whole(t, dir, later(addFile, addFile), 5)
	whole(t, newer.Backup, here, 5)
	if all, _ := filepath.Glob(dir + ".bak*"); len(all) != 1 {
		t.Errorf("copies: %v, want one", all)
	}
}

func TestHalfACopyIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old(t, dir, 5).Close()
	if err := os.MkdirAll(dir+".bak.new/records/session", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+".bak.new/records/session/s.json", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole(t, dir, later(addFile), 5)
	whole(t, dir+".bak-v2-20260304T050607Z", here, 5)
	if left, _ := filepath.Glob(dir + ".bak.new"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestOfSeveralThatOpenAnOlderStoreOneUpgradesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old(t, dir, 5).Close()
	var upgrades atomic.Int64
	step := func(durable.FS) error { upgrades.Add(1); return nil }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { whole(t, dir, later(step), 5) })
	}
	wg.Wait()
	if n := upgrades.Load(); n != 1 {
		t.Errorf("upgraded %d times", n)
	}
	if all, _ := filepath.Glob(dir + ".bak*"); len(all) != 1 {
		t.Errorf("copies: %v, want one", all)
	}
}

func TestWithoutACopyThereIsNoUpgrade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	old(t, dir, 5).Close()
	ctx, stop := context.WithCancel(t.Context())
	step := func(durable.FS) error { t.Error("the upgrade began"); return nil }
	_, err := open(ctx, dir, &Options{Upgrading: func(int64, int64, string) { stop() }}, later(step))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not upgraded") {
		t.Errorf("Open = %v, want to be told that it was not upgraded", err)
	}
	whole(t, dir, here, 5)
	if left, _ := filepath.Glob(dir + ".bak*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestStoreOfFormat1IsReadAsItIsAndUpgradedWhenItIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	first := setting{readable: 1, now: time.Now}
	b, err := open(t.Context(), dir, &Options{Create: true}, first)
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 5; seq++ {
		if err := talk(t, b, seq); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	r, err := Open(t.Context(), dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("opened for reading: %v", err)
	}
	defer r.Close()
	before := contents(t, dir)
	if info, err := r.Get(t.Context(), talked); err != nil || info.Head.Length != 5 {
		t.Errorf("Get = %d lines, %v; want 5", info.Head.Length, err)
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("reading changed something:\n%s", d)
	}
	if err := talk(t, whole(t, dir, here, 5), 6); err != nil {
		t.Error(err)
	}
	if info, err := r.Get(t.Context(), talked); err != nil || info.Head.Length != 6 {
		t.Errorf("after the upgrade, Get = %d lines, %v; want 6", info.Head.Length, err)
	}
	if _, err := open(t.Context(), dir, nil, first); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("the program of format 1 opens it: %v, want ErrUnsupported", err)
	}
	copies, _ := filepath.Glob(dir + ".bak-v1-*")
	if len(copies) != 1 {
		t.Fatalf("copies: %v, want one", copies)
	}
	whole(t, copies[0], first, 5)
}
