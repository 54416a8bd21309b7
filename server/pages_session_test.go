package server

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

// noSignIn is for tests that come with a token.
type noSignIn struct{ *auth.LocalAuthenticator }

// pagesServer serves pages over one store, which it returns.
func pagesServer(t *testing.T) (*testServer, *store.Store) {
	t.Helper()
	return pagesServerOf(t, memory.New(), nil)
}

// pagesServerOf is a pagesServer with another backend or clock.
func pagesServerOf(t *testing.T, b tidemark.Backend, now func() time.Time) (*testServer, *store.Store) {
	t.Helper()
	st := store.New(b, &store.Options{Places: search.EachWord, Now: now})
	s := newTestServer(t, func(o *Options) {
		o.SignIn = noSignIn{auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))}
		o.Formats = []string{"md"}
		open := o.Open
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			if p.Tenant == tidemark.TenantOf("a", "").Tenant && p.User == tidemark.TenantOf("a", "jo").User {
				return st, nil
			}
			return open(ctx, p)
		}
	})
	return s, st
}

// talk makes a session of so many turns and lets go of it.
func talk(t *testing.T, st *store.Store, sess tidemark.Session, turns int) tidemark.SessionID {
	t.Helper()
	w := st.Create(sess, process.Self("talk"))
	for n := 1; n <= turns; n++ {
		answer := tidemark.Say(tidemark.Assistant, fmt.Sprintf("answer %d about the tide", n))
		answer.Usage = &tidemark.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.01}
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("question %d", n)), answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// On PostgreSQL the index is behind the writers: who searches next finds it.
	if _, err := st.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

func (s *testServer) read(t *testing.T, who, path string, status int) string {
	t.Helper()
	return string(s.call(t, who, "GET", path, nil).want(t, status).Body)
}

func has(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("no %q in the page:\n%s", w, page)
		}
	}
}

func lacks(t *testing.T, page string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(page, w) {
			t.Errorf("%q is in the page:\n%s", w, page)
		}
	}
}

// send sends a form as a browser does, and does not follow where it leads.
func (s *testServer) send(t *testing.T, who, path string, form url.Values) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+who)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func TestTheListSaysWhatToDoWhenNothingIsThere(t *testing.T) {
	s, _ := pagesServer(t)
	has(t, s.read(t, "writer-a", "/sessions", 200), "No session is here yet", "tidemark chat")
	has(t, s.read(t, "writer-a", "/sessions?project=x", 200), "Nothing here fits", `href="/sessions"`)
	has(t, s.read(t, "writer-a", "/sessions?state=trash", 200), "The trash is empty")
}

func TestTheListTellsHowSessionsEnded(t *testing.T) {
	s, st := pagesServer(t)
	talk(t, st, tidemark.Session{Title: "finished", Project: "/p", Agent: "helper", Model: "m1", Tags: []string{"blue"}}, 2)
	live := st.Create(tidemark.Session{Title: "alive"}, process.Self("talk"))
	dead := process.Self("talk")
	dead.PID, dead.StartedAt = 1<<22+7, "1"
	crash := st.Create(tidemark.Session{Title: "fell over"}, dead)
	call := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockToolUse, ID: "c1", Name: "bash", Input: []byte(`{}`)}}}
	cut := st.Create(tidemark.Session{Title: "in a tool"}, process.Self("talk"))
	for w, e := range map[*store.Writer]tidemark.Entry{live: tidemark.Say(tidemark.User, "hi"), crash: tidemark.Say(tidemark.User, "hi"), cut: call} {
		if _, err := w.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := cut.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got web.SessionsView
	s.call(t, "reader-a", "GET", "/sessions.json", nil).want(t, 200).into(t, &got)
	ends := make(map[string]string)
	for _, r := range got.Sessions {
		ends[r.Title] = r.End.Kind
		if r.Title == "finished" && (r.Usage.Tokens() != 30 || r.Usage.USD() != 0.02 || r.Usage.Partial || r.Turns != 2 || r.Messages != 4) {
			t.Errorf("it used %+v in %d turns, %d messages", r.Usage, r.Turns, r.Messages)
		}
	}
	want := map[string]string{"finished": "done", "alive": "live", "in a tool": "interrupted", "fell over": ends["fell over"]}
	for title, kind := range want {
		if ends[title] != kind {
			t.Errorf("%s ended %q, want %q", title, ends[title], kind)
		}
	}
	has(t, s.read(t, "reader-a", "/sessions", 200), "badge live", "finished", "interrupted", `href="/sessions?project=%2Fp"`, `href="/sessions?label=blue"`, "helper", "m1", "$0.02")
	lacks(t, s.read(t, "reader-a", "/sessions?project=/p", 200), "alive")
}

