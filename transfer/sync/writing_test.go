package sync

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// later is a home whose clock is wrong.
func later(t testing.TB, name string, by time.Duration) *home {
	h := newHome(t, name)
	h.ahead.Store(int64(by))
	return h
}

// writer returns which other machine a home believes to write to a session.
func (h *home) writer(id tidemark.SessionID) string {
	h.t.Helper()
	m, err := h.s.Machines(h.t.Context())
	h.must(err)
	return m.WritesTo(id, h.s.Records().Clock())
}

func (h *home) attend(id tidemark.SessionID) (told []string, leave func()) {
	leave = Attend(context.Background(), h.s, id, Options{Host: h.name, Places: h.places, patience: time.Minute}, func(machine string) { told = append(told, machine) })
	return told, leave
}

// TestWhoGoesOnIsToldOfAnotherMachine has two machines, whose clocks are hours apart,
// go on with the same session by a server. Nobody is kept from it.
func TestWhoGoesOnIsToldOfAnotherMachine(t *testing.T) {
	server := placetest.Server(t)
	a, b := later(t, "adas-laptop", -7*time.Hour), later(t, "bobs-desktop", 5*time.Hour)
	a.places, b.places = server.As("acme/ada"), server.As("acme/ada")
	a.joinAt(server.URL, nil)
	b.joinAt(server.URL, a)
	id, own := a.create("plan", "one"), a.create("diary", "dear")
	a.must(a.s.Tag(t.Context(), own, []string{Private}, nil))
	a.sync()
	b.sync()
	a.sync() // it knows of bob now
	if told, leave := b.attend(id); len(told) > 0 {
		t.Errorf("nobody writes, and bob is told of %q", told)
	} else {
		leave()
	}
	_, leaveA := a.attend(id)
	_, leaveOwn := a.attend(own)
	told, leaveB := b.attend(id)
	if len(told) != 1 || told[0] != "adas-laptop" {
		t.Errorf("bob is told of %q", told)
	}
	if told, leave := b.attend(own); len(told) > 0 {
		t.Errorf("bob is told of %q in a session that is private", told)
	} else {
		leave()
	}
	told, leave := a.attend(id)
	if len(told) != 1 || told[0] != "bobs-desktop" {
		t.Errorf("ada is told of %q", told)
	}
	hidden := 0
	for name, data := range blobsAt(t, server.URL, a.places) {
		if hidden++; bytes.Contains(data, []byte(id)) || bytes.Contains(data, []byte("adas-laptop")) {
			t.Errorf("%s is in the clear", name)
		}
	}
	if hidden == 0 {
		t.Error("nothing is at the server")
	}
	a.add(id, "two")
	b.add(id, "other")
	leave()
	leaveA()
	leaveOwn()
	leaveB()
	if told, leave := b.attend(id); len(told) > 0 {
		t.Errorf("ada left, and bob is told of %q", told)
	} else {
		leave()
	}
	a.sync()
	b.sync()
	a.sync()
	same2(t, id, a, b)
}

// TestASyncTellsWhatIsWrittenTo has a machine hold a session open while it syncs.
func TestASyncTellsWhatIsWrittenTo(t *testing.T) {
	server := placetest.Server(t)
	a, b := newHome(t, "ada"), newHome(t, "bob")
	a.places, b.places = server.As("acme/ada"), server.As("acme/ada")
	a.joinAt(server.URL, nil)
	b.joinAt(server.URL, a)
	id := a.create("plan", "one")
	a.sync()
	b.sync()
	w, err := a.s.Attach(t.Context(), id, a.holder())
	a.must(err)
	a.sync()
	if b.sync(); b.writer(id) != "ada" {
		t.Errorf("bob hears that %q writes", b.writer(id))
	}
	a.must(w.Close(t.Context()))
	a.sync()
	if b.sync(); b.writer(id) != "" {
		t.Errorf("ada closed it, and bob hears that %q writes", b.writer(id))
	}
}

func TestAMachineThatFellSilentIsNotBelievedToWrite(t *testing.T) {
	now := time.Now()
	m := store.Machines{Writing: []store.Writing{{Session: "one", Machine: "ada", HeardAt: now.Add(-store.HeardWithin)}, {Session: "two", Machine: "bob", HeardAt: now.Add(-time.Second)}}}
	if got := m.WritesTo("one", now) + "," + m.WritesTo("two", now) + "," + m.WritesTo("three", now); got != ",bob," {
		t.Errorf("they write: %q", got)
	}
}

// TestWhoHasNoServerIsNotAsked attends a session of a store that shares by a folder.
func TestWhoHasNoServerIsNotAsked(t *testing.T) {
	a := newHome(t, "ada")
	id := a.create("plan", "one")
	a.join(t.TempDir(), nil)
	a.sync()
	told, leave := a.attend(id)
	leave()
	m, err := a.s.Machines(t.Context())
	a.must(err)
	if len(told) > 0 || len(m.Attended) > 0 {
		t.Errorf("told of %q, remembers %v", told, m.Attended)
	}
}

// blobsAt returns every blob of a place, by name.
func blobsAt(t testing.TB, url string, o *remote.Options) map[string][]byte {
	t.Helper()
	p, err := remote.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := make(map[string][]byte)
	for name, err := range p.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = p.Get(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
