package index

import (
	"bytes"
	"testing"
)

func TestTheTableOfLinesStaysInTheCacheLongest(t *testing.T) {
	const each, room = 1000, 100
	c := NewCache(room * (each + blockExtra))
	add := func(segment string, kind byte, n int) {
		for i := range n {
			c.add(place{segment, int64(i)}, append([]byte{kind}, bytes.Repeat([]byte{1}, each-1)...))
		}
	}
	has := func(segment string, n int) (found int) {
		for i := range n {
			if c.get(place{segment, int64(i)}) != nil {
				found++
			}
		}
		return found
	}
	add("a", 'L', 60)
	add("a words", 'W', 1000)
	if table, words := has("a", 60), has("a words", 1000); table != 60 || words != 40 {
		t.Errorf("kept %d of the 60 blocks of the table and %d others, want 60 and 40", table, words)
	}
	add("b", 'L', 1000)
	if table, words := has("b", 1000), has("a words", 1000); table != 75 || words != 25 {
		t.Errorf("kept %d blocks of the table and %d others, want 75 and 25", table, words)
	}
	if !bytes.HasPrefix(c.get(place{"a words", 999}), []byte("W")) {
		t.Error("what was used last is not kept")
	}
	c.forget("b")
	if n := has("b", 1000); n != 0 || c.classes[0].bytes != 0 {
		t.Errorf("%d blocks of a segment that is gone are kept, %d bytes", n, c.classes[0].bytes)
	}
	none := NewCache(0)
	none.add(place{"a", 1}, []byte("L"))
	if none.get(place{"a", 1}) != nil || len(none.blocks) != 0 {
		t.Error("a cache of no bytes keeps something")
	}
}