func TestTheListGoesOnByCursorAndKeepsItsScope(t *testing.T) {
	s, st := pagesServer(t)
	for n := range 30 + 5 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("number %d.", n), Project: "/p"}, 1)
	}
	var first, second web.SessionsView
	s.call(t, "reader-a", "GET", "/sessions.json?project=/p", nil).want(t, 200).into(t, &first)
	if len(first.Sessions) != 30 || first.Older == "" || !strings.Contains(first.Older, "project=%2Fp") {
		t.Fatalf("%d rows, older %q", len(first.Sessions), first.Older)
	}
	path, query, _ := strings.Cut(first.Older, "?")
	s.call(t, "reader-a", "GET", path+".json?"+query, nil).want(t, 200).into(t, &second)
	if len(second.Sessions) != 5 || second.Older != "" || second.Newest != "/sessions?project=%2Fp" {
		t.Errorf("%d rows, older %q, newest %q", len(second.Sessions), second.Older, second.Newest)
	}
	if second.Sessions[0].Title != "number 4." {
		t.Errorf("the second part begins with %q", second.Sessions[0].Title)
	}
	s.read(t, "reader-a", "/sessions?cursor=forged", 400)
	s.read(t, "reader-a", "/sessions?"+strings.Replace(query, "project=%2Fp", "project=q", 1), 400)
}

func TestSearchFindsTitlesAndContentWhileOneTypes(t *testing.T) {
	s, st := pagesServer(t)
	id := talk(t, st, tidemark.Session{Title: "Harbour plans"}, 3)
	other := talk(t, st, tidemark.Session{Title: "else"}, 1)
	page := s.read(t, "reader-a", "/sessions?q=answer+3", 200)
	has(t, page, "<mark>answer</mark>", fmt.Sprintf("/sessions/%s?at=6&find=answer%%203#e6", id), `value="answer 3"`)
	lacks(t, page, string(other))
	has(t, s.read(t, "reader-a", "/sessions?q=harb", 200), "Harbour plans")
	has(t, s.read(t, "reader-a", "/sessions?q=%22open", 200), "cannot be searched for")
	has(t, s.read(t, "reader-a", "/sessions?q=nowhere", 200), "Nothing was found")
	lacks(t, s.read(t, "reader-b", "/sessions?q=harbour", 200), "Harbour plans")
}

