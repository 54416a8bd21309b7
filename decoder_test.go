package tidemark

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntriesDecodedInARowDoNotTouchEachOther(t *testing.T) {
	var d Decoder
	var lines []Line
	var got, want []Entry
	for i := range 200 {
		e := Say(User, strings.Repeat(fmt.Sprintf("%d \"é\"\n", i), i%90))
		for range i % 3 {
			e.Blocks = append(e.Blocks, Block{Type: BlockToolResult, ToolUseID: fmt.Sprint(i), Blocks: []Block{Text("inner\t"), Text(fmt.Sprint(i))}})
		}
		if i%4 > 0 {
			e.Model = fmt.Sprint("model ", i/50)
		}
		l, err := e.Line()
		if err != nil {
			t.Fatal(err)
		}
		if i%17 == 5 { // what cannot be read leaves nothing in what is read next
			bad := l
			bad.Body = append(slices.Clone(l.Body[:len(l.Body)-1]), ']')
			if err := d.Decode(&bad, new(Entry)); err == nil {
				t.Fatal("a body without its end was read")
			}
		}
		again, err := EntryOf(l)
		if err != nil {
			t.Fatal(err)
		}
		var e2 Entry
		if err := d.Decode(&l, &e2); err != nil {
			t.Fatal(err)
		}
		lines, got, want = append(lines, l), append(got, e2), append(want, again)
	}
	for i := range lines {
		clear(lines[i].Body)
		_ = append(got[i].Blocks, Block{Type: "another"})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecoderThatExpectsEntriesTakesFewPiecesOfMemory(t *testing.T) {
	const n = 50
	l, err := Say(User, "what is \"it\" that\nyou want?").Line()
	if err != nil {
		t.Fatal(err)
	}
	var all [n]Entry
	made := testing.AllocsPerRun(10, func() {
		var d Decoder
		d.Expect(n)
		for i := range all {
			if err := d.Decode(&l, &all[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
	if made > n/10 {
		t.Errorf("%d entries took %.0f pieces of memory", n, made)
	}
}

func TestTextsOfAllLengthsAreReadAsEncodingJSONReadsThem(t *testing.T) {
	for _, piece := range []string{"a", "\n", "é", "日本", "\\", "\x01", "\u2028", "😀"} {
		for n := range 300 {
			text := strings.Repeat("-", n%17) + strings.Repeat(piece, n) + "."
			l, err := Say(User, text).Line()
			if err != nil {
				t.Fatal(err)
			}
			e, err := EntryOf(l)
			if err != nil || e.Text() != text {
				t.Fatalf("%d of %q: %v\ngot %q", n, piece, err, e.Text())
			}
			var v body
			if p := (parser{b: l.Body, d: new(Decoder)}); !p.body(&v) {
				t.Fatalf("%d of %q: left to encoding/json", n, piece)
			}
		}
	}
}
