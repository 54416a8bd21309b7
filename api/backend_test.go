package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

func TestEverySentinelCrossesTheWire(t *testing.T) {
	errs := []error{errors.New("disk /secret/path on fire"), tidemark.Conflictf("session/s: has 3 lines, not 2"), fmt.Errorf("agent/a: %w", tidemark.ErrNotFound)}
	for _, c := range tidemark.Codes {
		errs = append(errs, c.Err)
	}
	for _, err := range errs {
		want := tidemark.CodeOf(err)
		p := api.ProblemOf(err)
		text, jsonErr := json.Marshal(p)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		back, readErr := api.ReadProblem(text)
		if readErr != nil {
			t.Fatal(readErr)
		}
		got := tidemark.CodeOf(back.Err())
		if got.Name != want.Name || got.HTTP != want.HTTP || back.Status != want.HTTP {
			t.Errorf("%v: came back as %s with status %d", err, got.Name, back.Status)
		}
		if want.Name == "failed" && strings.Contains(string(text), "secret") {
			t.Errorf("%v: the inside of the server went out: %s", err, text)
		}
		if want.Name != "failed" && back.Error() != err.Error() {
			t.Errorf("%v: came back as %q", err, back)
		}
		n := 0
		for _, c := range tidemark.Codes {
			if errors.Is(back, c.Err) {
				n++
			}
		}
		if n > 1 {
			t.Errorf("%v: answers to %d sentinels", err, n)
		}
	}
}

func TestDamageAndReceiptsCrossTheWire(t *testing.T) {
	damage := &tidemark.Damage{Key: tidemark.Key{Kind: "session", ID: "s"}, Seq: 7, Place: "line 7", What: "torn"}
	receipt := tidemark.Receipt{Duplicates: []tidemark.Duplicate{{Log: damage.Key, Key: "k", Seq: 3}}}
	for _, err := range []error{damage, fmt.Errorf("reading: %w", damage)} {
		text, _ := json.Marshal(api.ProblemOf(err))
		back, readErr := api.ReadProblem(text)
		if readErr != nil {
			t.Fatal(readErr)
		}
		var got *tidemark.Damage
		if !errors.As(back.Err(), &got) || *got != *damage {
			t.Errorf("%v came back as %#v", err, back.Err())
		}
	}
	text, _ := json.Marshal(api.ProblemOf(tidemark.ErrExists).WithReceipt(receipt))
	back, err := api.ReadProblem(text)
	if err != nil || !errors.Is(back.Err(), tidemark.ErrExists) {
		t.Fatalf("%v, %v", back, err)
	}
	if d := cmp.Diff(receipt, back.Receipt()); d != "" {
		t.Errorf("receipt (-want +got):\n%s", d)
	}
}

func TestTheTextsOfAStrangerAreMadeHarmless(t *testing.T) {
	p, err := api.ReadProblem([]byte(`{"code":"denied","detail":"\u001b]0;owned\u0007 a\nb\u202ec","hint":"` + strings.Repeat("x", 5000) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(p.Detail, "\x1b\x07\n\u202e") || len(p.Hint) > 2100 {
		t.Errorf("detail %q, a hint of %d bytes", p.Detail, len(p.Hint))
	}
}

func someBatch(r *rapid.T) tidemark.Batch {
	id := rapid.StringMatching(`[a-z]{1,8}`)
	key := func() tidemark.Key { return tidemark.Key{Kind: id.Draw(r, "kind"), ID: id.Draw(r, "id")} }
	at := func() time.Time {
		return time.UnixMicro(rapid.Int64Range(-62_000_000_000_000_000, 250_000_000_000_000_000).Draw(r, "at")).UTC()
	}
	body := rapid.SliceOfN(rapid.Byte(), 0, 50)
	b := tidemark.Batch{ID: id.Draw(r, "batch"), At: at(), Adopt: rapid.Bool().Draw(r, "adopt")}
	used := map[tidemark.Key]bool{}
	fresh := func() (tidemark.Key, bool) { k := key(); was := used[k]; used[k] = true; return k, !was }
	for range rapid.IntRange(0, 3).Draw(r, "records") {
		if k, ok := fresh(); ok {
			rec := tidemark.Record{Key: k, Version: rapid.Int64Range(1, 1<<60).Draw(r, "version"), Group: rapid.StringN(0, 9, 99).Draw(r, "group"),
				Body: body.Draw(r, "body"), Due: at(), UpdatedAt: at(), Batch: id.Draw(r, "of")}
			rec.Sum = rec.Checksum()
			b.Puts = append(b.Puts, rec)
		}
		if k, ok := fresh(); ok {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: k, Version: 3})
		}
		b.Require = append(b.Require, tidemark.Precondition{Key: key()})
	}
	clear(used)
	for range rapid.IntRange(0, 3).Draw(r, "logs") {
		if k, ok := fresh(); ok {
			a := tidemark.Append{Log: k, At: at()}
			for i := range int64(rapid.IntRange(1, 3).Draw(r, "lines")) {
				l := tidemark.Line{Seq: 5 + i, Kind: "user", Key: fmt.Sprint(rapid.StringN(0, 9, 99).Draw(r, "key"), i), At: at(), Chain: body.Draw(r, "chain"), Body: body.Draw(r, "body"),
					Position: tidemark.Position{Parent: 4, Depth: rapid.Int64().Draw(r, "depth"), Nodes: 2, Turn: 1}, Batch: id.Draw(r, "of")}
				l.Sum = l.Checksum(k)
				a.Lines = append(a.Lines, l)
			}
			b.Appends = append(b.Appends, a)
		}
		if k, ok := fresh(); ok {
			b.Drops = append(b.Drops, k)
		}
	}
	return b
}