func TestAnIdIsSearchedFor(t *testing.T) {
	s, st := pagesServer(t)
	const foreign = "ses_e1f3WJuj8"
	w := st.Create(tidemark.Session{Title: "Harbour plans", Tool: "opencode", ForeignID: foreign}, process.Self("import"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hi")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	link := `href="/sessions/` + string(w.ID())
	for _, id := range []string{foreign, string(w.ID()), string(w.ID())[:8]} {
		page := s.read(t, "reader-a", "/sessions?q="+id, 200)
		has(t, page, "This is the id of", link)
		lacks(t, page, "Nothing was found", "Nothing here fits")
		has(t, s.read(t, "reader-a", "/palette?q="+id, 200), link, "Harbour plans")
		lacks(t, s.read(t, "reader-b", "/sessions?q="+id, 200), "This is the id of", link)
	}
	has(t, s.read(t, "reader-a", "/sessions?q=ses_nobody1", 200), "Nothing was found")
}

func TestWhatIsNotKnownIsADash(t *testing.T) {
	s, st := pagesServer(t)
	w := st.Create(tidemark.Session{Title: "Harbour plans"}, process.Self("import"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hi"), tidemark.Say(tidemark.Assistant, "hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	has(t, s.read(t, "reader-a", "/sessions", 200), `data-label="Tokens">–</td>`, `data-label="Cost"><span>–</span>`)
}

func TestHitsDoNotWaitUntilAllAreCounted(t *testing.T) {
	var calls atomic.Int64
	begin := time.Now()
	// Each look at the clock takes 3 ms of it: some 200 hits are counted in 600 ms.
	s, st := pagesServerOf(t, memory.New(), func() time.Time { return begin.Add(time.Duration(calls.Add(1)) * 3 * time.Millisecond) })
	for n := range 25 {
		talk(t, st, tidemark.Session{Title: fmt.Sprint("number ", n)}, 8)
	}
	page := s.read(t, "reader-a", "/sessions?q=tide", 200)
	has(t, page, `hx-get="/sessions?count=all&amp;q=tide"`, `href="/sessions?count=all&amp;q=tide"`, ">number 24<", `rel="next">More<`)
	lacks(t, page, "Said by")
	page = s.read(t, "reader-a", "/sessions?count=all&q=tide", 200)
	has(t, page, `id="facets"`, "Said by", ">number 24<", "cursor=")
	if got := regexp.MustCompile(`role=assistant"[^>]*><bdi>assistant</bdi> <span class="quiet">([^<]*)<`).FindStringSubmatch(page); len(got) != 2 || got[1] != "200" {
		t.Errorf("counted are %q", got)
	}
	lacks(t, page, "count=all&amp;cursor", `href="/sessions?count=all`, "does not count")
	has(t, s.read(t, "reader-a", "/sessions?q=tide&sort=cost&gone=yes", 200), "does not count: gone, sort")
	var v struct{ Facets []any }
	s.call(t, "reader-a", "GET", "/sessions.json?q=tide", nil).want(t, 200).into(t, &v)
	if len(v.Facets) == 0 {
		t.Error("a program has to ask twice for what is counted")
	}
}

func TestASearchLeadsToTheLastHitWithoutScript(t *testing.T) {
	s, st := pagesServer(t)
	for n := range 65 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("number %d.", n)}, 1)
	}
	long := talk(t, st, tidemark.Session{Title: "long"}, 9)
	seen := make(map[string]bool)
	more := regexp.MustCompile(`href="([^"]*cursor=[^"]*)" rel="next">More<`)
	for path, pages := "/sessions?q=tide", 1; ; pages++ {
		page := s.read(t, "reader-a", path, 200)
		if pages == 1 {
			has(t, page, fmt.Sprintf(`href="/sessions/%s?find=tide">All in this session, at least 9`, long))
		}
		for n := range 65 {
			if title := fmt.Sprintf(">number %d.<", n); strings.Contains(page, title) {
				if seen[title] {
					t.Errorf("%s is listed twice", title)
				}
				seen[title] = true
			}
		}
		next := more.FindStringSubmatch(page)
		if next == nil {
			has(t, page, "Back to the first hits")
			break
		}
		path = html.UnescapeString(next[1])
	}
	if len(seen) != 65 {
		t.Errorf("%d of 65 sessions were found", len(seen))
	}
	has(t, s.read(t, "reader-a", "/sessions?q=tide&cursor=forged", 200), "cannot be searched for")
}

func TestASessionOpensAtItsEndAndGoesBackInParts(t *testing.T) {
	s, st := pagesServer(t)
	id := talk(t, st, tidemark.Session{Title: "long"}, 200)
	page := s.read(t, "reader-a", "/sessions/"+string(id), 200)
	has(t, page, `id="e400"`, `id="e361"`, `id="newest"`, `?before=361`, "answer 200 about")
	lacks(t, page, `id="e360"`)
	part := s.read(t, "reader-a", "/sessions/"+string(id)+"/part?before=361", 200)
	has(t, part, `id="e360"`, `id="e341"`, "part?before=341")
	lacks(t, part, "<html", `id="e361"`, `id="e340"`)
	has(t, s.read(t, "reader-a", "/sessions/"+string(id)+"?before=361", 200), "<html", `id="e360"`, "To the end")
	lacks(t, s.read(t, "reader-a", "/sessions/"+string(id)+"/part?before=21", 200), "before=")
	at := s.read(t, "reader-a", "/sessions/"+string(id)+"?at=100", 200)
	has(t, at, `id="e81"`, `id="e100"`, `id="e120"`, "To the end", "?at=120")
	lacks(t, at, `id="e121"`, `sse-connect="/sessions`)
	s.read(t, "reader-a", "/sessions/"+string(id)+"?at=401", 404)
	s.read(t, "reader-a", "/sessions/"+string(id)+"?before=x", 400)
}

