package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

// tear puts bytes behind a file, as a writer does that dies while writing.
func tear(t testing.TB, dir, name, tail string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(tail); err != nil {
		t.Fatal(err)
	}
}

// edit changes a file of a store by hand.
func edit(t testing.TB, dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

const logA = "logs/session/a.ndjson"

func TestATornTailIsCutOffAndKeptAside(t *testing.T) {
	whole := func(t *testing.T) string { // an append of three lines, of which the first two are torn off
		dir := t.TempDir()
		b := open(t, dir, &files.Options{Create: true})
		keep(t, b, run(sessA, 1, 2))
		keep(t, b, run(sessA, 3, 5))
		data, err := os.ReadFile(filepath.Join(dir, logA))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}(t)
	rows := strings.SplitAfter(whole, "\n")
	zeros := strings.Repeat("\x00", len(rows[3]))
	for name, tail := range map[string]string{
		"half a line":               rows[2][:20],
		"a line without its end":    strings.TrimSuffix(rows[2]+rows[3]+rows[4], "\n"),
		"an append without its end": rows[2] + rows[3],
		"a hole in an append":       rows[2] + zeros + rows[4],
		"a hole at its begin":       zeros + rows[3] + rows[4],
		"zeros":                     zeros,
		"garbage":                   "\xff\xfe{]\nmore\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, &files.Options{Create: true})
			keep(t, b, run(sessA, 1, 2))
			tear(t, dir, logA, tail)
			for _, b := range []*files.Backend{b, open(t, dir, nil)} {
				if seqs, damages := read(t, b, sessA); !slices.Equal(seqs, []int64{1, 2}) || damages != nil {
					t.Errorf("with the torn tail: %v, %v", seqs, damages)
				}
			}
			keep(t, b, run(sessA, 3, 3))
			if seqs, damages := read(t, b, sessA); !slices.Equal(seqs, []int64{1, 2, 3}) || damages != nil {
				t.Errorf("after the next append: %v, %v", seqs, damages)
			}
			for err := range b.Check(ctx) {
				t.Errorf("Check: %v", err)
			}
			aside, _ := filepath.Glob(filepath.Join(dir, "torn/session/a.*"))
			if len(aside) != 1 {
				t.Fatalf("kept aside: %v", aside)
			}
			if data, _ := os.ReadFile(aside[0]); string(data) != tail {
				t.Errorf("kept aside %q, want %q", data, tail)
			}
		})
	}
}

func TestATornTailIsKnownWithoutAHead(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, run(sessA, 1, 2000))
	keep(t, b, run(sessA, 2001, 2001))
	os.Remove(filepath.Join(dir, "heads/session/a.json"))
	tear(t, dir, logA, `{"seq":2002,"at"`)
	b = open(t, dir, nil)
	if r, err := b.Get(ctx, sessA); err != nil || r.Head.Length != 2001 {
		t.Errorf("Get = %+v, %v", r.Head, err)
	}
	keep(t, b, run(sessA, 2002, 2002))
	if seqs, damages := read(t, b, sessA); len(seqs) != 2002 || damages != nil {
		t.Errorf("%d lines, %v", len(seqs), damages)
	}
}

