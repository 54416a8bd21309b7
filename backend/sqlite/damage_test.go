package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// faults returns what a check finds.
func faults(t testing.TB, b *Backend) (found []error) {
	t.Helper()
	for err := range b.Check(context.Background()) {
		found = append(found, err)
	}
	return found
}

// harm runs SQL behind the store's back.
func harm(t *testing.T, b *Backend, sql string) {
	t.Helper()
	if err := b.writer.c.run(sql); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedLineIsReportedInItsPlaceAndReadingGoesOn(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, key("session", "first"), 1, 1)
	talk(t, b, log, 1, 600)
	harm(t, b, `UPDATE line SET body = replace(body, 'hello', 'jello') WHERE id = (2 << 32) + 17`)
	harm(t, b, `DELETE FROM line WHERE id IN ((2 << 32) + 300, (2 << 32) + 301, (2 << 32) + 600)`)
	bad := map[int64]bool{17: true, 300: true, 301: true, 600: true}
	for _, span := range []tidemark.Span{{}, {Backwards: true}, {Newest: 310}, {From: 300, To: 302, Backwards: true}} {
		first, last := span.Of(600)
		n := int64(0)
		for l, err := range b.Lines(t.Context(), log, span) {
			want := first + n
			if span.Backwards {
				want = last - n
			}
			n++
			if l.Seq != want {
				t.Fatalf("%+v: line %d where %d should be", span, l.Seq, want)
			}
			var d *tidemark.Damage
			if errors.As(err, &d) != bad[l.Seq] {
				t.Errorf("%+v: line %d: %v", span, l.Seq, err)
			}
			if d != nil && d.Place != fmt.Sprintf("line %d of log 2", l.Seq) {
				t.Errorf("place %q", d.Place)
			}
		}
		if n != last-first+1 {
			t.Errorf("%+v: %d lines, want %d", span, n, last-first+1)
		}
	}
	if found := faults(t, b); len(found) != 1 || !strings.Contains(found[0].Error(), "head says 600") {
		t.Errorf("Check: %v", found)
	}
}

