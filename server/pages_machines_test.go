package server

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/sync"
)

// TestPagesNameTheMachineOfABranch has a session come from another machine by a
// remote, and looks for its name, and for when the remote was met.
func TestPagesNameTheMachineOfABranch(t *testing.T) {
	s := newTestServer(t, withPages)
	here, err := s.stores.Of(t.Context(), tidemark.TenantOf("a", "jo"))
	if err != nil {
		t.Fatal(err)
	}
	home := s.read(t, "reader-a", "/", 200)
	if strings.Contains(home, "Last met") {
		t.Error("the first page speaks of remotes that are not there")
	}
	there := store.New(memory.New(), nil)
	id := keepUsed(t, there, tidemark.Session{Title: "tides"}, 1, 0, time.Now())
	meet := func(st *store.Store, host string) {
		t.Helper()
		r, err := sync.Run(t.Context(), st, "stick", sync.Options{Holder: process.Self("test"), Host: host, Push: true, Pull: true})
		if err != nil || len(r.Problems) > 0 {
			t.Fatal(err, r.Problems)
		}
	}
	url := "file:" + t.TempDir()
	far := sync.Of(there.Records(), "far<b>laptop", nil)
	if err := far.Add(t.Context(), "stick", url, ""); err != nil {
		t.Fatal(err)
	}
	meet(there, "far<b>laptop")
	code, err := far.Pair(t.Context(), "stick", time.Now().Add(time.Hour))
	if err == nil {
		err = sync.Of(here.Records(), "near", nil).Add(t.Context(), "stick", url, code)
	}
	if err != nil {
		t.Fatal(err)
	}
	meet(here, "near")
	path := "/sessions/" + string(id)
	for page, wants := range map[string][]string{
		"/":            {"Last met the remote <bdi>stick</bdi>"},
		"/sessions":    {"on far&lt;b&gt;laptop"},
		path:           {"<dd class=\"machine\"><bdi>far&lt;b&gt;laptop</bdi>", "Last met the remote <bdi>stick</bdi>", "<span class=\"chip machine\"><bdi>far&lt;b&gt;laptop", " on far&lt;b&gt;laptop</text>"},
		path + "/tree": {" on far&lt;b&gt;laptop</text>"},
	} {
		text := s.read(t, "reader-a", page, 200)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", page, want)
			}
		}
		if strings.Contains(text, "far<b>") {
			t.Errorf("%s has the name of a machine as it came", page)
		}
	}
	var one api.SessionInfo
	s.call(t, "reader-a", "GET", "/api/v1/sessions/"+string(id), nil).want(t, 200).into(t, &one)
	var list api.SessionList
	s.call(t, "reader-a", "GET", "/api/v1/sessions", nil).want(t, 200).into(t, &list)
	if one.Machine != "far<b>laptop" || len(list.Items) != 1 || list.Items[0].Machine != one.Machine {
		t.Errorf("the API says %q, and in a list %+v", one.Machine, list.Items)
	}
	list = api.SessionList{}
	keepUsed(t, here, tidemark.Session{Title: "own"}, 1, 0, time.Now())
	s.call(t, "reader-a", "GET", "/api/v1/sessions", nil).want(t, 200).into(t, &list)
	if len(list.Items) != 2 || list.Items[0].Machine != "" {
		t.Errorf("a session of this machine: %+v", list.Items)
	}
}

// TestAPageTellsOfAnotherMachineThatWrites shows what a server among the remotes said.
func TestAPageTellsOfAnotherMachineThatWrites(t *testing.T) {
	s := newTestServer(t, withPages)
	here, err := s.stores.Of(t.Context(), tidemark.TenantOf("a", "jo"))
	if err != nil {
		t.Fatal(err)
	}
	id := keepUsed(t, here, tidemark.Session{Title: "tides"}, 1, 0, time.Now())
	said := func(heard time.Time) bool {
		t.Helper()
		old, err := here.Records().Get(t.Context(), records.MachinesKey, &store.Machines{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := records.Put(records.MachinesKey, old.Version, store.Machines{Writing: []store.Writing{{Session: id, Machine: "far<b>", HeardAt: heard}}})
		if err == nil {
			_, err = here.Records().Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{r}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(s.read(t, "reader-a", "/sessions/"+string(id), 200), "far&lt;b&gt; writes to this session, too")
	}
	if !said(time.Now()) {
		t.Error("the page does not say that another machine writes")
	}
	if said(time.Now().Add(-time.Hour)) {
		t.Error("the page says so an hour later")
	}
}