func TestDamageInTheMiddleIsReportedWithItsPlaceAndHidesNothing(t *testing.T) {
	line := func(data []byte, n int) []byte { return bytes.SplitAfter(data, []byte("\n"))[n-1] }
	swap := func(n int, by string) func([]byte) []byte {
		return func(data []byte) []byte { return bytes.Replace(data, line(data, n), []byte(by), 1) }
	}
	for _, c := range []struct {
		name    string
		change  func([]byte) []byte
		missing []int64
		place   string // in Lines, of the first missing line, or else in Check
		what    string
	}{
		{"garbage", swap(3, "not json\n"), []int64{3}, ":3", "not a line"},
		{"zeros", swap(3, "\x00\x00\x00\x00\n"), []int64{3}, ":3", "zeros"},
		{"invalid UTF-8", swap(3, "{\"seq\":3,\"kind\":\"\xff\"}\n"), []int64{3}, ":3", "UTF-8"},
		{"another body", func(d []byte) []byte { return bytes.Replace(d, []byte(`{"n":3}`), []byte(`{"n":8}`), 1) }, []int64{3}, ":3", "checksum"},
		{"a line taken out", swap(3, ""), []int64{3}, "", "missing"},
		{"two damaged lines", func(d []byte) []byte { return swap(4, "y\n")(swap(3, "x\n")(d)) }, []int64{3, 4}, ":3", "not a line"},
		{"a damaged first line", swap(1, "x\n"), []int64{1}, ":1", "not a line"},
		{"glued lines", func(d []byte) []byte { l := line(d, 3); return bytes.Replace(d, l, l[:len(l)-1], 1) }, nil, ":3", "2 lines without a newline"},
		{"garbage between", func(d []byte) []byte { l := line(d, 3); return bytes.Replace(d, l, append([]byte("junk\n"), l...), 1) }, nil, ":3", "not a line"},
		{"an empty line", func(d []byte) []byte { l := line(d, 3); return bytes.Replace(d, l, append([]byte("\n"), l...), 1) }, nil, ":3", "empty"},
		{"half a line glued to the next", func(d []byte) []byte { l := line(d, 3); return bytes.Replace(d, l, l[:30], 1) }, []int64{3}, ":3", "other bytes beside it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, &files.Options{Create: true})
			keep(t, b, run(sessA, 1, 4))
			for s := int64(5); s <= 8; s++ {
				keep(t, b, run(sessA, s, s))
			}
			edit(t, dir, logA, c.change)
			os.Remove(filepath.Join(dir, "heads/session/a.json")) // so that only the damage speaks
			b = open(t, dir, nil)
			var want []int64
			for s := int64(1); s <= 8; s++ {
				if !slices.Contains(c.missing, s) {
					want = append(want, s)
				}
			}
			seqs, damages := read(t, b, sessA)
			if !slices.Equal(seqs, want) || len(damages) != len(c.missing) {
				t.Fatalf("read %v, %v; want %v", seqs, damages, want)
			}
			for i, d := range damages {
				if d.Seq != c.missing[i] || i == 0 && (d.Place != logA+c.place || !strings.Contains(d.What, c.what)) {
					t.Errorf("damage %+v, want line %d at %s: %s", d, c.missing[i], c.place, c.what)
				}
			}
			slices.Reverse(want)
			if seqs, damages := read(t, b, sessA, tidemark.Span{Backwards: true}); !slices.Equal(seqs, want) || len(damages) != len(c.missing) {
				t.Errorf("backwards %v, %v; want %v", seqs, damages, want)
			}
			found := false
			for err := range b.Check(ctx) {
				var d *tidemark.Damage
				if errors.As(err, &d) && strings.HasPrefix(d.Place, logA) {
					found = true
				}
			}
			if !found {
				t.Error("Check found nothing")
			}
			keep(t, b, run(sessA, 9, 9)) // the log goes on
		})
	}
}

func TestALostTailIsDamageAndOtherLogsGoOn(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"two lines lost": func(d []byte) []byte { return bytes.Join(bytes.SplitAfter(d, []byte("\n"))[:3], nil) },
		"all lines lost": func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, &files.Options{Create: true})
			for s := int64(1); s <= 5; s++ {
				keep(t, b, run(sessA, s, s))
			}
			b.Close()
			edit(t, dir, logA, change)
			b = open(t, dir, nil)
			seqs, damages := read(t, b, sessA)
			if len(seqs)+len(damages) != 5 || len(damages) < 2 {
				t.Errorf("read %v, %v", seqs, damages)
			}
			if r, err := b.Get(ctx, sessA); !errors.Is(err, tidemark.ErrCorrupt) || r.Head.Length != 5 {
				t.Errorf("Get = %+v, %v; want ErrCorrupt", r, err)
			}
			if _, err := b.Commit(ctx, batchOf(run(sessA, 6, 6))); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Commit = %v, want ErrCorrupt", err)
			}
			found := 0
			for err := range b.Check(ctx) {
				if errors.Is(err, tidemark.ErrCorrupt) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("Check found %d things", found)
			}
			keep(t, b, run(sessB, 1, 1))
			os.Remove(filepath.Join(dir, "heads/session/a.json")) // the way out: the loss is accepted
			keep(t, b, run(sessA, int64(len(seqs))+1, 6))
		})
	}
}

