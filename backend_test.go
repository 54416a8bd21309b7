package tidemark

import (
	"encoding/hex"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)

func goodRecord() Record {
	r := Record{Key: Key{"session", "a"}, Version: 1, Group: "g", State: "open", Due: noon, Body: []byte(`{}`)}
	r.Sum = r.Checksum()
	return r
}

var logKey = Key{"session", "a"}

func goodLine(seq int64) Line {
	l := Line{Seq: seq, Kind: "user", Key: "k" + string(rune('0'+seq)), At: noon, Position: Position{seq - 1, seq, 1, 0}, Chain: []byte("mac"), Body: []byte("x")}
	l.Sum = l.Checksum(logKey)
	return l
}

func goodBatch() Batch {
	return Batch{
		ID: NewBatchID(), At: noon,
		Require: []Precondition{{Key{"lease", "a"}, 3}, {Key{"name", "x"}, 0}},
		Puts:    []Record{goodRecord()},
		Deletes: []Precondition{{Key{"name", "y"}, 1}},
		Appends: []Append{{Log: logKey, Lines: []Line{goodLine(4), goodLine(5)}}},
		Drops:   []Key{{"notes", "b"}},
	}
}

func TestABatchThatKeepsTheRulesPasses(t *testing.T) {
	if err := goodBatch().Check(); err != nil {
		t.Error(err)
	}
	if err := (Batch{ID: NewBatchID(), At: noon}).Check(); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	same := goodBatch()
	same.Require = append(same.Require, Precondition{same.Puts[0].Key, 0}, same.Require[0])
	if err := same.Check(); err != nil {
		t.Errorf("what is put may be required too, and twice: %v", err)
	}
}

func TestABatchOfOneKindOfChangeMayNameAKeyOnce(t *testing.T) {
	trim := Trim{Log: logKey, Length: 9, Upto: 2}
	adopted := goodLine(4)
	adopted.Batch = NewBatchID()
	lines := Append{Log: logKey, Lines: []Line{adopted}}
	for name, b := range map[string]Batch{
		"two puts":          {Puts: []Record{goodRecord(), goodRecord()}},
		"a put, a delete":   {Puts: []Record{goodRecord()}, Deletes: []Precondition{{goodRecord().Key, 1}}},
		"two appends":       {Appends: []Append{lines, lines}},
		"two drops":         {Drops: []Key{logKey, logKey}},
		"an append, a trim": {Appends: []Append{lines}, Trims: []Trim{trim}},
		"a trim, a fill":    {Trims: []Trim{trim}, Fills: []Append{lines}},
		"two fills":         {Fills: []Append{lines, lines}},
	} {
		b.ID, b.At = NewBatchID(), noon
		if err := b.Check(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "named twice") {
			t.Errorf("%s of one key: Check = %v, want that it is named twice", name, err)
		}
	}
	last := goodBatch()
	for _, at := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)} {
		if last.At = at; last.Check() != nil {
			t.Errorf("at %v: %v", at, last.Check())
		}
	}
}

