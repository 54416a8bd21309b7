package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

var ctx = context.Background()

func someRecord(k tidemark.Key) tidemark.Record {
	at := time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)
	r := tidemark.Record{Key: k, Version: 3, Group: "g", State: "live", Due: at.Add(time.Hour), UpdatedAt: at, Batch: "q83vEjRWeJCrze8S", Body: []byte(`{"title":"Tides"}`)}
	r.Sum = r.Checksum()
	return r
}

func someLines(log tidemark.Key) tidemark.Append {
	at := time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)
	a := tidemark.Append{Log: log, At: at.Add(time.Second)}
	for seq := range int64(2) {
		l := tidemark.Line{Seq: seq + 1, Kind: "user", At: at, Position: tidemark.Position{Parent: seq, Depth: seq + 1, Nodes: 1}, Body: []byte(`{"text":"When is high tide?"}`), Batch: "AQIDBAUGBwgJCgsM"}
		if seq == 1 {
			l.Key, l.Chain = "msg-2", []byte{1, 2, 3}
		}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	return a
}

// made writes an archive of items that no source told.
func made(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	p, err := newPacker(&b, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	m := Manifest{Format: Format, MadeAt: time.Unix(0, 0).UTC(), Kinds: map[string]Count{}}
	for i := range items {
		m.count(&items[i])
		if err := p.item(&items[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(&m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnItemSurvives(t *testing.T) {
	k := tidemark.Key{Kind: "session", ID: "7f3a"}
	r := someRecord(k)
	never := r
	never.Due, never.Group, never.Body = time.Time{}, "", nil
	never.Sum = never.Checksum()
	kept := Kept{Key: k, Mark: markOf(&r), Length: 7, Tail: 9, At: r.UpdatedAt}
	for _, want := range []item{
		{kind: recordItem, record: r, was: Mark{1, 2}},
		{kind: recordItem, record: never},
		{kind: linesItem, lines: someLines(k)},
		{kind: goneItem, kept: kept, gone: goneLog | goneAnew},
		{kind: keptItem, kept: kept},
		{kind: keptItem, kept: Kept{Key: k}},
	} {
		b := appendItem(nil, &want)
		if len(b) > want.size() {
			t.Errorf("%q takes %d bytes, and %d were thought enough", want.kind, len(b), want.size())
		}
		p := parser{b: b}
		var got item
		if err := p.next(&got); err != nil || len(p.b) > 0 {
			t.Fatalf("%q: %v", want.kind, err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(item{})); d != "" {
			t.Errorf("%q (-want +got):\n%s", want.kind, d)
		}
	}
}

func TestAHostileArchiveIsRefused(t *testing.T) {
	good := tidemark.Key{Kind: "session", ID: "7f3a"}
	record := func(change func(*tidemark.Record)) item {
		r := someRecord(good)
		change(&r)
		return item{kind: recordItem, record: r}
	}
	keyed := func(kind, id string) item {
		return record(func(r *tidemark.Record) { r.Key = tidemark.Key{Kind: kind, ID: id}; r.Sum = r.Checksum() })
	}
	lines := func(change func(*tidemark.Append)) item {
		a := someLines(good)
		change(&a)
		return item{kind: linesItem, lines: a}
	}
	for name, it := range map[string]item{
		"a path":             keyed("session", "../../etc/passwd"),
		"an absolute path":   keyed("session", "/etc/passwd"),
		"a kind with a path": keyed("../x", "a"),
		"an empty id":        keyed("session", ""),
		"a long id":          keyed("session", strings.Repeat("a", 200)),
		"a NUL":              keyed("session", "a\x00b"),
		"a log with a path":  lines(func(a *tidemark.Append) { a.Log.ID = "../a" }),
		"another sum":        record(func(r *tidemark.Record) { r.Sum++ }),
		"version 0":          record(func(r *tidemark.Record) { r.Version = 0 }),
		"a batch with a NUL": record(func(r *tidemark.Record) { r.Batch = "\x00" }),
		"the year 300000":    record(func(r *tidemark.Record) { r.UpdatedAt = time.UnixMicro(1 << 62).UTC() }),
		"a changed line":     lines(func(a *tidemark.Append) { a.Lines[1].Body = []byte("other") }),
		"lines from 0":       lines(func(a *tidemark.Append) { a.Lines[0].Seq = 0 }),
		"a negative length":  {kind: keptItem, kept: Kept{Key: good, Length: -1}},
		"a gone path":        {kind: goneItem, gone: goneRecord, kept: Kept{Key: tidemark.Key{Kind: "session", ID: ".."}}},
		"an unknown type":    {kind: 'Z'},
	} {
		t.Run(name, func(t *testing.T) {
			into := memory.New()
			data := made(t, item{kind: linesItem, lines: someLines(tidemark.Key{Kind: "other", ID: "a"})}, it)
			if _, err := Read(ctx, bytes.NewReader(data), into, nil); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Read = %v, want ErrCorrupt", err)
			}
			if _, err := Inspect(ctx, bytes.NewReader(data)); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Inspect = %v, want ErrCorrupt", err)
			}
			for k := range into.Walk(ctx, tidemark.Key{}) {
				if k.Kind != "other" {
					t.Errorf("%s was kept", k)
				}
			}
		})
	}
}

func TestANewerFormatIsNotReadAtAll(t *testing.T) {
	data := made(t)
	for name, change := range map[string]func([]byte){
		"a newer version": func(b []byte) { b[8] = 2 },
		"an unknown flag": func(b []byte) { b[11] = 0x40 },
	} {
		b := bytes.Clone(data)
		change(b)
		binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
		if _, err := Inspect(ctx, bytes.NewReader(b)); !errors.Is(err, tidemark.ErrUnsupported) {
			t.Errorf("%s: Inspect = %v, want ErrUnsupported", name, err)
		}
	}
	for _, b := range []string{"PK\x03\x04 a zip", "hello", `{"kind":"session"}`} {
		if _, err := Inspect(ctx, strings.NewReader(b)); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: Inspect = %v, want ErrInvalid", b, err)
		}
	}
}

// zeros returns a zstd frame that unpacks to n zeros and, without its size,
// does not say so.
func zeros(t testing.TB, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range n >> 20 {
		w.Write(chunk)
	}
	w.Close()
	return b.Bytes()
}

func TestABombIsRefusedWithLittleMemory(t *testing.T) {
	bomb := zeros(t, 1<<30) // as far as a reader goes, any size is the same
	for name, claim := range map[string]int{
		"it says so":           1 << 30,
		"it says less":         100,
		"it says the most":     maxBlockBytes,
		"it says a bit more":   maxBlockBytes + 1,
		"it says four billion": 1<<32 - 1,
	} {
		t.Run(name, func(t *testing.T) {
			data := append(header(0), blockHeader(itemsBlock, claim, bomb)...)
			data = append(data, bomb...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Read(ctx, bytes.NewReader(data), memory.New(), nil)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Read = %v, want ErrCorrupt", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
				t.Errorf("took %d MB", took>>20)
			}
		})
	}
	// A block that only claims to be large takes as much as is there.
	head := binary.LittleEndian.AppendUint32([]byte{itemsBlock}, maxBlockBytes)
	head = binary.LittleEndian.AppendUint32(head, maxPackedBytes)
	data := append(header(0), append(head, 0, 0, 0, 0)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Inspect(ctx, bytes.NewReader(data))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, tidemark.ErrCorrupt) || took > 8<<20 {
		t.Errorf("Inspect = %v, took %d KB", err, took>>10)
	}
}

// FuzzRead reads any bytes, and any items behind right sums, into a store.
func FuzzRead(f *testing.F) {
	k := tidemark.Key{Kind: "session", ID: "7f3a"}
	r := someRecord(k)
	all := []item{
		{kind: linesItem, lines: someLines(k)},
		{kind: recordItem, record: r},
		{kind: goneItem, gone: goneRecord, kept: Kept{Key: k, Mark: markOf(&r)}},
		{kind: keptItem, kept: Kept{Key: k, Length: 2}},
	}
	whole := made(f, all...)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(made(f))
	var plain []byte
	for i := range all {
		plain = appendItem(plain, &all[i])
	}
	f.Add(plain)
	f.Fuzz(func(t *testing.T, data []byte) {
		Read(ctx, bytes.NewReader(data), memory.New(), nil)
		Inspect(ctx, bytes.NewReader(data))
		// The same as the items of a sound stream, so that sums do not keep
		// the fuzzer out.
		var b bytes.Buffer
		p, err := newPacker(&b, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.plain = resummed(data)
		p.finish(&Manifest{})
		p.close()
		into := memory.New()
		Read(ctx, bytes.NewReader(b.Bytes()), into, nil)
		for k := range into.Walk(ctx, tidemark.Key{}) {
			if err := k.Check(); err != nil {
				t.Errorf("kept %v", err)
			}
		}
	})
}

// resummed makes the sums of items right, as far as their lengths are.
func resummed(data []byte) []byte {
	b := bytes.Clone(data)
	for at := 0; at+9 <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at+1:]))
		if size > len(b)-at-9 {
			break
		}
		binary.LittleEndian.PutUint32(b[at+5+size:], crc32.Checksum(b[at:at+5+size], castagnoli))
		at += 9 + size
	}
	return b
}

func TestABlockOfTheLargestItemIsRead(t *testing.T) {
	k := tidemark.Key{Kind: "session", ID: "7f3a"}
	r := someRecord(k)
	r.Body = make([]byte, tidemark.MaxBodyBytes)
	for i := 0; i < len(r.Body); i += 4096 {
		r.Body[i] = byte(rand.IntN(256))
	}
	r.Sum = r.Checksum()
	into := memory.New()
	if _, err := Read(ctx, bytes.NewReader(made(t, item{kind: recordItem, record: r})), into, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := into.Get(ctx, k); err != nil || !bytes.Equal(got.Body, r.Body) {
		t.Errorf("Get = %d bytes, %v", len(got.Body), err)
	}
}

// An archive may come from anybody, and so may a search index in it.
func TestASearchIndexInAnArchiveIsNotBelieved(t *testing.T) {
	into := memory.New()
	a := newAdopter(ctx, into, false)
	for _, k := range []tidemark.Key{{Kind: tidemark.KindSegment, ID: "x"}, {Kind: tidemark.KindIndex, ID: "index"}, {Kind: "lease", ID: "index"}, {Kind: "session", ID: "x"}} {
		l := tidemark.Line{Seq: 1, Kind: "block", At: time.Unix(1, 0).UTC(), Batch: "q83vEjRWeJCrze8S"}
		l.Sum = l.Checksum(k)
		for _, it := range []item{
			{kind: linesItem, lines: tidemark.Append{Log: k, Lines: []tidemark.Line{l}, At: l.At}},
			{kind: recordItem, record: someRecord(k)},
		} {
			if err := a.take(&it); err != nil {
				t.Fatal(err)
			}
		}
		if k.Derived() {
			if err := a.holds(Kept{Key: k, Length: 1}); err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
	}
	if err := a.flush(); err != nil {
		t.Fatal(err)
	}
	var got []tidemark.Key
	for k := range into.Walk(ctx, tidemark.Key{}) {
		got = append(got, k)
	}
	if want := (tidemark.Key{Kind: "session", ID: "x"}); !slices.Contains(got, want) || slices.ContainsFunc(got, tidemark.Key.Derived) {
		t.Errorf("adopted %v, want %s and nothing that is derived", got, want)
	}
}
