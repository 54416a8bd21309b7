package seal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

var (
	logOne, logTwo = key("session", one), key("session", two)
	logs           = []tidemark.Key{logOne, logTwo}
)

// talk fills a store with two sessions and something of its own.
func talk(t testing.TB, b tidemark.Backend) {
	t.Helper()
	for _, log := range logs {
		keep(t, b, put(log, 1, `{"title":"of `+log.ID[:4]+`"}`))
		batch := says(log, 1, "hello", "how are you", "well", "good")
		batch.Appends[0].Lines[1].Key = "key of two"
		l := &batch.Appends[0].Lines[1]
		l.Sum = l.Checksum(log)
		keep(t, b, batch)
	}
	keep(t, b, put(key("lease", one), 1, `{"holder":"me"}`))
	keep(t, b, put(key("note", "wide"), 1, `{"of":"the store"}`))
}

// TestWhatIsNotAsItWasSealedIsDamage changes what lies underneath, with all
// checksums made right again, and wants an error at the changed place and
// everything else as it was.
func TestWhatIsNotAsItWasSealedIsDamage(t *testing.T) {
	sealed, inner, unlock := made(t)
	talk(t, sealed)
	whole := readAll(t, sealed, logs...)
	line := func(n int) string { return logOne.String() + "@" + string(rune('0'+n)) }
	for _, c := range []struct {
		name   string
		change func(c content)
		broken []string // what must be reported
		says   string
	}{
		{"a record in plain text", func(c content) { c.record(t, logOne).Body = []byte(`{"title":"x"}`) }, []string{logOne.String()}, "not sealed"},
		{"an empty record", func(c content) { c.record(t, logOne).Body = nil }, []string{logOne.String()}, "not sealed"},
		{"a cut record", func(c content) { r := c.record(t, logOne); r.Body = r.Body[:30] }, []string{logOne.String()}, "too short"},
		{"a record cut at its end", func(c content) { r := c.record(t, logOne); r.Body = r.Body[:len(r.Body)-1] }, []string{logOne.String()}, "does not open"},
		{"records swapped between sessions", func(c content) {
			a, b := c.record(t, logOne), c.record(t, logTwo)
			a.Body, b.Body = b.Body, a.Body
		}, []string{logOne.String(), logTwo.String()}, "does not open"},
		{"records swapped between kinds", func(c content) {
			a, b := c.record(t, logOne), c.record(t, key("lease", one))
			a.Body, b.Body = b.Body, a.Body
		}, []string{logOne.String(), "lease/" + one}, "does not open"},
		{"a line in plain text", func(c content) { c.log(t, logOne).Lines[2].Body = []byte(`{"blocks":[]}`) }, []string{line(3)}, "not sealed"},
		{"a line without its chain", func(c content) { c.log(t, logOne).Lines[1].Chain = nil }, []string{line(2)}, "chain"},
		{"a cut line", func(c content) { l := &c.log(t, logOne).Lines[2]; l.Body = l.Body[:20] }, []string{line(3)}, "too short"},
		{"lines swapped", func(c content) {
			l := c.log(t, logOne).Lines
			l[1].Body, l[2].Body = l[2].Body, l[1].Body
		}, []string{line(2), line(3)}, "does not open"},
		{"lines swapped with all they have", func(c content) {
			l := c.log(t, logOne).Lines
			l[1], l[2] = l[2], l[1]
			l[1].Seq, l[2].Seq = 2, 3
		}, []string{line(2), line(3)}, "does not open"},
		{"a line of another session", func(c content) { c.log(t, logOne).Lines[3] = c.log(t, logTwo).Lines[3] }, []string{line(4)}, "does not open"},
		{"another kind", func(c content) { c.log(t, logOne).Lines[2].Kind = "assistant" }, []string{line(3)}, "does not open"},
		{"another key", func(c content) { c.log(t, logOne).Lines[1].Key = "other" }, []string{line(2)}, "does not open"},
		{"another time", func(c content) { l := &c.log(t, logOne).Lines[2]; l.At = l.At.Add(time.Second) }, []string{line(3)}, "does not open"},
		{"another place", func(c content) { c.log(t, logOne).Lines[2].Position.Parent = 1 }, []string{line(3)}, "does not open"},
		{"a middle line dropped and the rest renumbered", func(c content) {
			a := c.log(t, logOne)
			a.Lines = slices.Delete(a.Lines, 1, 2)
			for i := range a.Lines {
				a.Lines[i].Seq = int64(i + 1)
			}
		}, []string{line(2), line(3)}, "does not open"},
		{"the first line dropped", func(c content) {
			a := c.log(t, logOne)
			a.Lines = a.Lines[1:]
			for i := range a.Lines {
				a.Lines[i].Seq = int64(i + 1)
			}
		}, []string{line(1), line(2), line(3)}, "does not open"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			changed := contentOf(t, inner)
			c.change(changed)
			got := readAll(t, reopened(t, changed.store(t), unlock), logs...)
			for _, name := range c.broken {
				if !strings.HasPrefix(got[name], "!") || !strings.Contains(got[name], c.says) {
					t.Errorf("%s reads as %q, want damage that says %q", name, got[name], c.says)
				}
			}
			for name, body := range got {
				if !slices.Contains(c.broken, name) && body != whole[name] {
					t.Errorf("%s reads as %q, want %q", name, body, whole[name])
				}
			}
		})
	}
}