func TestWhatIsNotThereAndWhatIsForeignLooksTheSame(t *testing.T) {
	s, st := pagesServer(t)
	id := string(talk(t, st, tidemark.Session{Title: "mine"}, 1))
	for _, path := range []string{"", "/part", "/live", "/tree", "/raw/1"} {
		for who, id := range map[string]string{"writer-b": id, "writer-a": "00000000-0000-4000-8000-000000000000", "reader-a": "no-id"} {
			has(t, s.read(t, who, "/sessions/"+id+path, 404), "Nothing is here.")
		}
	}
	if res := s.send(t, "writer-b", "/sessions/"+id+"/trash", nil); res.StatusCode != 404 {
		t.Errorf("another's session to the trash: %d", res.StatusCode)
	}
}

func TestFormsChangeASessionAndSayWhatTheyDid(t *testing.T) {
	s, st := pagesServer(t)
	id := talk(t, st, tidemark.Session{Title: "before"}, 3)
	path := "/sessions/" + string(id)
	do := func(name string, form url.Values, next string) string {
		t.Helper()
		res := s.send(t, "writer-a", path+"/"+name, form)
		where := res.Header.Get("Location")
		if res.StatusCode != http.StatusSeeOther || next != "" && where != next || len(res.Cookies()) != 1 {
			t.Fatalf("%s: %d to %q, cookies %v", name, res.StatusCode, where, res.Cookies())
		}
		return where
	}
	do("rename", url.Values{"title": {"after"}}, path)
	do("tags", url.Values{"tags": {"red, blue ,"}}, path)
	do("pin", url.Values{"on": {"1"}}, path)
	do("hold", url.Values{"on": {"1"}}, path)
	do("label", url.Values{"at": {"n1"}, "text": {"the turn"}}, path+"?at=4#e4")
	do("branch", url.Values{"at": {"2"}, "text": {"another way"}}, path+"#newest")
	fork := do("fork", url.Values{"at": {"4"}, "text": {"a copy"}}, "")
	has(t, s.read(t, "writer-a", strings.TrimSuffix(fork, "#newest"), 200), "a copy", "Forked from", `href="`+path+`?at=4#e4"`)
	page := s.read(t, "writer-a", path, 200)
	has(t, page, "after", "red", "pinned", "on hold", "the turn", "another way", "Forks", "a copy", "<svg", "?node=n0#newest")
	i, err := st.Session(t.Context(), id)
	if err != nil || i.Title != "after" || len(i.Tags) != 2 || !i.Pinned || !i.OnHold || i.Entries != 7 {
		t.Errorf("%+v, %v", i, err)
	}
	if res := s.send(t, "writer-a", path+"/trash", nil); res.StatusCode != 409 && res.StatusCode != 423 && res.StatusCode != 403 {
		t.Errorf("a session on hold to the trash: %d", res.StatusCode)
	}
	do("hold", url.Values{"on": {"0"}}, path)
	do("trash", nil, path)
	has(t, s.read(t, "writer-a", path, 200), "in the trash", "Restore", "Destroy for ever")
	do("restore", nil, path)
	do("trash", nil, path)
	if res := s.send(t, "writer-a", path+"/purge", url.Values{"word": {"wrong"}}); res.StatusCode != 400 {
		t.Errorf("a purge without the word: %d", res.StatusCode)
	}
	do("purge", url.Values{"word": {string(id)[:8]}}, "/sessions?state=trash")
	s.read(t, "writer-a", path, 404)
}