func TestDamagedHeadIsReportedAndItsLinesAreRead(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{}`), record(key("session", "t"), 1, `{}`)}})
	talk(t, b, log, 1, 5)
	harm(t, b, `UPDATE log SET length = 3`)
	if _, err := b.Get(t.Context(), log); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	good, bad := 0, 0
	for _, err := range b.Lines(t.Context(), log) {
		if err == nil {
			good++
		} else {
			bad++
		}
	}
	if good != 5 || bad != 1 {
		t.Errorf("%d lines and %d errors, want 5 and 1", good, bad)
	}
	other := opened(t, b.path, nil)
	if err := commit(other, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 4, "user", `{}`)}}}}); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Commit = %v, want ErrCorrupt", err)
	}
	good, bad = 0, 0
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: "session"}) {
		if err == nil {
			good++
		} else if bad++; r.Key != log {
			t.Errorf("damage without its key: %v", r.Key)
		}
	}
	if good != 1 || bad != 1 {
		t.Errorf("%d records and %d errors, want 1 and 1", good, bad)
	}
	keep(t, other, tidemark.Batch{Drops: []tidemark.Key{log}})
	talk(t, other, log, 1, 1)
}

func TestDamagedRecordIsReportedAndTheListingGoesOn(t *testing.T) {
	b := made(t)
	for _, id := range []string{"a", "b", "c"} {
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", id), 1, `{"x":1}`)}})
	}
	harm(t, b, `UPDATE record SET body = '{"x":2}' WHERE id = 'b'`)
	if _, err := b.Get(t.Context(), key("agent", "b")); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	var got []string
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: "agent", Order: tidemark.ByID}) {
		got = append(got, fmt.Sprint(r.ID, err != nil))
	}
	if fmt.Sprint(got) != "[afalse btrue cfalse]" {
		t.Errorf("listed %v", got)
	}
}

func TestLinesWithoutAHeadAreFound(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 2)
	talk(t, b, key("session", "t"), 1, 2)
	harm(t, b, `DELETE FROM log WHERE id = 's'`)
	if found := faults(t, b); len(found) != 1 || !strings.Contains(found[0].Error(), "log 1") {
		t.Errorf("Check: %v", found)
	}
}

// The flip test's store is small, so that every byte is likely to matter.
const (
	flipSessions = 12
	flipLines    = 10
)

// readAll reads everything there is to read. It returns what was given as
// good, and whether there was any error. A panic or a hang would end the test.
func readAll(path string) (got map[string]string, complained bool) {
	got = make(map[string]string)
	b, err := Open(context.Background(), path, &Options{ReadOnly: true})
	if err != nil {
		return got, true
	}
	defer b.Close()
	take := func(what, text string, err error) {
		if err != nil {
			complained = true
		} else {
			got[what] = text
		}
	}
	record := func(r tidemark.Record, err error) {
		if err != nil || r.Version > 0 {
			take("record "+r.ID, string(r.Body), err)
		}
		if err == nil && r.Head.Length > 0 {
			take("head "+r.ID, fmt.Sprint(r.Head), nil)
		}
	}
	for i := range flipSessions {
		log := key("session", fmt.Sprint("s", i))
		record(b.Get(context.Background(), log))
		for l, err := range b.Lines(context.Background(), log) {
			l.Batch = ""
			take(fmt.Sprint("line ", log.ID, " ", l.Seq), fmt.Sprint(l), err)
		}
	}
	for _, q := range []tidemark.Query{{}, {State: "open"}, {Group: "g"}, {Order: tidemark.ByID}, {Prefix: "s1"}} {
		q.Kind = "session"
		for r, err := range b.List(context.Background(), q) {
			record(r, err)
		}
	}
	return got, complained
}

// A flipped bit in a key can make a row impossible to find, which reading
// cannot tell from a row that never was; a check can.
func TestFlippedBytesAreNeverGivenAsGood(t *testing.T) {
	b := made(t)
	for i := range flipSessions {
		log := key("session", fmt.Sprint("s", i))
		r := record(log, 1, fmt.Sprintf(`{"title":"session %d"}`, i))
		r.State, r.Group = "open", "g"
		a := tidemark.Append{Log: log}
		for seq := int64(1); seq <= flipLines; seq++ {
			a.Lines = append(a.Lines, line(log, seq, "user", fmt.Sprintf(`{"blocks":[{"type":"text","text":"%d of %d"}]}`, seq, i)))
		}
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}, Appends: []tidemark.Append{a}})
	}
	b.Close()
	whole, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := readAll(b.path)
	if len(good) != flipSessions*(2+flipLines) {
		t.Fatalf("%d things, want %d", len(good), flipSessions*(2+flipLines))
	}
	flips := 2000
	if testing.Short() {
		flips = 200
	}
	path := filepath.Join(t.TempDir(), "flipped.db")
	rnd := rand.New(rand.NewPCG(1, 2))
	lost, silent := 0, 0
	for range flips {
		at, bit := rnd.IntN(len(whole)), byte(1)<<rnd.IntN(8)
		whole[at] ^= bit
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		got, complained := readAll(path)
		for what, text := range got {
			if good[what] != text {
				t.Errorf("bit %#x of byte %d: %s is given as %.200q", bit, at, what, text)
			}
		}
		lost += len(good) - len(got)
		if len(got) < len(good) && !complained {
			silent++
			if found := faults(t, opened(t, path, &Options{ReadOnly: true})); found == nil {
				t.Errorf("bit %#x of byte %d: %d things are lost and a check finds nothing", bit, at, len(good)-len(got))
			}
		}
		whole[at] ^= bit
	}
	t.Logf("%d flips: in the mean %.1f of %d things lost; %d losses found by a check alone", flips, float64(lost)/float64(flips), len(good), silent)
}
