package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

// sameID is what several people of a team call a session of theirs.
const sameID = tidemark.SessionID("550e8400-e29b-41d4-a716-446655440000")

// crew is people on one database, each known by their name as a token.
type crew struct {
	*testServer
	db *postgres.Database
}

func teammate(name string) tidemark.Principal { return tidemark.TenantOf("acme", name) }

func (m *crew) open(_ context.Context, p tidemark.Principal) (*store.Store, error) {
	return store.New(m.db.For(p), &store.Options{Places: search.EachWord}), nil
}

func newCrew(t *testing.T, names ...string) *crew {
	t.Helper()
	m := &crew{db: connectTo(t, newDatabase(t), nil)}
	auth := table{}
	for _, name := range names {
		auth[name] = request.Caller{Principal: teammate(name), Name: name, Role: request.Writer}
	}
	h := &parrots{}
	m.testServer = newTestServer(t, withMCP, func(o *Options) {
		o.Open, o.Auth, o.SignIn, o.Chat = m.open, auth, noDoor{}, h.chat
		o.Backend = func(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) { return m.db.For(p), nil }
		o.Formats = []string{"text"}
		o.Export = func(ctx context.Context, s *store.Store, at store.Point, _ string) (string, func(io.Writer) error, error) {
			return "text/plain", func(w io.Writer) error {
				for e, err := range at.Log(ctx) {
					if err != nil {
						return err
					}
					fmt.Fprintln(w, e.Text())
				}
				return nil
			}, nil
		}
	})
	return m
}

// talkOf makes a session of somebody's, in which their name is everywhere.
func (m *crew) talkOf(t *testing.T, who string, id tidemark.SessionID, with string) {
	t.Helper()
	ctx := t.Context()
	st := must[*store.Store](t)(m.open(ctx, teammate(who)))
	w := st.Create(tidemark.Session{ID: id, Title: "by " + who}, process.Self(who))
	must[[]int64](t)(w.Append(ctx, sayMarked("user", "tides asked by "+who), sayMarked("assistant", "answered for "+who)))
	must[[]int64](t)(w.AppendTo(ctx, "helper", sayMarked("user", "helps "+who)))
	must[store.File](t)(w.PutFile(ctx, "note.md", strings.NewReader("noted by "+who)))
	if err := errors.Join(w.SaveCheckpoint(ctx, store.Checkpoint{Reason: "kept by " + who}), w.Close(ctx), st.Label(ctx, id, 1, "label of "+who)); err != nil {
		t.Fatal(err)
	}
	must[int64](t)(st.CatchUp(ctx, nil))
	if err := m.db.For(teammate(who)).Share(ctx, id, tidemark.Scope{With: with}); err != nil {
		t.Fatal(err)
	}
}

// whoseWords finds whose words somebody was shown.
var whoseWords = regexp.MustCompile(`(?:by|for|helps|of) (ada|bob|cy|eve)\b`)

func wordsOf(text string) []string {
	var who []string
	for _, m := range whoseWords.FindAllStringSubmatch(text, -1) {
		who = append(who, m[1])
	}
	slices.Sort(who)
	return slices.Compact(who)
}

func nameOf(owner string) string {
	if owner == "cy" {
		return string(sameID)
	}
	return tidemark.SessionName(teammate(owner).User, sameID)
}

func TestALinkLeadsToTheSessionOfTheOwnerThatItNames(t *testing.T) {
	m := newCrew(t, "ada", "bob", "cy", "eve")
	for who, with := range map[string]string{"ada": tidemark.InTenant, "bob": tidemark.InTenant, "cy": tidemark.Private, "eve": tidemark.Private} {
		m.talkOf(t, who, sameID, with)
	}
	for _, owner := range []string{"ada", "bob", "cy"} {
		api := request.SessionsPath + "/" + nameOf(owner)
		page := "/sessions/" + nameOf(owner)
		for _, path := range []string{api, api + "/entries", api + "/turns", api + "/export?format=text", api + "/files/note.md", api + "/checkpoint", api + "/entries?worker=helper",
			page, page + ".json", page + "?worker=helper", page + "?find=tides", page + "/raw/1", "/api/v1/search?q=tides&session=" + nameOf(owner),
			"/api/v1/resolve?ref=" + nameOf(owner) + "@1"} {
			a := m.call(t, "cy", "GET", path, nil)
			if got := wordsOf(string(a.Body)); a.Status != 200 || !slices.Equal(got, []string{owner}) {
				t.Errorf("%s: %d, words of %v, want those of %s: %.200s", path, a.Status, got, owner, a.Body)
			}
		}
		f := m.follow(t, "cy", api+"/entries/stream", "")
		if got := f.next(t); got != "1 tides asked by "+owner {
			t.Errorf("followed: %q", got)
		}
		f.close()
		text, ok := tellAgent(t, m.agent(t, "cy"), "read_session", map[string]any{"session": nameOf(owner)})
		if got := wordsOf(text); !ok || !slices.Equal(got, []string{owner}) {
			t.Errorf("an agent reads words of %v, want those of %s: %.300s", got, owner, text)
		}
		// What changes something is for the owner.
		a := m.call(t, "cy", "PATCH", api, `{"pinned":true}`)
		if want := map[bool]int{true: 200, false: 403}[owner == "cy"]; a.Status != want {
			t.Errorf("PATCH of %s's: %d %s, want %d", owner, a.Status, a.Body, want)
		}
		c := connect(t, m.testServer, "cy")
		c.say(attachTo(nameOf(owner)))
		if r, err := c.hear(); err != nil || (r.Type == "attached") != (owner == "cy") {
			t.Errorf("attach to %s's: %+v, %v", owner, r, err)
		}
	}
}