func TestReadersSeeNoButtonsAndMayNotPressThem(t *testing.T) {
	s, st := pagesServer(t)
	id := talk(t, st, tidemark.Session{Title: "mine"}, 1)
	page := s.read(t, "reader-a", "/sessions/"+string(id), 200)
	lacks(t, page, "/rename", "/trash", "/fork", "Go on from here", "tidemark resume")
	has(t, page, "/copy\"")
	has(t, s.read(t, "writer-a", "/sessions/"+string(id), 200), `data-copy="tidemark resume `+string(id)+` --in codex"`)
	for _, name := range []string{"rename", "tags", "pin", "hold", "label", "branch", "fork", "trash", "restore", "purge", "share"} {
		if res := s.send(t, "reader-a", "/sessions/"+string(id)+"/"+name, url.Values{"word": {string(id)[:8]}}); res.StatusCode != 403 {
			t.Errorf("%s by a reader: %d", name, res.StatusCode)
		}
	}
}

func TestBranchesWorkersAndWhatIsKeptStandBesideTheSession(t *testing.T) {
	s, st := pagesServer(t)
	id := talk(t, st, tidemark.Session{}, 3)
	w, err := st.Attach(t.Context(), id, process.Self("talk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AppendTo(t.Context(), "scout", tidemark.Say(tidemark.Assistant, "I looked around")); err != nil {
		t.Fatal(err)
	}
	aside := tidemark.Say(tidemark.User, "another way")
	aside.Parent = 2
	if _, err := w.Append(t.Context(), aside, tidemark.Say(tidemark.Assistant, "so it is")); err != nil {
		t.Fatal(err)
	}
	if err := w.SaveCheckpoint(t.Context(), store.Checkpoint{Reason: "a pause"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.PutFile(t.Context(), "artifacts/a b.txt", strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := "/sessions/" + string(id)
	page := s.read(t, "writer-a", path, 200)
	has(t, page, "another way", "worker=scout", "a pause", "artifacts%2Fa%20b.txt")
	lacks(t, page, "answer 3", "I looked around")
	has(t, s.read(t, "writer-a", path+"?worker=scout", 200), "I looked around")
	other := s.read(t, "writer-a", path+"?node=n2", 200)
	has(t, other, "question 3", "ends with n2")
	lacks(t, other, "another way\n")
	has(t, s.read(t, "writer-a", path+"?at=6", 200), "on another branch")
	// Its branches are told by their words and by when they began.
	if tree := s.read(t, "writer-a", path+"/tree", 200); !regexp.MustCompile(`(?s)<text[^>]*>n3 another way ◂</text>\s*<text [^>]*class="below"[^>]*><tspan data-time="20[^"]*">(now|\d+ s ago)</tspan>`).MatchString(tree) {
		t.Errorf("the tree:\n%s", tree)
	}
	found := s.read(t, "writer-a", path+"?find=question&at=3", 200)
	has(t, found, "<mark>question</mark>", `rel="prev"`, `rel="next"`)
}

func TestASummaryIsATurnWithAName(t *testing.T) {
	s, st := pagesServer(t)
	w := st.Create(tidemark.Session{}, process.Self("talk"))
	must[[]int64](t)(w.Append(t.Context(), tidemark.Say(tidemark.User, "mend the gauge"), tidemark.Say(tidemark.Assistant, "it is mended"),
		tidemark.Entry{Kind: tidemark.KindCompaction, Position: tidemark.Position{Parent: 1}, Blocks: []tidemark.Block{tidemark.Text("The gauge was mended.")}}))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	turns := regexp.MustCompile(`data-entry="\d+" dir="auto">([^<]*)</a>`).FindAllStringSubmatch(s.read(t, "reader-a", "/sessions/"+string(w.ID()), 200), -1)
	if len(turns) != 2 || turns[0][1] != "mend the gauge" || turns[1][1] != "Summary: The gauge was mended." {
		t.Errorf("the turns are %q", turns)
	}
}

func TestTheSessionThatIsReadIsInTheListBesideItHoweverOldItIs(t *testing.T) {
	s, st := pagesServer(t)
	oldest := talk(t, st, tidemark.Session{Title: "the first errand of all"}, 1)
	w := st.Create(tidemark.Session{Title: "the second"}, process.Self("talk"))
	must[[]int64](t)(w.Append(t.Context(), tidemark.Say(tidemark.User, "where is the halyard?")))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 510 { // more than are looked through by name
		w := st.Create(tidemark.Session{Title: fmt.Sprintf("errand %d", n)}, process.Self("talk"))
		must[[]int64](t)(w.Append(t.Context(), tidemark.Say(tidemark.User, "run it")))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	must[int64](t)(st.CatchUp(t.Context(), nil))
	beside := func(path, page string) string {
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil))
		r.Header.Set("Authorization", "Bearer reader-a")
		r.Header.Set("HX-Current-URL", page)
		res := must[*http.Response](t)(http.DefaultClient.Do(r))
		defer res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s", path, res.Status)
		}
		return string(must[[]byte](t)(io.ReadAll(res.Body)))
	}
	page := "http://tides.example/sessions/" + string(oldest)
	has(t, beside("/pane", page), `class="apart"`, "the first errand of all", "errand 509")
	for _, elsewhere := range []string{"", "http://tides.example/sessions", "http://tides.example/sessions/nothing", "%"} {
		lacks(t, beside("/pane", elsewhere), `class="apart"`, "the first errand of all")
	}
	// The list goes on to the last of them, each once.
	names, rows, path := regexp.MustCompile(`<bdi>(errand \d+|the first errand of all|the second)</bdi>`), make(map[string]int), "/pane"
	for range 20 {
		part := beside(path, "")
		for _, name := range names.FindAllStringSubmatch(part, -1) {
			rows[name[1]]++
		}
		more := regexp.MustCompile(`hx-get="(/pane\?cursor=[^"]+)"`).FindStringSubmatch(part)
		if path = ""; more == nil {
			break
		}
		path = html.UnescapeString(more[1])
	}
	if path != "" || len(rows) != 512 || rows["the first errand of all"] != 1 || rows["errand 3"] != 1 {
		t.Errorf("%d sessions, and it goes on with %q", len(rows), path)
	}
	// What is older than what is looked through by name is found by what was said.
	has(t, beside("/pane?q=halyard", ""), "the second")
	has(t, beside("/pane?q=first+errand", ""), "the first errand of all")
	lacks(t, beside("/pane?q=halyard", page), "errand 509", `class="apart"`)
	has(t, beside("/palette?q=halyard", ""), "the second", "Search everything for: halyard")
	// When a list is read anew, what was got of it is.
	if n := strings.Count(beside("/pane?rows=120", ""), "<li"); n != 121 {
		t.Errorf("%d rows of 120, and one that leads on", n)
	}
}

func TestAnEntryOfManyMegabytesIsCutAndCanBeHadWhole(t *testing.T) {
	s, st := pagesServer(t)
	big := strings.Repeat("wave after wave ", 300_000)
	w := st.Create(tidemark.Session{Title: strings.Repeat("long ", 40) + "\u202eevil\u200b"}, process.Self("talk"))
	e := tidemark.Say(tidemark.Assistant, big)
	e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: "c", Name: "write", Input: json.RawMessage(`"` + big + `"`)})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "go"), e); err != nil {
		t.Fatal(err)
	}
	path := "/sessions/" + string(w.ID())
	page := s.read(t, "reader-a", path, 200)
	has(t, page, "only a part of it is shown", path+"/raw/2", `\u202eevil\u200b`)
	if len(page) > 300_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	raw := s.call(t, "reader-a", "GET", path+"/raw/2", nil).want(t, 200)
	var got tidemark.Entry
	raw.into(t, &got)
	if got.Blocks[0].Text != big || !strings.HasPrefix(raw.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the whole entry has %d bytes, %s", len(got.Blocks[0].Text), raw.Header.Get("Content-Disposition"))
	}
	s.read(t, "reader-a", path+"/raw/3", 404)
}

