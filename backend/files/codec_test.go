package files

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark"
)

var fuzzLog = tidemark.Key{Kind: "session", ID: "7f3a"}

func someLine(seq, micros int64, kind, key, batch string, chain, body []byte) line {
	l := line{part: 1, parts: 1}
	at := time.UnixMicro(micros).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		at = time.UnixMicro(0).UTC()
	}
	l.Line = tidemark.Line{Seq: max(seq, 1), At: at, Kind: kind, Key: key, Batch: batch, Chain: chain, Body: body,
		Position: tidemark.Position{Parent: seq - 1, Depth: seq, Turn: seq / 2}}
	l.batchAt = at
	if seq > 1 && seq%2 == 0 {
		l.part, l.parts, l.batchAt = 2, 2, time.UnixMicro(micros/2).UTC()
		if seq%4 == 0 {
			l.by = "adopter"
		}
		if y := l.batchAt.Year(); y < 1 || y > 9999 {
			l.batchAt = at
		}
	}
	l.Sum = l.Checksum(fuzzLog)
	return l
}

func sameLine(a, b line) bool {
	return cmp.Equal(a.Line, b.Line, cmpopts.EquateEmpty()) && a.batchAt.Equal(b.batchAt) && a.part == b.part && a.parts == b.parts && a.by == b.by
}

// FuzzLineSurvives writes any line and wants it back, by both readers.
func FuzzLineSurvives(f *testing.F) {
	f.Add(int64(1), int64(0), "user", "", "b", []byte(nil), []byte(`{"a":1}`))
	f.Add(int64(2), int64(1), "", "k\"\\\x00ü", "b", []byte{0, 1}, []byte("\xff\n"))
	f.Add(int64(1<<60), int64(-1), "\xff", "\xfe", "b", []byte(nil), []byte(" {} "))
	f.Fuzz(func(t *testing.T, seq, micros int64, kind, key, batch string, chain, body []byte) {
		if tidemark.CheckID("b"+batch) != nil || len(kind) > 32 || len(key) > 128 || len(chain) > 64 {
			return
		}
		want := someLine(seq, micros, kind, key, batch, chain, body)
		sum, _ := want.sums(fuzzLog)
		if sum != want.Sum {
			t.Fatalf("sums %08x, Checksum %08x", sum, want.Sum)
		}
		b := appendLine(nil, fuzzLog, &want)
		if bytes.Count(b, []byte{'\n'}) != 1 || !json.Valid(b) {
			t.Fatalf("not one line of JSON: %q", b)
		}
		b = b[:len(b)-1]
		var got, slow line
		if err := parseLine(b, fuzzLog, &got); err != nil || !sameLine(got, want) {
			t.Fatalf("%q came back as %+v, %v", b, got, err)
		}
		if err := unmarshalLine(b, &slow); err != nil || !sameLine(slow, want) {
			t.Fatalf("%q is %+v, %v for encoding/json", b, slow, err)
		}
	})
}

// FuzzLine reads any bytes: what the fast reader takes, encoding/json takes
// for the same.
func FuzzLine(f *testing.F) {
	for _, seq := range []int64{1, 2, 4, 77} {
		l := someLine(seq, 1_700_000_000_000_000+seq, "user", "k", "batch", []byte("c"), []byte(`{"x":[1,"y"]}`))
		b := appendLine(nil, fuzzLog, &l)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte(`{"seq":1}`))
	f.Add([]byte(`{"seq":1,"at":"0000-01-01T00:00:00.000000Z","kind":"","batch":"","sum":"0000000000000000","body":0,"":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fast, slow line
		parseLine(b, fuzzLog, &slow)
		salvage(row{bytes: b}, fuzzLog)
		// What follows a body counts as part of it, and its sum tells that it is not.
		scanned := scanLine(b, &fast)
		one := bytes.Count(b, []byte(`"body":`)) <= 1 && (json.Valid(fast.Body) || bytes.Contains(b, []byte(`,"data":"`)))
		if scanned && json.Valid(b) && one {
			if err := unmarshalLine(b, &slow); err != nil {
				t.Fatalf("%q: only the fast reader takes it: %v", b, err)
			}
			if !sameLine(fast, slow) {
				t.Fatalf("%q\nfast %+v\nslow %+v", b, fast, slow)
			}
		}
	})
}

