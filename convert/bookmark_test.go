package convert

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"
)

func TestAMemoryKnowsTheNewestAndThatItForgotTheOthers(t *testing.T) {
	var m Memory
	const all = 5000
	for n := range all {
		m.Set('a', fmt.Sprint("name", n), fmt.Sprint("value", n))
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 8*all {
		t.Errorf("it has %d bytes", len(b))
	}
	fresh := func() *Memory {
		var kept Memory
		if err := json.Unmarshal(b, &kept); err != nil {
			t.Fatal(err)
		}
		return &kept
	}
	kept := fresh()
	if v, ok := kept.Get('a', fmt.Sprint("name", all-remembered)); v != fmt.Sprint("value", all-remembered) || !ok || kept.Missed() {
		t.Errorf("a new one is %q, missed: %v", v, kept.Missed())
	}
	misses := 0
	for n := range 1000 {
		if m := fresh(); m.Has('b', fmt.Sprint("name", n)) || m.Missed() {
			misses++ // two sums may be the same
		}
		if misses > 5 {
			t.Fatal("names that were never set are missed")
		}
		if n%100 == 0 {
			if m := fresh(); m.Has('a', fmt.Sprint("name", n)) || !m.Missed() {
				t.Fatalf("name%d was forgotten without a trace", n)
			}
		}
	}
	kept.Set('a', "name0", "again")
	if v, ok := kept.Get('a', "name0"); v != "again" || !ok || kept.Missed() {
		t.Errorf("what was set again is %q, missed: %v", v, kept.Missed())
	}
	twice, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	var again Memory
	if err := json.Unmarshal(twice, &again); err != nil {
		t.Fatal(err)
	}
	if again.Has('a', "name7"); !again.Missed() {
		t.Error("what was forgotten is forgotten without a trace the second time")
	}
	var early Memory
	before, err := m.Until(10)
	if err != nil || json.Unmarshal(before, &early) != nil || !early.Has('a', "name9") || early.Has('a', "name10") || early.Missed() {
		t.Errorf("after ten it is %s, %v", before, err)
	}
}

func TestLinesFromAMarkAreThoseOfTheWhole(t *testing.T) {
	fsys := fstest.MapFS{"a": {Data: []byte("one\n\ntwo\r\nthree\n  \nfour")}}
	var all []Line
	for l, err := range Lines(fsys, "a") {
		if err != nil {
			t.Fatal(err)
		}
		l.Text = []byte(string(l.Text))
		all = append(all, l)
	}
	if len(all) != 4 {
		t.Fatalf("%d lines", len(all))
	}
	for i, from := range all {
		n := i
		for l, err := range LinesFrom(fsys, "a", from.Start) {
			if err != nil || l.Number != all[n].Number || l.Start != all[n].Start || l.End != all[n].End || string(l.Text) != string(all[n].Text) || l.Torn != all[n].Torn {
				t.Errorf("from line %d: %+v, want %+v; %v", from.Number, l, all[n], err)
			}
			n++
		}
		if n != len(all) {
			t.Errorf("from line %d there are %d", from.Number, n-i)
		}
	}
}