func TestSeveralSessionsAreChangedAsIfEachWereAlone(t *testing.T) {
	s, st := pagesServer(t)
	var ids []string
	for n := range 20 {
		ids = append(ids, string(talk(t, st, tidemark.Session{Title: fmt.Sprintf("boat %d", n)}, 1)))
	}
	several := func(what string, ids []string, more ...string) (done []string) {
		t.Helper()
		s.form(t, "writer-a", "/sessions/several", append([]string{"what", what, "ids", strings.Join(ids, " ")}, more...)...).want(t, 200).into(t, &done)
		return done
	}
	missing := "00000000-0000-4000-8000-000000000000"
	if done := several("tags", append([]string{missing}, ids...), "add", "oak, elm"); !slices.Equal(done, ids) {
		t.Errorf("tagged %d of %d: %q", len(done), len(ids), done)
	}
	for _, id := range ids {
		if i := must[store.Info](t)(st.Session(t.Context(), tidemark.SessionID(id))); !slices.Equal(i.Tags, []string{"oak", "elm"}) {
			t.Errorf("%s has the tags %q", i.Title, i.Tags)
		}
	}
	// Who was cut off asks for all of them again.
	for range 2 {
		if done := several("trash", ids); !slices.Equal(done, ids) {
			t.Errorf("%d of %d are in the trash", len(done), len(ids))
		}
	}
	for range 2 {
		if done := several("restore", ids[:7]); len(done) != 7 {
			t.Errorf("%d came back", len(done))
		}
	}
	live := 0
	for _, err := range st.Sessions(t.Context(), store.Filter{}) {
		if live++; err != nil {
			t.Fatal(err)
		}
	}
	if live != 7 {
		t.Errorf("%d sessions are there", live)
	}
	s.form(t, "writer-a", "/sessions/several", "what", "purge", "ids", ids[0]).want(t, 400)
	s.form(t, "writer-a", "/sessions/several", "what", "trash", "ids", "").want(t, 400)
	s.form(t, "reader-a", "/sessions/several", "what", "trash", "ids", ids[0]).want(t, 403)
	// Each has a line of its own in the audit log.
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Items []struct{ Action, Thing, Outcome string }
	}
	s.call(t, "admin-a", "GET", "/api/v1/audit?limit=200", nil).want(t, 200).into(t, &log)
	lines := make(map[string]int)
	for _, l := range log.Items {
		if strings.HasPrefix(l.Action, "POST /sessions") {
			lines[l.Action+" "+l.Outcome]++
		}
	}
	want := map[string]int{"POST /sessions/{id}/tags done": 20, "POST /sessions/{id}/tags failed": 1, "POST /sessions/{id}/trash done": 40, "POST /sessions/{id}/restore done": 14, "POST /sessions/several refused": 1}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the audit log has other lines (-want +got):\n%s", diff)
	}
}

