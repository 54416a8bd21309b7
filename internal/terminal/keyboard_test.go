package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// taken feeds bytes cut at some places, and joins typed text.
func taken(p []byte, cuts ...int) (keys []key) {
	var k keyboard
	add := func(more []key) {
		for _, next := range more {
			if last := len(keys) - 1; next.name == "" && last >= 0 && keys[last].name == "" {
				keys[last].text += next.text
			} else {
				keys = append(keys, next)
			}
		}
	}
	from := 0
	for _, cut := range append(cuts, len(p)) {
		add(k.feed(p[from:cut]))
		from = cut
	}
	add(k.flush())
	return keys
}

var keySeeds = []string{"", "abc", "\x1b", "\x1b[A", "\x1b[1;3C", "\x1b\x1b[C", "\x1bOP", "\x1b[200~a\nb\x1b[201~c", "\x1b[200~\x1b[201", "\x1b]0;x\x07y",
	"\x1bP\x1b\\", "\xe6\xbc", "漢", "\xff\xfe", "\x1b[[A", "\x1b[99999;99;9u", "\x1b[99;5u", "\x1b[27;5;97~", "\x1b\r", "\x00\x03\x1b\x03", "\x1b[<1;2;3M", "\u009b"}

func TestKeysAreTheSameHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(keySeeds), 0, 6).Draw(t, "keys"), ""))
		cut := rapid.IntRange(0, len(s)).Draw(t, "cut")
		if len(s)-cut == 1 && s[cut] == 3 { // alone, it is a way out of a paste
			return
		}
		if diff := cmp.Diff(taken(s), taken(s, cut), cmp.AllowUnexported(key{})); diff != "" {
			t.Fatalf("%q cut at %d: %s", s, cut, diff)
		}
	})
}

func TestCtrlCIsAWayOutOfAPasteThatDoesNotEnd(t *testing.T) {
	var k keyboard
	k.feed([]byte("\x1b[200~some of it"))
	if got := k.feed([]byte("\x03")); len(got) != 1 || got[0].name != "ctrl+c" {
		t.Errorf("%v", got)
	}
	if got := k.feed([]byte("x")); len(got) != 1 || got[0].text != "x" {
		t.Errorf("%v", got)
	}
}

func TestKeysThatAreSentAsNumbersAreTheSameKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"\x1b[99;5u": "ctrl+c", "\x1b[97;5u": "ctrl+a", "\x1b[65;5u": "ctrl+a", "\x1b[27;5;99~": "ctrl+c", "\x1b[97;3u": "alt+a",
		"\x1b[27u": "esc", "\x1b[13;2u": "shift+enter", "\x1b[127;3u": "alt+backspace", "\x1b[57414u": "enter", "\x1b[57419u": "up",
		"\x1b[32;5u": "ctrl+space", "\x1b[99;69u": "ctrl+c", "\x1b[1;129A": "up", "\x1b[1;133C": "ctrl+right",
		"\x1b[99;6u": "", "\x1b[1089;5u": "", "\x1b[99999999999;5u": "", "\x1b[99;99999999999u": "",
	} {
		var got string
		for _, k := range taken([]byte(sent)) {
			got += k.name + k.text
		}
		if got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
}

func FuzzKeyboard(f *testing.F) {
	for _, s := range keySeeds {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		if cut < 0 || cut > len(p) {
			cut = 0
		}
		for _, k := range taken(p, cut) {
			if !strings.HasPrefix(k.name, "paste") && (!utf8.ValidString(k.text) || strings.ContainsFunc(k.text, isControl)) {
				t.Errorf("%q was typed", k.text)
			}
			if k.name == "" && k.text == "" {
				t.Error("a key that is nothing")
			}
		}
	})
}

// FuzzLine presses any keys, and wants a line that is text and a cursor in it.
func FuzzLine(f *testing.F) {
	for _, s := range keySeeds {
		f.Add([]byte(s), 40)
	}
	f.Fuzz(func(t *testing.T, p []byte, columns int) {
		if columns < minColumns || columns > 1000 {
			columns = minColumns
		}
		c := &Console{text: screenText, line: line{text: screenText}, arrived: make(chan struct{}, 1)}
		c.paint = newPainter(nil, &c.mu, nil)
		c.obey(taken(p))
		s := c.line.String()
		if !utf8.ValidString(s) || s != printable(s) {
			t.Errorf("the line is %q", s)
		}
		if c.line.at < 0 || c.line.at > len(c.line.cells) {
			t.Errorf("the cursor is at %d of %d", c.line.at, len(c.line.cells))
		}
		b := c.view(columns, 10)
		if len(b.rows) > 9 || b.cursor < 0 || b.cursor >= len(b.rows) {
			t.Errorf("%d rows, the cursor in %d", len(b.rows), b.cursor)
		}
		for _, r := range b.rows {
			if w := screenText.Width(r.text); w >= columns && columns > 8 {
				t.Errorf("a row of %d columns in %d: %q", w, columns, r.text)
			}
		}
	})
}
