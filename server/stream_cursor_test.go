package server

import "testing"

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