func TestABatchComesOutOfTheWireAsItWentIn(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		want := someBatch(r)
		text, err := api.EncodeBatch(want)
		if err != nil {
			r.Fatal(err)
		}
		got, err := api.DecodeBatch(bytes.NewReader(text))
		if err != nil {
			r.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			r.Fatalf("batch (-want +got):\n%s", d)
		}
		for range 5 {
			cut := rapid.IntRange(0, len(text)-2).Draw(r, "cut")
			if _, err := api.DecodeBatch(bytes.NewReader(text[:cut])); err == nil {
				r.Fatalf("a batch that was cut off after %d of %d bytes was taken for whole", cut, len(text))
			}
		}
	})
}

func TestARequestOfManySmallPartsIsRefused(t *testing.T) {
	parts := io.MultiReader(strings.NewReader(`{"batch":{"id":"b"}}`+"\n"), strings.NewReader(strings.Repeat(`{"drop":{}}`+"\n", api.MaxParts+5)))
	if _, err := api.DecodeBatch(parts); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("DecodeBatch = %v, want ErrInvalid", err)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add([]byte(`{"batch":{"id":"b","at":"2026-01-02T03:04:05Z"}}` + "\n" + `{"append":{"log":{"kind":"session","id":"s"}}}` + "\n" + `{"line":{"seq":1,"body":"e30="}}` + "\n" + `{"end":true}` + "\n"))
	f.Add([]byte(`{"batch":{"id":"b","adopt":true}}` + "\n" + `{"put":{"kind":"a","id":"b","version":1,"head":{"length":3}}}` + "\n" + `{"drop":{"kind":"a","id":"b"}}` + "\n" + `{"end":true}` + "\n"))
	f.Add([]byte(`{"line":{}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := api.DecodeBatch(bytes.NewReader(text))
		if err != nil || b.Check() != nil {
			return
		}
		again, err := api.EncodeBatch(b)
		if err != nil {
			t.Fatalf("a batch that was read cannot be written: %v", err)
		}
		c, err := api.DecodeBatch(bytes.NewReader(again))
		for i := range b.Puts {
			b.Puts[i].Head = tidemark.Head{} // belongs to answers
		}
		if d := cmp.Diff(b, c, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%v (-read +read again):\n%s", err, d)
		}
	})
}

func FuzzReadProblem(f *testing.F) {
	f.Add([]byte(`{"code":"corrupt","status":500,"damage":{"kind":"session","id":"s","what":"torn"}}`))
	f.Add([]byte(`{"code":"exists","known":[{"log":{"kind":"session","id":"s"},"key":"k","seq":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := api.ReadProblem(text)
		if err == nil && p.Err() == nil {
			t.Error("a problem that is no error")
		}
	})
}