func FuzzRecord(f *testing.F) {
	r := tidemark.Record{Key: fuzzLog, Version: 3, Group: "g", State: "idle", Due: time.Unix(1, 0).UTC(), UpdatedAt: time.Unix(2, 0).UTC(), Batch: "b", Body: []byte(`{"x":1}`)}
	r.Sum = r.Checksum()
	f.Add(appendRecord(nil, &r), "g", []byte("{}"))
	f.Add([]byte("{\n"), "\xff", []byte(" "))
	f.Fuzz(func(t *testing.T, b []byte, group string, body []byte) {
		parseRecord(b, fuzzLog)
		if len(group) > tidemark.MaxIDBytes {
			return
		}
		r.Group, r.Body = group, body
		r.Sum = r.Checksum()
		file := appendRecord(nil, &r)
		got, sound, err := parseRecord(file, fuzzLog)
		if err != nil || !sound || !cmp.Equal(got, r, cmpopts.EquateEmpty()) {
			t.Fatalf("%q came back as %+v, %t, %v", file, got, sound, err)
		}
		if !json.Valid(file) {
			t.Fatalf("%q is not JSON", file)
		}
		if len(file) > 0 && len(b) > 0 { // one changed byte is never another record
			file[len(b)%len(file)] ^= b[0] | 1
			if again, _, err := parseRecord(file, fuzzLog); err == nil && !cmp.Equal(again, r, cmpopts.EquateEmpty()) {
				t.Fatalf("%q passes as %+v", file, again)
			}
		}
	})
}

func FuzzHead(f *testing.F) {
	h := head{Head: tidemark.Head{Length: 3, UpdatedAt: time.Unix(2, 0).UTC(), Position: tidemark.Position{Parent: 2, Depth: 3}, Chain: []byte("c")}, end: 400, life: "ab"}
	f.Add(appendHead(nil, fuzzLog, &h))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h head
		if parseHead(b, fuzzLog, &h) && !bytes.Equal(appendHead(nil, fuzzLog, &h), b) {
			t.Fatalf("%q is a head that is never written", b)
		}
	})
}

func FuzzIntent(f *testing.F) {
	in := &intent{Batch: "b", At: time.Unix(2, 0).UTC(), Drops: []tidemark.Key{fuzzLog},
		Puts: []intentPut{{fuzzLog, 1, "{}"}}, Appends: []intentAppend{{fuzzLog, 1, 1, "x\n"}}}
	b, err := in.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"sum":"00000000"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parseIntent(b)
		if err != nil {
			return
		}
		again, err := in.encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseIntent(again); err != nil || !cmp.Equal(in, back, cmpopts.EquateEmpty()) {
			t.Fatalf("%q came back as %+v, %v", b, back, err)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "A", "con", "a%41", "%", "nul.x", "%63on"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := idOf(s); ok && fileName(id) != s {
			t.Fatalf("%q is the name of %q, whose name is %q", s, id, fileName(id))
		}
		if tidemark.CheckID(s) == nil {
			if id, ok := idOf(fileName(s)); !ok || id != s {
				t.Fatalf("%q has the name %q, which is that of %q", s, fileName(s), id)
			}
		}
	})
}

func FuzzList(f *testing.F) {
	t := &table{rows: []*listed{
		{id: "a", solid: true, alone: true, record: stamp{1, 2, 3}, group: "g", state: "idle", due: noTime, touched: 7},
		{id: "b", solid: true, hasLog: true, record: stamp{1, 2, 3}, log: stamp{4, 5, 6}, due: 8, touched: 7},
		{id: "c", damage: errSum},
	}}
	t.folders[0].ID, t.folders[2].Changed = 5, 6
	b := appendList(nil, t)
	f.Add(b[listHeader:], uint32(3))
	f.Fuzz(func(t *testing.T, body []byte, rows uint32) {
		parseList(body)
		file := append([]byte(listMagic), make([]byte, listHeader-len(listMagic))...)
		file = sealList(append(file, body...), int(rows))
		got := parseList(file)
		if got == nil {
			return
		}
		if again := appendList(nil, got); !cmp.Equal(parseList(again), got, cmp.AllowUnexported(table{}, listed{}, stamp{})) {
			t.Fatalf("%q came back as %q", file, again)
		}
		for _, l := range got.rows {
			if tidemark.CheckID(l.id) != nil {
				t.Fatalf("the list names %q", l.id)
			}
		}
	})
}

// FuzzJournal wants that an entry comes back as it was written, and that anything may
// stand where one could be.
func FuzzJournal(f *testing.F) {
	e := entry{number: 7, Batch: "b", Puts: []entryPut{{fuzzLog, 2, []byte("{}")}}, Deletes: []tidemark.Key{fuzzLog}, Appends: []entryAppend{{fuzzLog, 5, 3, []byte("{}\n")}}}
	b, err := appendEntry(nil, "8f14e45fceea167a", 7, &e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b[:len(b):len(b)], b...))
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range parseJournal(b) {
			again, err := appendEntry(nil, "x", e.number, e)
			if err != nil {
				t.Fatal(err)
			}
			got := parseJournal(again)
			if len(got) != 1 {
				t.Fatalf("%q is not read again", again)
			}
			if d := cmp.Diff(e, got[0], cmp.AllowUnexported(entry{}, entryPut{}, entryAppend{}), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		}
	})
}
