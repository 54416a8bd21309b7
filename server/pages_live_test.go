package server

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// events reads a stream until the caller has seen enough.
func (s *testServer) events(t *testing.T, who, path string, header ...string) func() (id, name, data string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() (id, name, data string) {
		t.Helper()
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case field == "id":
				id = value
			case field == "event":
				name = value
			case field == "data":
				data += value + "\n"
			case lines.Text() == "" && name == "state":
				id, name, data = "", "", "" // of the lists
			case lines.Text() == "" && data != "":
				return id, name, data
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return
	}
}

func TestAPageFollowsASessionAndMissesNothing(t *testing.T) {
	s, st := pagesServer(t)
	w := st.Create(tidemark.Session{Title: "live"}, process.Self("talk"))
	say := func(text string) {
		t.Helper()
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, text)); err != nil {
			t.Fatal(err)
		}
	}
	say("one")
	path := "/sessions/" + string(w.ID())
	has(t, s.read(t, "reader-a", path, 200), `sse-connect="`+path+`/live?after=1"`)
	next := s.events(t, "reader-a", path+"/live?after=1")
	say("two\nlines")
	if id, name, data := next(); id != "2" || name != "entry" || !strings.Contains(data, `id="e2"`) || !strings.Contains(data, "two") {
		t.Errorf("%s %s %s", id, name, data)
	}
	say("three")
	if id, _, _ := next(); id != "3" {
		t.Errorf("then %s", id)
	}
	// Cut off, it goes on where it was, whatever its address says.
	again := s.events(t, "reader-a", path+"/live?after=1", "Last-Event-ID: 2")
	if id, _, data := again(); id != "3" || !strings.Contains(data, "three") {
		t.Errorf("again: %s %s", id, data)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := s.send(t, "writer-a", path+"/trash", nil); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("to the trash: %d", res.StatusCode)
	}
	if _, name, data := next(); name != "gone" || !strings.Contains(data, "was removed") {
		t.Errorf("at the end: %s %s", name, data)
	}
}