func TestADamagedRecordHidesNoOtherAndCanBeReplaced(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{"title":"one"}`))
	keep(t, b, backendtest.NewRecord(sessB, 1, `{}`))
	edit(t, dir, "records/session/a.json", func(d []byte) []byte { return bytes.Replace(d, []byte("one"), []byte("two"), 1) })
	if _, err := b.Get(ctx, sessA); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	var got []string
	for r, err := range b.List(ctx, tidemark.Query{Kind: "session", Order: tidemark.ByID}) {
		got = append(got, fmt.Sprintf("%s %t", r.ID, errors.Is(err, tidemark.ErrCorrupt)))
	}
	if !slices.Equal(got, []string{"a true", "b false"}) {
		t.Errorf("List = %v", got)
	}
	keep(t, b, backendtest.NewRecord(sessA, 2, `{"title":"three"}`))
}

func TestALineInAnotherFormIsReadWhenItSaysTheSame(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, run(sessA, 1, 3))
	edit(t, dir, logA, func(d []byte) []byte { return bytes.ReplaceAll(d, []byte(`,"batch"`), []byte(` ,  "batch"`)) })
	os.Remove(filepath.Join(dir, "heads/session/a.json"))
	b = open(t, dir, nil)
	if seqs, damages := read(t, b, sessA); len(seqs) != 3 || damages != nil {
		t.Errorf("read %v, %v", seqs, damages)
	}
}

// TestEveryChangedByteIsFoundOrHarmless changes each byte of each file of a
// small store, and wants that no wrong content is ever shown and that every
// line that was not touched can be read.
func TestEveryChangedByteIsFoundOrHarmless(t *testing.T) {
	disk := crashfs.New()
	b := open(t, "store", &files.Options{FS: disk, Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{"title":"x"}`), run(sessA, 1, 2))
	keep(t, b, run(sessA, 3, 3))
	keep(t, b, run(sessA, 4, 6))
	keep(t, b, run(sessB, 1, 1))
	want := photo(b)
	b.Close()
	for _, name := range []string{logA, "records/session/a.json", "heads/session/a.json", "logs/session/b.ndjson", "locks/flags"} {
		data, err := durable.ReadFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			for _, flip := range []byte{1, 0x80, data[i], data[i] ^ '\n'} {
				if flip == 0 {
					continue
				}
				changed := bytes.Clone(data)
				changed[i] ^= flip
				flipped(t, disk.Copy(), name, changed, i, want)
			}
		}
	}
}

func flipped(t *testing.T, disk *crashfs.FS, name string, data []byte, at int, want string) {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(data, 0)
	b, err := files.Open(ctx, "store", &files.Options{ReadOnly: true, FS: disk})
	if err != nil {
		t.Fatalf("%s byte %d: Open = %v", name, at, err)
	}
	defer b.Close()
	if photo(b) == want {
		return
	}
	row := int64(bytes.Count(data[:at], []byte("\n")) + 1)
	for _, k := range crashKeys {
		seqs, damages := read(t, b, k)
		found := len(damages) > 0
		if _, err := b.Get(ctx, k); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			found = true
			if !errors.Is(err, tidemark.ErrCorrupt) {
				t.Fatalf("%s byte %d: Get = %v", name, at, err)
			}
		}
		length := map[tidemark.Key]int64{sessA: 6, sessB: 1}[k]
		for s := int64(1); s <= length; s++ {
			touched := strings.HasPrefix(name, "logs/session/"+k.ID) && s == row
			if !slices.Contains(seqs, s) && !touched {
				t.Fatalf("%s byte %d: line %d of %s cannot be read: %v", name, at, s, k, damages)
			}
		}
		if int64(len(seqs)) < length && !found {
			t.Fatalf("%s byte %d: a line of %s is missing without a word", name, at, k)
		}
	}
}

