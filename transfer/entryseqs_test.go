package transfer

import (
	"fmt"
	"testing"
)

func TestEverySeqOfAnIDIsFound(t *testing.T) {
	var s entrySeqs
	want := make(map[string]int64)
	seq := int64(7)
	for i := range 3000 {
		switch {
		case i%500 < 3:
			seq += 5
		case i%700 == 699:
			seq = 0 // of a draft that is not kept
		default:
			seq++
		}
		id := fmt.Sprint("entry", i)
		if _, ok := s.of(id); ok {
			t.Fatalf("%s has a seq before it is given one", id)
		}
		s.set(id, seq)
		want[id] = seq
	}
	s.set("entry5", 1) // it has one
	for id, seq := range want {
		if got, ok := s.of(id); !ok || got != seq {
			t.Errorf("%s: %d, %v, want %d", id, got, ok, seq)
		}
	}
	if len(s.runs) > 60 {
		t.Errorf("it took %d runs", len(s.runs))
	}
}
