package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

var (
	ctx   = context.Background()
	sessA = tidemark.Key{Kind: "session", ID: "a"}
	sessB = tidemark.Key{Kind: "session", ID: "b"}
)

// run returns an append of lines from to to.
func run(log tidemark.Key, from, to int64) tidemark.Append {
	a := tidemark.Append{Log: log}
	for s := from; s <= to; s++ {
		a.Lines = append(a.Lines, backendtest.NewLine(log, s, fmt.Sprintf(`{"n":%d}`, s)))
	}
	return a
}

func batchOf(parts ...any) tidemark.Batch {
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: backendtest.NewLine(sessA, 1, "").At}
	for _, p := range parts {
		switch p := p.(type) {
		case tidemark.Append:
			b.Appends = append(b.Appends, p)
		case tidemark.Record:
			b.Puts = append(b.Puts, p)
		case tidemark.Precondition:
			b.Deletes = append(b.Deletes, p)
		case tidemark.Key:
			b.Drops = append(b.Drops, p)
		}
	}
	return b
}

func keep(t testing.TB, b tidemark.Backend, parts ...any) {
	t.Helper()
	if _, err := b.Commit(ctx, batchOf(parts...)); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}

// read returns the seqs that can be read and the damages that were reported.
func read(t testing.TB, b tidemark.Backend, log tidemark.Key, spans ...tidemark.Span) (seqs []int64, damages []tidemark.Damage) {
	t.Helper()
	for l, err := range b.Lines(ctx, log, spans...) {
		var d *tidemark.Damage
		switch {
		case errors.As(err, &d):
			if l.Seq != d.Seq {
				t.Errorf("line %d was yielded with a damage of line %d", l.Seq, d.Seq)
			}
			damages = append(damages, *d)
		case err != nil:
			t.Fatalf("Lines = %v", err)
		default:
			if string(l.Body) != fmt.Sprintf(`{"n":%d}`, l.Seq) {
				t.Errorf("line %d has the body %s", l.Seq, l.Body)
			}
			seqs = append(seqs, l.Seq)
		}
	}
	return seqs, damages
}

func TestOpenSaysWhatIsWrongWithAPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	other := filepath.Join(dir, "other")
	newer := filepath.Join(dir, "newer")
	broken := filepath.Join(dir, "broken")
	for name, text := range map[string]string{file: "x", other + "/notes.txt": "x",
		newer + "/tidemark.json": `{"format":"tidemark-files","version":99,"store":"x"}`, broken + "/tidemark.json": `{"form`} {
		os.MkdirAll(filepath.Dir(name), 0o700)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir    string
		create bool
		want   error
	}{
		{filepath.Join(dir, "absent"), false, tidemark.ErrNoStore},
		{dir, false, tidemark.ErrNoStore},
		{file, true, tidemark.ErrInvalid},
		{other, true, tidemark.ErrInvalid},
		{newer, true, tidemark.ErrUnsupported},
		{broken, true, tidemark.ErrCorrupt},
	} {
		before := tree(t, dir)
		if _, err := files.Open(ctx, c.dir, &files.Options{Create: c.create}); !errors.Is(err, c.want) {
			t.Errorf("Open(%s) = %v, want %v", c.dir, err, c.want)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Errorf("a refused Open(%s) changed something:\n%s", c.dir, d)
		}
	}
}

// tree returns every file under dir with its mode and content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		all[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// frozen is a file system on which nothing can be written.
type frozen struct{ durable.FS }

func (f frozen) OpenFile(name string, flag int) (durable.File, error) {
	if flag != os.O_RDONLY {
		return nil, syscall.EROFS
	}
	return f.FS.OpenFile(name, flag)
}
func (frozen) Mkdir(string) error          { return syscall.EROFS }
func (frozen) Rename(string, string) error { return syscall.EROFS }
func (frozen) Remove(string) error         { return syscall.EROFS }
func (frozen) SyncDir(string) error        { return syscall.EROFS }