func TestABatchThatBreaksARuleIsInvalid(t *testing.T) {
	put := func(change func(*Record)) func(*Batch) {
		return func(b *Batch) {
			change(&b.Puts[0])
			b.Puts[0].Sum = b.Puts[0].Checksum()
		}
	}
	line := func(change func(*Line)) func(*Batch) {
		return func(b *Batch) {
			l := &b.Appends[0].Lines[1]
			change(l)
			l.Sum = l.Checksum(logKey)
		}
	}
	long := strings.Repeat("x", MaxIDBytes+1)
	for name, change := range map[string]func(*Batch){
		"id with a separator":           func(b *Batch) { b.ID = "a/b" },
		"id too long":                   func(b *Batch) { b.ID = long },
		"time too fine":                 func(b *Batch) { b.At = noon.Add(1) },
		"time elsewhere":                func(b *Batch) { b.At = noon.In(time.FixedZone("x", 3600)) },
		"time of year 10000":            func(b *Batch) { b.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"time of year 0":                func(b *Batch) { b.At = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) },
		"required key":                  func(b *Batch) { b.Require[0].ID = "../x" },
		"required version":              func(b *Batch) { b.Require[0].Version = -1 },
		"put twice":                     func(b *Batch) { b.Puts = append(b.Puts, b.Puts[0]) },
		"put and deleted":               func(b *Batch) { b.Deletes[0].Key = b.Puts[0].Key },
		"deleted at version 0":          func(b *Batch) { b.Deletes[0].Version = 0 },
		"deleted key":                   func(b *Batch) { b.Deletes[0].Kind = "A" },
		"put at version 0":              put(func(r *Record) { r.Version = 0 }),
		"put key":                       put(func(r *Record) { r.ID = "" }),
		"put group":                     put(func(r *Record) { r.Group = long }),
		"put state":                     put(func(r *Record) { r.State = long }),
		"put due too fine":              put(func(r *Record) { r.Due = noon.Add(1) }),
		"put body too large":            put(func(r *Record) { r.Body = make([]byte, MaxBodyBytes+1) }),
		"put sum":                       func(b *Batch) { b.Puts[0].Sum++ },
		"append of nothing":             func(b *Batch) { b.Appends[0].Lines = nil },
		"append to a bad key":           func(b *Batch) { b.Appends[0].Log.ID = ".a" },
		"appended twice":                func(b *Batch) { b.Appends = append(b.Appends, b.Appends[0]) },
		"appended and dropped":          func(b *Batch) { b.Drops[0] = logKey },
		"dropped key":                   func(b *Batch) { b.Drops[0].ID = "" },
		"line with a gap":               line(func(l *Line) { l.Seq = 6 }),
		"line with the same seq":        line(func(l *Line) { l.Seq = 4 }),
		"line kind too long":            line(func(l *Line) { l.Kind = strings.Repeat("k", 33) }),
		"line key too long":             line(func(l *Line) { l.Key = long }),
		"line key twice":                line(func(l *Line) { l.Key = "k4" }),
		"line chain too long":           line(func(l *Line) { l.Chain = make([]byte, 65) }),
		"line body too large":           line(func(l *Line) { l.Body = make([]byte, MaxBodyBytes+1) }),
		"line time too fine":            line(func(l *Line) { l.At = noon.Add(1) }),
		"line sum":                      func(b *Batch) { b.Appends[0].Lines[0].Sum++ },
		"line with the sum of a log":    func(b *Batch) { b.Appends[0].Log = Key{"session", "b"} },
		"first line at seq 0":           func(b *Batch) { l := goodLine(0); b.Appends[0].Lines = []Line{l} },
		"first line at a negative seq":  func(b *Batch) { l := goodLine(-1); b.Appends[0].Lines = []Line{l} },
		"lines that begin in the past ": func(b *Batch) { b.Appends[0].Lines = []Line{goodLine(2), goodLine(1)} },
	} {
		b := goodBatch()
		change(&b)
		if err := b.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Check = %v, want ErrInvalid", name, err)
		}
	}
}

func TestASpanIsCutToTheLog(t *testing.T) {
	for _, c := range []struct {
		span        Span
		length      int64
		first, last int64
	}{
		{Span{}, 10, 1, 10},
		{Span{}, 0, 1, 0},
		{Span{From: 3}, 10, 3, 10},
		{Span{To: 4}, 10, 1, 4},
		{Span{From: 3, To: 4}, 10, 3, 4},
		{Span{From: 3, To: 40}, 10, 3, 10},
		{Span{Newest: 3}, 10, 8, 10},
		{Span{Newest: 3, Backwards: true}, 10, 8, 10},
		{Span{Newest: 30}, 10, 1, 10},
		{Span{To: 5, Newest: 2}, 10, 4, 5},
		{Span{From: 5, To: 6, Newest: 9}, 10, 5, 6},
		{Span{From: -5}, 10, 1, 10},
	} {
		if first, last := c.span.Of(c.length); first != c.first || last != c.last {
			t.Errorf("%+v.Of(%d) = %d, %d, want %d, %d", c.span, c.length, first, last, c.first, c.last)
		}
	}
	for _, s := range []Span{{From: 11}, {From: 5, To: 4}, {To: -1}, {From: 20, Newest: 3}} {
		if first, last := s.Of(10); last >= first {
			t.Errorf("%+v.Of(10) = %d, %d, want nothing", s, first, last)
		}
	}
}

func TestASpanNeverLeavesTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-20, 20)
		s := Span{From: n.Draw(t, "from"), To: n.Draw(t, "to"), Newest: rapid.IntRange(-3, 20).Draw(t, "newest")}
		length := rapid.Int64Range(0, 15).Draw(t, "length")
		first, last := s.Of(length)
		if first < 1 || last > length {
			t.Fatalf("%+v.Of(%d) = %d, %d", s, length, first, last)
		}
		if s.Newest > 0 && last-first+1 > int64(s.Newest) {
			t.Fatalf("%+v.Of(%d) = %d, %d: more than the newest %d", s, length, first, last, s.Newest)
		}
	})
}