// TestALineOfAnOlderLifeOfTheLogIsNoticed puts a line where another one of the
// same number stood once: it opens, but its neighbours do not know it.
func TestALineOfAnOlderLifeOfTheLogIsNoticed(t *testing.T) {
	sealed, inner, unlock := made(t)
	keep(t, sealed, says(logOne, 1, "a", "b", "c", "d"))
	old := contentOf(t, inner)
	keep(t, sealed, tidemark.Batch{Drops: []tidemark.Key{logOne}})
	keep(t, sealed, says(logOne, 1, "A", "B", "C", "D"))
	mixed := contentOf(t, inner)
	mixed.log(t, logOne).Lines[1] = old.log(t, logOne).Lines[1]
	b := reopened(t, mixed.store(t), unlock)
	for _, c := range []struct {
		span tidemark.Span
		want string
	}{
		{tidemark.Span{}, "A ! ! D"}, // 2 is behind another 1, 3 behind another 2
		{tidemark.Span{Backwards: true}, "D C ! !"},
		{tidemark.Span{From: 2, To: 2}, "b"}, // alone, nothing speaks against it
	} {
		var got []string
		for l, err := range b.Lines(ctx, logOne, c.span) {
			if err != nil {
				l.Body = []byte("!")
			}
			got = append(got, string(l.Body))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: %s, want %s", c.span, s, c.want)
		}
	}
}

// TestEveryChangedByteIsNoticedOrHarmless changes every byte of everything
// underneath, with all checksums made right again. Nothing may read as
// something else than what was written, and nothing of another session may be
// lost.
func TestEveryChangedByteIsNoticedOrHarmless(t *testing.T) {
	sealed, inner, unlock := made(t)
	talk(t, sealed)
	whole := readAll(t, sealed, logs...)
	changed := contentOf(t, inner)
	noticed, harmless := 0, 0
	try := func(name string, field []byte, hurts func(string) bool) {
		for i := range field {
			for _, bit := range []byte{1, 0x20, 0x80} {
				field[i] ^= bit
				b, err := seal.Open(ctx, changed.store(t), unlock)
				switch {
				case err == nil:
					got := readAll(t, b, logs...)
					for item, body := range whole {
						switch {
						case got[item] == body:
						case strings.HasPrefix(got[item], "!") && hurts(item):
							noticed++
						default:
							t.Fatalf("byte %d of %s: %s reads as %q, want %q", i, name, item, got[item], body)
						}
					}
					if cmp.Equal(got, whole) {
						harmless++
					}
				case !hurts("the keyring"),
					!errors.Is(err, tidemark.ErrCorrupt) && !errors.Is(err, tidemark.ErrSealed) && !errors.Is(err, tidemark.ErrUnsupported):
					t.Fatalf("byte %d of %s: Open = %v", i, name, err)
				default:
					noticed++
				}
				field[i] ^= bit
			}
		}
	}
	for i := range changed.records {
		r := &changed.records[i]
		try(r.Key.String(), r.Body, func(item string) bool {
			switch r.Kind {
			case "keyring":
				return true
			case "datakey":
				return strings.Contains(item, r.ID) || r.ID == "store" && item == "note/wide"
			}
			return item == r.Key.String()
		})
	}
	for _, a := range changed.logs {
		for i := range a.Lines {
			l := &a.Lines[i]
			hurts := func(item string) bool { return strings.HasPrefix(item, a.Log.String()+"@") }
			try(a.Log.String()+" body", l.Body, hurts)
			try(a.Log.String()+" chain", l.Chain, hurts)
		}
	}
	if noticed == 0 || harmless > noticed/50 {
		t.Errorf("%d changes noticed, %d harmless", noticed, harmless)
	}
}

// TestACutTailIsDamage cuts the last line off a log whose head still knows it.
func TestACutTailIsDamage(t *testing.T) {
	dir := t.TempDir()
	open := func() *files.Backend {
		return must[*files.Backend](t)(files.Open(ctx, dir, &files.Options{Create: true}))
	}
	slot, unlock := fileKey(t)
	b := must[*seal.Backend](t)(seal.Create(ctx, open(), slot))
	talk(t, b)
	b.Close()
	name := filepath.Join(dir, "logs", "session", one+".ndjson")
	text := must[[]byte](t)(os.ReadFile(name))
	cut := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	if err := os.WriteFile(name, text[:cut], 0o600); err != nil {
		t.Fatal(err)
	}
	b = must[*seal.Backend](t)(seal.Open(ctx, open(), unlock))
	defer b.Close()
	if _, err := b.Get(ctx, logOne); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	var last error
	n := 0
	for _, err := range b.Lines(ctx, logOne) {
		last = err
		n++
	}
	if n != 4 || !errors.Is(last, tidemark.ErrCorrupt) {
		t.Errorf("%d lines, the last with %v; want 4 and ErrCorrupt", n, last)
	}
	if err := commit(b, says(logOne, 4, "again")); err == nil {
		t.Error("a log that lost its tail took a line")
	}
}