func TestReadingWorksOnAReadOnlyDisk(t *testing.T) {
	disk := crashfs.New()
	b := open(t, "store", &files.Options{FS: disk, Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	r := open(t, "store", &files.Options{FS: frozen{disk}, ReadOnly: true})
	if seqs, damages := read(t, r, sessA); len(seqs) != 3 || damages != nil {
		t.Errorf("read %v, %v", seqs, damages)
	}
	if rec, err := r.Get(ctx, sessA); err != nil || rec.Head.Length != 3 {
		t.Errorf("Get = %+v, %v", rec, err)
	}
	for _, err := range r.List(ctx, tidemark.Query{Kind: "session"}) {
		if err != nil {
			t.Errorf("List = %v", err)
		}
	}
	for err := range r.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
	if _, err := r.Commit(ctx, batchOf(run(sessA, 4, 4))); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("Commit = %v, want ErrDenied", err)
	}
}

func TestReadingNeverWrites(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	b.Close()
	name := filepath.Join(dir, "logs/session/a.ndjson")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"seq":4,"at":"20`)
	f.Close()
	before := tree(t, dir)
	r := open(t, dir, &files.Options{ReadOnly: true})
	if seqs, damages := read(t, r, sessA); len(seqs) != 3 || damages != nil {
		t.Errorf("read %v, %v", seqs, damages)
	}
	for err := range r.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("reading changed something:\n%s", d)
	}
}

func TestIdsThatDifferInCaseOnlyHaveFilesThatDiffer(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	for _, id := range []string{"a", "A", "con", "CON", "nul.x", "lpt1", "com", "a.B-c"} {
		keep(t, b, backendtest.NewRecord(tidemark.Key{Kind: "agent", ID: id}, 1, `{}`))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "records/agent"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"%41.json", "%43%4f%4e.json", "%63on.json", "%6cpt1.json", "%6eul.x.json", "a.%42-c.json", "a.json", "com.json"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	var ids []string
	for r, err := range b.List(ctx, tidemark.Query{Kind: "agent", Order: tidemark.ByID}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if d := cmp.Diff([]string{"A", "CON", "a", "a.B-c", "com", "con", "lpt1", "nul.x"}, ids); d != "" {
		t.Errorf("ids (-want +got):\n%s", d)
	}
	long := backendtest.NewRecord(tidemark.Key{Kind: "agent", ID: strings.Repeat("X", 100)}, 1, `{}`)
	if _, err := b.Commit(ctx, batchOf(long)); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Commit of an id of 100 capitals = %v, want ErrInvalid", err)
	}
}

func TestAFullDiskCanBeReadListedAndEmptied(t *testing.T) {
	disk := crashfs.New()
	b := open(t, "store", &files.Options{FS: disk, Create: true})
	for _, k := range []tidemark.Key{sessA, sessB} {
		keep(t, b, backendtest.NewRecord(k, 1, `{}`), run(k, 1, 50))
	}
	disk.SetRoom(0)
	if _, err := b.Commit(ctx, batchOf(run(sessA, 51, 51))); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("Commit of an append = %v, want ErrStorage", err)
	}
	if seqs, damages := read(t, b, sessA); len(seqs) != 50 || damages != nil {
		t.Errorf("after a failed append: %d lines, %v", len(seqs), damages)
	}
	trash := backendtest.NewRecord(sessA, 2, `{"trashed":true}`)
	trash.State = "trash"
	if _, err := b.Commit(ctx, batchOf(trash)); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("Commit of a record that frees nothing = %v, want ErrStorage", err)
	}
	batch := batchOf(trash)
	batch.Frees = true // takes the reserve
	if _, err := b.Commit(ctx, batch); err != nil {
		t.Errorf("Commit to the trash = %v", err)
	}
	keep(t, b, tidemark.Precondition{Key: sessA, Version: 2}, sessA)
	disk.SetRoom(0)
	keep(t, b, sessB)
	keep(t, b, run(sessB, 1, 1)) // in the room that the log had
	disk.SetRoom(1 << 20)
	keep(t, b, run(sessB, 2, 60))
	if _, damages := read(t, b, sessB); damages != nil {
		t.Errorf("damages: %v", damages)
	}
	for err := range b.Check(ctx) {
		t.Errorf("Check: %v", err)
	}
}

func TestAfterAFailedSyncNothingIsAcknowledgedUntilReopened(t *testing.T) {
	disk := crashfs.New()
	b := open(t, "store", &files.Options{FS: disk, Create: true})
	keep(t, b, run(sessA, 1, 1))
	refused := false
	for n := 1; n < 40 && !refused; n++ {
		d := disk.Copy()
		b := open(t, "store", &files.Options{FS: d})
		d.Inject(crashfs.Fault{At: n, Err: syscall.EIO})
		_, first := b.Commit(ctx, batchOf(run(sessA, 2, 2)))
		_, second := b.Commit(ctx, batchOf(run(sessB, 1, 1)))
		if first != nil && strings.Contains(first.Error(), "sync logs/session/a.ndjson") {
			refused = true
			if !errors.Is(first, tidemark.ErrStorage) || !errors.Is(second, tidemark.ErrStorage) {
				t.Errorf("first %v, then %v; want ErrStorage twice", first, second)
			}
		}
	}
	if !refused {
		t.Error("no call was the sync of the log")
	}
}