func attachTo(session string) api.SocketRequest {
	return api.SocketRequest{Type: api.SocketAttach, Session: session}
}

// What lists sessions, and what stands on the page of one, leads to the right
// ones.
func TestEveryListAndEveryPageNamesTheOwner(t *testing.T) {
	m := newCrew(t, "ada", "bob", "cy", "eve")
	for who, with := range map[string]string{"ada": tidemark.InTenant, "bob": tidemark.InTenant, "cy": tidemark.Private, "eve": tidemark.Private} {
		m.talkOf(t, who, sameID, with)
	}
	want := []string{nameOf("ada"), nameOf("bob"), nameOf("cy")}
	slices.Sort(want)
	links := regexp.MustCompile(`/sessions/([0-9a-f:-]*` + string(sameID) + `)`)
	for _, path := range []string{"/sessions", "/sessions?q=tides"} {
		var got []string
		for _, l := range links.FindAllStringSubmatch(string(m.call(t, "cy", "GET", path, nil).Body), -1) {
			got = append(got, l[1])
		}
		slices.Sort(got)
		if d := cmp.Diff(want, slices.Compact(got)); d != "" {
			t.Errorf("%s leads to (-want +got):\n%s", path, d)
		}
	}
	var listed []string
	for cursor := ""; ; { // a page may end between two of the same id
		var page api.SessionList
		m.call(t, "cy", "GET", request.SessionsPath+"?limit=1&cursor="+cursor, nil).into(t, &page)
		for _, i := range page.Items {
			listed = append(listed, tidemark.SessionName(i.Owner, i.ID))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Sort(listed)
	if d := cmp.Diff(want, listed); d != "" {
		t.Errorf("sessions (-want +got):\n%s", d)
	}
	var found struct {
		Body struct{ Items []hits.Hit }
	}
	m.call(t, "cy", "GET", "/api/v1/search?q=tides", nil).into(t, &found.Body)
	var refs []string
	for _, h := range found.Body.Items {
		ref, _, _ := strings.Cut(h.Ref, "@")
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	if d := cmp.Diff(want, slices.Compact(refs)); d != "" {
		t.Errorf("found (-want +got):\n%s", d)
	}
	for _, path := range []string{"", "?at=1", "?worker=helper", "?find=tides", "/tree"} {
		for _, l := range links.FindAllStringSubmatch(string(m.call(t, "cy", "GET", "/sessions/"+nameOf("ada")+path, nil).Body), -1) {
			if l[1] != nameOf("ada") {
				t.Errorf("the page %q of ada's session leads to %s", path, l[0])
			}
		}
	}
	text, _ := tellAgent(t, m.agent(t, "cy"), "list_sessions", map[string]any{"everywhere": true})
	for _, name := range want {
		if !strings.Contains(text, name+" ") {
			t.Errorf("an agent is not told of %s: %s", name, text)
		}
	}
}

// A store that a server keeps shows the same.
func TestAStoreOverTheWireKnowsTheOwners(t *testing.T) {
	m := newCrew(t, "ada", "bob", "cy", "eve")
	for who, with := range map[string]string{"ada": tidemark.InTenant, "bob": tidemark.InTenant, "cy": tidemark.Private, "eve": tidemark.Private} {
		m.talkOf(t, who, sameID, with)
	}
	b, err := remote.Open(t.Context(), m.URL, &remote.Options{Token: func(context.Context) (string, error) { return "cy", nil }})
	if err != nil {
		t.Fatal(err)
	}
	st := store.New(b, &store.Options{Places: search.EachWord})
	defer st.Close()
	titles := make(map[string]string)
	for i, err := range st.Sessions(t.Context(), store.Filter{Each: true}) {
		if err != nil {
			t.Fatal(err)
		}
		titles[i.Name()] = i.Title
		p, err := st.Resolve(t.Context(), i.Name(), "")
		if err != nil || p.Title != i.Title || p.Owner != i.Owner {
			t.Errorf("Resolve(%s) = %q of %q, %v", i.Name(), p.Title, p.Owner, err)
			continue
		}
		for e, err := range p.Log(t.Context()) {
			if err != nil || !slices.Equal(wordsOf(e.Text()), wordsOf(i.Title)) {
				t.Errorf("%s says %q, %v", i.Title, e.Text(), err)
			}
		}
	}
	if d := cmp.Diff(map[string]string{nameOf("ada"): "by ada", nameOf("bob"): "by bob", nameOf("cy"): "by cy"}, titles); d != "" {
		t.Errorf("sessions (-want +got):\n%s", d)
	}
	for _, name := range []string{nameOf("eve"), tidemark.SessionName(teammate("nobody").User, sameID)} {
		if _, err := st.Resolve(t.Context(), name, ""); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Resolve(%s) = %v, want ErrNotFound", name, err)
		}
	}
}

// Nobody learns of a session that is not shared with them: not by asking for
// it, and not by making one of the same id.
func TestASessionThatIsNotSharedIsAsIfItWereNotThere(t *testing.T) {
	m := newCrew(t, "cy", "eve")
	m.talkOf(t, "eve", sameID, tidemark.Private)
	there, absent := nameOf("eve"), tidemark.SessionName(teammate("eve").User, tidemark.SessionID(twinOf(string(sameID))))
	nobody := tidemark.SessionName(teammate("nobody").User, sameID)
	hide := func(a answer, name string) string {
		var b strings.Builder
		a.Header.Del("Date")
		a.Header.Del("X-Request-Id")
		a.Header.Del("RateLimit-Remaining") // how fast it was asked
		a.Header.Write(&b)
		owner, id := tidemark.CutOwner(name)
		text := strings.NewReplacer(owner, "OWNER", id, "ID", a.Header.Get("X-Request-Id"), "").Replace(b.String() + string(a.Body))
		return fmt.Sprint(a.Status, requestIDs.ReplaceAllString(text, "REQUEST"))
	}
	for path, item := range m.api.OpenAPI().Paths {
		if !strings.HasPrefix(path, request.SessionsPath+"/{id}") {
			continue
		}
		for method := range operations(item) {
			target := strings.NewReplacer("{name}", "note.md", "{seq}", "1", "{worker}", "helper").Replace(path)
			var got []string
			for _, name := range []string{there, absent, nobody, string(sameID)} {
				got = append(got, hide(m.call(t, "cy", method, strings.Replace(target, "{id}", name, 1), `{}`), name))
			}
			for i, text := range got[1:3] {
				if text != got[0] {
					t.Errorf("%s %s: answer %d is another one (-there +not):\n%s", method, path, i+1, cmp.Diff(got[0], text))
				}
			}
		}
	}
	for _, path := range []string{"", ".json", "/tree", "/live", "/part", "/raw/1"} {
		a, b := m.call(t, "cy", "GET", "/sessions/"+there+path, nil), m.call(t, "cy", "GET", "/sessions/"+absent+path, nil)
		if x, y := hide(a, there), hide(b, absent); x != y || a.Status != 404 {
			t.Errorf("page %q: %d (-there +not):\n%s", path, a.Status, cmp.Diff(x, y))
		}
	}
	// Making one of the same id goes as with any other.
	for _, id := range []tidemark.SessionID{sameID, tidemark.SessionID(twinOf(string(sameID)))} {
		st := must[*store.Store](t)(m.open(t.Context(), teammate("cy")))
		w := st.Create(tidemark.Session{ID: id, Title: "by cy"}, process.Self("cy"))
		if seqs, err := w.Append(t.Context(), sayMarked("user", "asked by cy")); err != nil || !slices.Equal(seqs, []int64{1}) {
			t.Errorf("Append to a new session = %v, %v", seqs, err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	st := must[*store.Store](t)(m.open(t.Context(), teammate("eve")))
	if i, err := st.Session(t.Context(), sameID); err != nil || i.Title != "by eve" {
		t.Errorf("eve's session is %q, %v", i.Title, err)
	}
}

var requestIDs = regexp.MustCompile(`\b[0-9a-f]{24}\b`)

// Whoever shares a session under the id of one that another has in an archive
// does not keep them from restoring it.
func TestAnArchiveComesBackBesideASharedSessionOfTheSameID(t *testing.T) {
	m := newCrew(t, "ada", "cy")
	m.talkOf(t, "ada", sameID, tidemark.InTenant)
	before := store.New(memory.New(), nil)
	w := before.Create(tidemark.Session{ID: sameID, Title: "by cy"}, process.Self("cy"))
	must[[]int64](t)(w.Append(t.Context(), sayMarked("user", "asked by cy")))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	must[archive.Manifest](t)(archive.Write(t.Context(), &kept, before.Records().Backend(), nil))
	must[archive.Manifest](t)(archive.Read(t.Context(), &kept, m.db.For(teammate("cy")), nil))
	a := m.call(t, "cy", "GET", request.SessionsPath+"/"+string(sameID), nil)
	if a.Status != http.StatusOK || !slices.Equal(wordsOf(string(a.Body)), []string{"cy"}) {
		t.Errorf("%d %s, want what came back", a.Status, a.Body)
	}
}