// TestALogThatIsAnotherOrNoneIsDamage swaps, empties, removes and puts back logs
// together with their heads, so that each file is sound by itself.
func TestALogThatIsAnotherOrNoneIsDamage(t *testing.T) {
	const headA, logB, headB = "heads/session/a.json", "logs/session/b.ndjson", "heads/session/b.json"
	swap := func(t *testing.T, dir, x, y string) {
		t.Helper()
		for _, move := range [][2]string{{x, "swap"}, {y, x}, {"swap", y}} {
			if err := os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := func(b []byte) []byte { return nil }
	remove := func(t *testing.T, dir string, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	withoutFloors := func(t *testing.T, dir string) { // as a store of an earlier program
		t.Helper()
		for _, name := range []string{"records/session/a.json", "records/session/b.json"} {
			edit(t, dir, name, func(b []byte) []byte { return floorMember.ReplaceAll(b, nil) })
		}
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"swapped": func(t *testing.T, dir string) { swap(t, dir, logA, logB); swap(t, dir, headA, headB) },
		"swapped, without floors": func(t *testing.T, dir string) {
			withoutFloors(t, dir)
			swap(t, dir, logA, logB)
			swap(t, dir, headA, headB)
		},
		"swapped without heads": func(t *testing.T, dir string) { swap(t, dir, logA, logB); remove(t, dir, headA, headB) },
		"emptied":               func(t *testing.T, dir string) { edit(t, dir, logA, empty); edit(t, dir, headA, empty) },
		"emptied, without floors": func(t *testing.T, dir string) {
			withoutFloors(t, dir)
			edit(t, dir, logA, empty)
			edit(t, dir, headA, empty)
		},
		"emptied, and the head removed": func(t *testing.T, dir string) { edit(t, dir, logA, empty); remove(t, dir, headA) },
		"removed":                       func(t *testing.T, dir string) { remove(t, dir, logA, headA) },
		"put back": func(t *testing.T, dir string) {
			was := t.TempDir()
			old := open(t, was, &files.Options{Create: true})
			keep(t, old, run(sessA, 1, 2))
			for _, name := range []string{logA, headA} {
				edit(t, dir, name, func([]byte) []byte {
					b, err := os.ReadFile(filepath.Join(was, name))
					if err != nil {
						t.Fatal(err)
					}
					return b
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, &files.Options{Create: true})
			for _, k := range []tidemark.Key{sessA, sessB} {
				keep(t, b, backendtest.NewRecord(k, 1, `{}`), run(k, 1, 2))
				keep(t, b, run(k, 3, 4))
				keep(t, b, backendtest.NewRecord(k, 2, `{"title":"x"}`)) // raises the floor
			}
			b.Close()
			harm(t, dir)
			b = open(t, dir, nil)
			if _, err := b.Get(ctx, sessA); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Get = %v, want ErrCorrupt", err)
			}
			if _, damages := read(t, b, sessA); len(damages) == 0 && name != "put back" { // there the record tells
				t.Error("Lines tells of no damage")
			}
			for _, first := range []int64{1, 3, 5} {
				if _, err := b.Commit(ctx, batchOf(run(sessA, first, first))); !errors.Is(err, tidemark.ErrCorrupt) {
					t.Errorf("Commit of line %d = %v, want ErrCorrupt", first, err)
				}
			}
			if found := checked(t, b); len(found) == 0 {
				t.Error("Check finds nothing")
			}
		})
	}
}

var floorMember = regexp.MustCompile(`,\n  "lines": "[^"]*"`)

func checked(t *testing.T, b *files.Backend) (found []error) {
	t.Helper()
	for err := range b.Check(ctx) {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("Check: %v", err)
		}
		found = append(found, err)
	}
	return found
}

// Mending accepts what is lost for good. Lines of another log are not lost.
func TestMendAcceptsAnEmptiedLogAndLeavesASwappedOne(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 3))
	b.Close()
	for _, name := range []string{logA, "heads/session/a.json"} {
		edit(t, dir, name, func([]byte) []byte { return nil })
	}
	b = open(t, dir, nil)
	for _, err := range b.Mend(ctx) {
		if err != nil {
			t.Fatalf("Mend: %v", err)
		}
	}
	keep(t, b, run(sessA, 1, 1))
	if found := checked(t, b); found != nil {
		t.Errorf("Check after Mend: %v", found)
	}
	keep(t, b, backendtest.NewRecord(sessB, 1, `{}`), run(sessB, 1, 3))
	b.Close()
	data, err := os.ReadFile(filepath.Join(dir, "logs/session/b.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	edit(t, dir, logA, func([]byte) []byte { return data })
	if err := os.Remove(filepath.Join(dir, "heads/session/a.json")); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, nil)
	for _, err := range b.Mend(ctx) {
		if err != nil {
			t.Fatalf("Mend: %v", err)
		}
	}
	if _, err := b.Get(ctx, sessA); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get of a log with lines of another = %v, want ErrCorrupt", err)
	}
}