func TestASessionThatOpensAtItsEndIsNotPaintedBeforeIt(t *testing.T) {
	s, st := pagesServer(t)
	path := "/sessions/" + string(talk(t, st, tidemark.Session{Title: "tides"}, 3))
	const waits = `<link rel="expect" href="#newest" blocking="render">`
	for query, want := range map[string]bool{"": true, "?at=2": false, "?find=tide": false} {
		page := string(s.call(t, "writer-a", "GET", path+query, nil).want(t, 200).Body)
		if got := strings.Contains(page, waits); got != want || !strings.Contains(page, `id="newest"`) {
			t.Errorf("%q: waits for the end: %v, want %v", query, got, want)
		}
	}
}

// Whoever looks for something in a long session is led to it, and to what is older than
// the hits that are listed at once.
func TestFindingInASessionOpensAtAHitAndReachesAllOfThem(t *testing.T) {
	s, st := pagesServer(t)
	path := "/sessions/" + string(talk(t, st, tidemark.Session{Title: "tides"}, 120))
	page := string(s.call(t, "writer-a", "GET", path+"?find=question", nil).want(t, 200).Body)
	listed := regexp.MustCompile(`<a class="hit" [^>]*#e(\d+)"( aria-current="true")?`)
	first := listed.FindAllStringSubmatch(page, -1)
	if last := len(first) - 1; last != 99 || first[last][1] != "239" || first[last][2] == "" {
		t.Fatalf("%d hits are listed, and the page is not that of the newest: %q", len(first), first)
	}
	has(t, page, `data-at="239"`, `<mark>question</mark>`)
	more := regexp.MustCompile(`<a class="button" href="([^"]*hits=[^"]*)">`).FindStringSubmatch(page)
	if more == nil {
		t.Fatal("nothing leads to the rest")
	}
	page = string(s.call(t, "writer-a", "GET", html.UnescapeString(more[1]), nil).want(t, 200).Body)
	rest := listed.FindAllStringSubmatch(page, -1)
	if len(rest) != 20 || rest[0][1] != "1" || rest[19][1] != "39" || rest[19][2] == "" {
		t.Errorf("the rest is %q", rest)
	}
}