func TestAQueryIncludesWhatItAsksFor(t *testing.T) {
	r := Record{Key: Key{"job", "abc"}, Group: "g", State: "s", Due: noon, UpdatedAt: noon}
	never := r
	never.Due = time.Time{}
	for _, c := range []struct {
		name string
		q    Query
		r    Record
		want bool
	}{
		{"kind", Query{Kind: "job"}, r, true},
		{"another kind", Query{Kind: "session"}, r, false},
		{"prefix", Query{Kind: "job", Prefix: "ab"}, r, true},
		{"the whole id", Query{Kind: "job", Prefix: "abc"}, r, true},
		{"another prefix", Query{Kind: "job", Prefix: "b"}, r, false},
		{"a longer prefix", Query{Kind: "job", Prefix: "abcd"}, r, false},
		{"group", Query{Kind: "job", Group: "g"}, r, true},
		{"another group", Query{Kind: "job", Group: "h"}, r, false},
		{"state", Query{Kind: "job", State: "s"}, r, true},
		{"another state", Query{Kind: "job", State: "t"}, r, false},
		{"due at that instant", Query{Kind: "job", DueBy: noon}, r, true},
		{"due later", Query{Kind: "job", DueBy: noon.Add(-time.Second)}, r, false},
		{"never due", Query{Kind: "job", DueBy: noon}, never, false},
		{"by due, never due", Query{Kind: "job", Order: ByDue}, never, false},
		{"by due", Query{Kind: "job", Order: ByDue}, r, true},
		{"after itself", Query{Kind: "job", After: &r}, r, false},
		{"by id, after a lower one", Query{Kind: "job", Order: ByID, After: &Record{Key: Key{"job", "abb"}}}, r, true},
		{"by id, after a higher one", Query{Kind: "job", Order: ByID, After: &Record{Key: Key{"job", "abd"}}}, r, false},
		{"newest, after a newer one", Query{Kind: "job", After: &Record{Key: Key{"job", "x"}, UpdatedAt: noon.Add(1e9)}}, r, true},
		{"newest, after an older one", Query{Kind: "job", After: &Record{Key: Key{"job", "x"}, UpdatedAt: noon.Add(-1e9)}}, r, false},
	} {
		if got := c.q.Includes(c.r); got != c.want {
			t.Errorf("%s: Includes = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRecordsAreOrderedAsAsked(t *testing.T) {
	record := func(id string, updated, grown, due int) Record {
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		return Record{Key: Key{"job", id}, UpdatedAt: at(updated), Head: Head{UpdatedAt: at(grown)}, Due: at(due)}
	}
	records := []Record{record("d", 1, 0, 5), record("b", 2, 9, 7), record("c", 2, 1, 5), record("a", 2, 0, 6)}
	for order, want := range map[Order]string{Newest: "bacd", ByID: "abcd", ByDue: "cdab"} {
		q := Query{Kind: "job", Order: order}
		sorted := slices.SortedFunc(slices.Values(records), q.Compare)
		got := ""
		for _, r := range sorted {
			got += r.ID
		}
		if got != want {
			t.Errorf("order %d gives %s, want %s", order, got, want)
		}
	}
}

func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Query{Order: rapid.SampledFrom([]Order{Newest, ByID, ByDue}).Draw(t, "order")}
		draw := func(name string) Record {
			n := rapid.Int64Range(0, 2)
			at := func(what string) time.Time { return time.Unix(n.Draw(t, what), 0).UTC() }
			return Record{Key: Key{"k", rapid.SampledFrom([]string{"a", "b"}).Draw(t, name)}, UpdatedAt: at("updated"), Due: at("due"), Head: Head{UpdatedAt: at("grown")}}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		if q.Compare(a, b) != -q.Compare(b, a) {
			t.Fatalf("%v and %v are not ordered one way", a, b)
		}
		if q.Compare(a, b) <= 0 && q.Compare(b, c) <= 0 && q.Compare(a, c) > 0 {
			t.Fatalf("%v, %v, %v go in a circle", a, b, c)
		}
	})
}

// The layout that sums are made over is part of the stored formats: these are
// values that stores in the field hold.
func TestChecksumsAreTheseValues(t *testing.T) {
	le := func(n uint64) string {
		b := make([]byte, 8)
		for i := range b {
			b[i] = byte(n >> (8 * i))
		}
		return string(b)
	}
	l := Line{Seq: 7, Kind: "user", Key: "key", At: noon, Position: Position{Parent: 6, Depth: 5, Nodes: 4, Turn: 3}, Chain: []byte{1, 2}, Body: []byte("body")}
	laid := le(7) + le(uint64(noon.UnixMicro())) + le(6) + le(5) + le(4) + le(3) +
		"\x07\x00session" + "\x01\x00a" + "\x04\x00user" + "\x03\x00key" + "\x02\x00\x01\x02" + "body"
	if got, want := l.Checksum(logKey), crc32.Checksum([]byte(laid), crc32.MakeTable(crc32.Castagnoli)); got != want {
		t.Errorf("line: %08x, want the CRC-32C %08x of %s", got, want, hex.EncodeToString([]byte(laid)))
	}
	r := Record{Key: logKey, Body: []byte("123456789")}
	for name, c := range map[string]struct{ got, want uint32 }{
		"line":         {l.Checksum(logKey), 0xaf2aa03a},
		"empty line":   {Line{At: time.Unix(0, 0)}.Checksum(Key{}), 0x69d3f59b},
		"record":       {r.Checksum(), 0x6b348259},
		"empty record": {Record{}.Checksum(), 0x48674bc7},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#08x, want %#08x", name, c.got, c.want)
		}
	}
}

