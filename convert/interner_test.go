package convert

import (
	"fmt"
	"strings"
	"testing"
)

func TestAnInternerTellsAllTextsApart(t *testing.T) {
	texts := []string{"", "\x00", "\x00abc", "0123", "00000000-1111-4000-8000-00000000000a", "00000000-1111-4000-8000-00000000000A",
		"00000000-1111-4000-8000-0000000000", "00000000-1111-4000-8000+00000000000a", "00000000-1111-4000-8000-00000000000g",
		string(make([]byte, 17)), strings.Repeat("x", 200), strings.Repeat("long", 1<<15), strings.Repeat("long", 1<<15) + "er", "é", "\xff\xfe"}
	for i := range 20_000 {
		texts = append(texts, fmt.Sprintf("%08x-1111-4000-8000-%012x", i*7919, i), fmt.Sprint("toolu_", i))
	}
	var all Interner
	numbers := make(map[uint32]bool)
	for i, text := range texts {
		if n, ok := all.Find(text); ok {
			t.Fatalf("%.50q has the number %d before it is given one", text, n)
		}
		n := all.Intern(text)
		if numbers[n] || int(n) != i {
			t.Fatalf("%.50q is number %d, want %d", text, n, i)
		}
		numbers[n] = true
	}
	copied := all.clone()
	copied.Intern("only in the copy")
	if _, ok := all.Find("only in the copy"); ok || all.Len() != len(texts) || copied.Len() != len(texts)+1 {
		t.Errorf("a copy is not apart: %d and %d texts", all.Len(), copied.Len())
	}
	for _, in := range []*Interner{&all, copied} {
		for i, text := range texts {
			if n, ok := in.Find(text); !ok || int(n) != i || in.Intern(text) != n || in.Text(n) != text {
				t.Fatalf("%.50q is number %d, %v, which is %.50q", text, n, ok, in.Text(n))
			}
		}
	}
}
