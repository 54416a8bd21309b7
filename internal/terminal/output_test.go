package terminal

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var outputSeeds = []string{"plain text ", "\n", "\t", "\x1b[1m", "\x1b[m", "\x1b[0;31m", "漢字", "e\u0301", "👩‍🚀", "\x1b[2J", "\x1b]0;t\x07",
	"\x1b]8;;x", "\xff", "\x9b", "\r\n", "\x1b", "\x1b[", "0123456789", "\x00\x08"}

func TestOutputIsTheSameHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(outputSeeds), 0, 12).Draw(t, "output"), ""))
		columns := rapid.IntRange(4, 20).Draw(t, "columns")
		cut := rapid.IntRange(0, len(s)).Draw(t, "cut")
		whole := output{text: screenText, color: true, columns: columns}
		want := whole.write(nil, s)
		parts := output{text: screenText, color: true, columns: columns}
		got := parts.write(nil, s[:cut])
		got = parts.write(got, s[cut:])
		if string(got) != string(want) {
			t.Fatalf("%q cut at %d is %q, not %q", s, cut, got, want)
		}
		if string(parts.again(nil)) != string(whole.again(nil)) || parts.col != whole.col {
			t.Fatalf("the last row is %q, not %q", parts.again(nil), whole.again(nil))
		}
	})
}

func TestALineIsWrappedAnewAfterAResize(t *testing.T) {
	o := output{text: screenText, color: true, columns: 10}
	o.write(nil, []byte("gone\n\x1b[1mabc漢字defghijk"))
	if got := string(o.again(nil)); got != "\x1b[1mghijk" {
		t.Errorf("the last row is %q", got)
	}
	o.resize(4)
	if got := string(o.again(nil)); got != "\x1b[1mhijk" {
		t.Errorf("the last row is %q", got)
	}
	o.resize(40)
	if got := string(o.again(nil)); got != "\x1b[1mabc漢字defghijk" {
		t.Errorf("the last row is %q", got)
	}
}

func FuzzOutput(f *testing.F) {
	for _, s := range outputSeeds {
		f.Add([]byte(s), true)
	}
	harmless := regexp.MustCompile(`^(\x1b\[[0-9;:]*m|\r\n|[^\x00-\x1f\x7f\x{80}-\x{9f}])*$`)
	f.Fuzz(func(t *testing.T, p []byte, color bool) {
		o := output{text: screenText, color: color, columns: 20}
		got := o.write(nil, p)
		if !harmless.Match(got) {
			t.Errorf("%q became %q", p, got)
		}
		if o.row > len(o.line) || len(o.again(nil)) > maxStyle+maxPartial+len(p)*3 {
			t.Errorf("the last row starts at %d of %d", o.row, len(o.line))
		}
	})
}

// BenchmarkDelta is what one piece of a stream costs until it is drawn.
func BenchmarkDelta(b *testing.B) {
	c := &Console{text: screenText, color: true, line: line{text: screenText}, status: []string{"2 workers"}, prompt: "> ", o: Options{Out: io.Discard}}
	c.paint = newPainter(io.Discard, &c.mu, c.frame)
	c.screen.out = output{text: screenText, color: true, columns: 80}
	c.screen.columns = 80
	c.line.set("something that is half typed")
	b.ReportAllocs()
	for b.Loop() {
		c.put([]byte("and some words "))
		c.frame()
	}
}

// BenchmarkOutput is the speed of a lot of output.
func BenchmarkOutput(b *testing.B) {
	p := []byte(strings.Repeat("some words of a line, and \x1b[1mmore\x1b[m of it\n", 1000))
	o := output{text: screenText, color: true, columns: 80}
	b.SetBytes(int64(len(p)))
	var dst []byte
	for b.Loop() {
		dst = o.write(dst[:0], p)
	}
}
