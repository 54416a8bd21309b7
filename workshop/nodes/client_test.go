package nodes

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, text string) (all []Event) {
	t.Helper()
	err := events(strings.NewReader(text), func(e Event) error {
		all = append(all, e)
		return nil
	})
	if err != io.EOF {
		t.Errorf("error = %v, want EOF", err)
	}
	return all
}

func TestEventsAreReadWhole(t *testing.T) {
	got := read(t, ": tidemark\n\nid: 1\ndata: {\"a\":1}\n\n: alive\n\nid: 2\nevent: x\ndata: y\ndata: z\n\nretry: 1000\nevent: bye\ndata: {}\n\nid: 3\ndata: cut o")
	want := []Event{{ID: "1", Data: []byte(`{"a":1}`)}, {ID: "2", Name: "x", Data: []byte("y\nz")}, {Name: "bye", Data: []byte("{}")}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAFollowerCanEndTheStream(t *testing.T) {
	enough := errors.New("enough")
	err := events(strings.NewReader("id: 1\ndata: a\n\nid: 2\ndata: b\n\n"), func(e Event) error {
		if e.ID == "2" {
			t.Error("a second event came")
		}
		return enough
	})
	if err != enough {
		t.Errorf("error = %v", err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("id: 1\ndata: a\n\n")
	f.Add(": c\n\n:\n\ndata\n\nevent:x\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range read(t, text) {
			if e.Name == "" && e.Data == nil {
				t.Errorf("an event of nothing in %q", text)
			}
		}
	})
}