func TestEveryCoveredFieldChangesTheSum(t *testing.T) {
	line := goodLine(4)
	sums := map[uint32]string{line.Checksum(logKey): "nothing"}
	seen := func(what string, sum uint32) {
		if before, ok := sums[sum]; ok {
			t.Errorf("changing %s gives the same sum as changing %s", what, before)
		}
		sums[sum] = what
	}
	for what, change := range map[string]func(*Line){
		"seq": func(l *Line) { l.Seq++ }, "kind": func(l *Line) { l.Kind = "tool" }, "key": func(l *Line) { l.Key = "" },
		"at": func(l *Line) { l.At = l.At.Add(time.Microsecond) }, "parent": func(l *Line) { l.Position.Parent++ }, "depth": func(l *Line) { l.Position.Depth++ },
		"nodes": func(l *Line) { l.Position.Nodes++ }, "turn": func(l *Line) { l.Position.Turn++ }, "chain": func(l *Line) { l.Chain = nil },
		"body": func(l *Line) { l.Body = []byte("y") }, "the border of kind and key": func(l *Line) { l.Kind, l.Key = l.Kind+"k", l.Key[1:] },
		"the border of chain and body": func(l *Line) { l.Chain, l.Body = []byte("macx"), nil },
	} {
		l := line
		change(&l)
		seen(what, l.Checksum(logKey))
	}
	seen("the log's kind", line.Checksum(Key{"notes", "a"}))
	seen("the log's id", line.Checksum(Key{"session", "b"}))
	seen("the border of the log's key", line.Checksum(Key{"sessio", "na"}))

	free := line
	free.Batch = "batch"
	if free.Checksum(logKey) != line.Checksum(logKey) {
		t.Error("words and batch change the sum of a line")
	}

	record := goodRecord()
	clear(sums)
	seen("nothing", record.Checksum())
	for what, change := range map[string]func(*Record){
		"kind": func(r *Record) { r.Kind = "job" }, "id": func(r *Record) { r.ID = "b" }, "body": func(r *Record) { r.Body = nil },
		"the border of kind and id": func(r *Record) { r.Kind, r.ID = "sessio", "na" },
	} {
		r := record
		change(&r)
		seen("a record's "+what, r.Checksum())
	}
}

func TestARecordWasTouchedWhenItOrItsLogLastChanged(t *testing.T) {
	later := noon.Add(time.Second)
	for _, c := range []struct{ updated, grown, want time.Time }{
		{noon, later, later}, {later, noon, later}, {noon, time.Time{}, noon}, {time.Time{}, noon, noon},
	} {
		if got := (Record{UpdatedAt: c.updated, Head: Head{UpdatedAt: c.grown}}).Touched(); !got.Equal(c.want) {
			t.Errorf("Touched = %v, want %v", got, c.want)
		}
	}
}
