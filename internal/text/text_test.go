package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClipLeavesWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"", 5, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
		{"aé", 2, "a"}, {"aé", 3, "aé"}, {"日本", 5, "日"}, {"日本", 3, "日"}, {"日本", 2, ""}, {"🙂", 3, ""}, {"🙂x", 4, "🙂"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80"},
	} {
		if got := Clip(c.s, c.n); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("日本語", 4)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := Clip(s, n)
		switch {
		case !strings.HasPrefix(s, got), len(got) > max(n, 0):
			t.Errorf("Clip(%q, %d) = %q", s, n, got)
		case utf8.ValidString(s) && !utf8.ValidString(got):
			t.Errorf("Clip(%q, %d) = %q, a part of a character", s, n, got)
		case n >= 0 && len(got) < min(n, len(s))-utf8.UTFMax:
			t.Errorf("Clip(%q, %d) = %q, too little", s, n, got)
		}
	})
}

func TestShortenSaysThatItCut(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Shorten("abc", 3), "abc"}, {Shorten("abcd", 3), "abc…"}, {Shorten("日本", 4), "日…"}, {Shorten("a\xffbcd", 4), "abc…"},
		{ShortLine(" a\n\tb  c ", 5), "a b c"}, {ShortLine("a\nb\nc", 3), "a b…"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestNearestIsWhatWasMeant(t *testing.T) {
	known := []string{"bash", "read", "write", "edit", "spawn_worker"}
	for name, want := range map[string]string{
		"bsh": "bash", "Bash": "bash", "raed": "read", "wirte": "write", "spawn_wroker": "spawn_worker", "spawnworker": "spawn_worker",
		"zebra": "", "x": "", "": "", strings.Repeat("bash", 20): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNamesAreOrderedAsPeopleCount(t *testing.T) {
	want := []string{"agent", "agent-1", "agent-1b", "agent-2", "agent-02b", "agent-10", "agent-99999999999999999999", "agent-100000000000000000000", "agent-x", "b", "ä"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("sorted: %q, want %q", got, want)
	}
	if Compare("a01", "a1") == 0 || Compare("a01", "a1") != -Compare("a1", "a01") {
		t.Error("a01 and a1 are not told apart")
	}
}