// headless says of every log that its head stands elsewhere.
type headless struct{ *memory.Backend }

func TestAHeadThatDoesNotAgreeWithItsLogIsFoundByACheck(t *testing.T) {
	sealed, inner, unlock := made(t)
	talk(t, sealed)
	for err := range sealed.Check(ctx) {
		t.Errorf("Check of a sound store: %v", err)
	}
	lying := must[*seal.Backend](t)(seal.Open(ctx, headless{inner.Again()}, unlock))
	var found []string
	for err := range lying.Check(ctx) {
		found = append(found, err.Error())
	}
	if len(found) != 2 || !strings.Contains(found[0], "head") {
		t.Errorf("Check found %q, want two heads", found)
	}
}

func (h headless) Get(c ctxT, k tidemark.Key) (tidemark.Record, error) {
	r, err := h.Backend.Get(c, k)
	if r.Head.Length > 0 {
		r.Head.Position.Depth++
	}
	return r, err
}

func TestALogInPlainTextUnderneathIsDamage(t *testing.T) {
	sealed, inner, _ := made(t)
	talk(t, sealed)
	plain := key("session", "33333333-3333-4333-8333-333333333333")
	keep(t, inner, says(plain, 1, "injected"))
	keep(t, inner, put(plain, 1, `{"title":"injected"}`))
	if _, err := sealed.Get(ctx, plain); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	for _, err := range sealed.Lines(ctx, plain) {
		if !errors.Is(err, tidemark.ErrCorrupt) || !strings.Contains(err.Error(), "data key") {
			t.Errorf("Lines = %v, want ErrCorrupt that names the data key", err)
		}
	}
	if err := commit(sealed, says(plain, 2, "more")); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("an append behind plain text = %v, want ErrCorrupt", err)
	}
	if err := commit(sealed, put(plain, 2, "{}")); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("a put over plain text = %v, want ErrCorrupt", err)
	}
	n, bad := 0, 0
	for r, err := range sealed.List(ctx, tidemark.Query{Kind: "session"}) {
		n++
		if err != nil {
			bad++
			if r.Key != plain || r.Body != nil {
				t.Errorf("damage with %+v", r)
			}
		}
	}
	if n != 3 || bad != 1 {
		t.Errorf("%d sessions of which %d damaged, want 3 and 1", n, bad)
	}
}

func TestAMissingDataKeyHurtsItsSessionAlone(t *testing.T) {
	sealed, inner, unlock := made(t)
	talk(t, sealed)
	keep(t, inner, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("datakey", one), Version: 1}}})
	got := readAll(t, reopened(t, inner, unlock), logs...)
	for item, body := range got {
		if lost := strings.Contains(item, one); lost != strings.HasPrefix(body, "!") || lost && !strings.Contains(body, "missing") {
			t.Errorf("%s reads as %q", item, body)
		}
	}
}

func TestTheKeysOfTheRoomAreHidden(t *testing.T) {
	sealed, _, _ := made(t)
	talk(t, sealed)
	own := []tidemark.Key{key("keyring", "keyring"), key("datakey", one)}
	for _, k := range own {
		if _, err := sealed.Get(ctx, k); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Get(%s) = %v, want ErrNotFound", k, err)
		}
		for r := range sealed.List(ctx, tidemark.Query{Kind: k.Kind}) {
			t.Errorf("List yields %s", r.Key)
		}
		for what, batch := range map[string]tidemark.Batch{
			"put":     put(k, 2, "{}"),
			"delete":  {Deletes: []tidemark.Precondition{{Key: k, Version: 1}}},
			"append":  says(k, 1, "x"),
			"drop":    {Drops: []tidemark.Key{k}},
			"require": {Require: []tidemark.Precondition{{Key: k, Version: 1}}},
		} {
			if err := commit(sealed, batch); !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("%s of %s = %v, want ErrInvalid", what, k, err)
			}
		}
	}
	for k, err := range sealed.Walk(ctx, tidemark.Key{}) {
		if err != nil || k.Kind == "keyring" || k.Kind == "datakey" {
			t.Errorf("Walk yields %s, %v", k, err)
		}
	}
}

func TestWhatHasNoRoomForItsSealIsRefused(t *testing.T) {
	sealed, _, _ := made(t)
	long := says(logOne, 1, "x")
	long.Appends[0].Lines[0].Chain = make([]byte, 49)
	l := &long.Appends[0].Lines[0]
	l.Sum = l.Checksum(logOne)
	if err := commit(sealed, long); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a chain of 49 bytes = %v, want ErrInvalid", err)
	}
	l.Chain = l.Chain[:48]
	l.Sum = l.Checksum(logOne)
	keep(t, sealed, long)
	if err := commit(sealed, tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(logOne, 1, strings.Repeat("x", tidemark.MaxBodyBytes))}}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a body of MaxBodyBytes = %v, want ErrInvalid", err)
	}
}
