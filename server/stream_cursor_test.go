package server

import (
	"strings"
	"testing"
)

// A client comes back with the id of the last event that had one. What only
// tells of the stream itself has none, so that nothing is passed over.
func TestOnlyEntriesMoveTheCursorOfAStream(t *testing.T) {
	s := newTestServer(t)
	for _, c := range []struct {
		what string
		end  func(path string)
		says []string
	}{
		{"a session that was removed", func(path string) { s.call(t, wA, "DELETE", path, nil).want(t, 200) }, []string{"gone", "end"}},
		{"a server that drains", func(string) { s.Drain() }, []string{"bye"}},
	} {
		path := newSession(t, s, wA, "tides", "one")
		f := s.follow(t, wA, path+"/entries/stream", "")
		for f.last != "2" {
			f.next(t)
		}
		c.end(path)
		for _, want := range c.says {
			if name, _ := f.event(); name != want || f.last != "2" {
				t.Errorf("%s: %q with the cursor at %s; want %q and 2", c.what, name, f.last, want)
			}
		}
	}
}

// After a failover that lost the end of a log its numbers are given again. A client
// that has an entry which is not there is told to begin again.
func TestAClientThatHasWhatIsNotThereIsReset(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	f := s.follow(t, wA, path+"/entries/stream", "")
	for f.last != "2" {
		f.next(t)
	}
	if f.id == f.last {
		t.Fatalf("the id %s has only a seq", f.id)
	}
	for _, last := range []string{"2-00000000", "9", "9-12345678"} {
		again := s.follow(t, wA, path+"/entries/stream", last)
		if name, data := again.event(); name != "reset" || !strings.Contains(data, `"entries":2`) {
			t.Errorf("after %s: %s %s, want reset", last, name, data)
		}
		if got := again.next(t); !strings.HasPrefix(got, "1 ") {
			t.Errorf("after the reset of %s: %q, want the first entry", last, got)
		}
		again.close()
	}
	for _, last := range []string{"1", "", f.id} {
		again := s.follow(t, wA, path+"/entries/stream", last)
		s.call(t, wA, "POST", path+"/entries", map[string]any{"entries": []any{map[string]any{"role": "user", "content": "more"}}}).want(t, 201)
		if got := again.next(t); strings.HasPrefix(got, "reset") {
			t.Errorf("after %q: %s", last, got)
		}
		again.close()
	}
}
