package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/coder/websocket"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/model/standin"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/store"
)

func talkSetup() *agent.Setup {
	return &agent.Setup{Getenv: func(string) string { return "" }, Environ: os.Environ(), IsProject: func(string) bool { return true }, Home: os.UserHomeDir}
}

// talksIn opens conversations with a stand-in for a model, which works in a folder.
func talksIn(folder, model string) func(context.Context, *store.Store, routes.ChatOptions) (routes.Conversation, error) {
	return func(ctx context.Context, st *store.Store, o routes.ChatOptions) (routes.Conversation, error) {
		set := agent.Options{Store: st, Holder: process.Self("test talks"), Session: o.Session, Project: folder,
			SandboxMode: agent.SandboxOff, // it begins anew as this program, which is a test
			Choice:      agent.Choice{Provider: "openai", Model: standin.Model, BaseURL: model}}
		if o.Person {
			return slash.OpenRemote(ctx, talkSetup(), set, o.Emit)
		}
		return talkSetup().OpenRemote(ctx, set, o.Emit)
	}
}

// talking is a site at which people talk in sessions.
func talking(t *testing.T) (s *site, folder string) {
	t.Helper()
	t.Parallel()
	chrome := chromium(t)
	folder = t.TempDir()
	s = newSite(t, chrome, sqliteStores(t))
	s.end()
	s.chat = talksIn(folder, standin.Start(t))
	s.commands = func(tidemark.Session) []slash.Command { return slash.PageCommands(talkSetup(), folder) }
	s.begin()
	return s, folder
}

// cookie is what a browser of a user has that signed in.
func (s *site) cookie(tenant string) string {
	s.t.Helper()
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer := must[*http.Response](s.t)(still.Get(s.url + "/signin?tenant=" + tenant + "&code=" + s.doors[tenant].NewCode()))
	defer answer.Body.Close()
	for _, c := range answer.Cookies() {
		if strings.HasSuffix(s.address, strings.Replace(c.Name, "tidemark-", ":", 1)) {
			return c.Name + "=" + c.Value
		}
	}
	s.t.Fatalf("no cookie: %s", answer.Status)
	return ""
}

// says types a message into the page, and waits until it is kept.
func (w *window) says(text string) {
	w.t.Helper()
	w.fills("#say", text+kb.Enter)
	w.until(`document.querySelector("#say").value === ""`)
}

// answers waits until the agent has said something, and is done.
func (w *window) answers(text string) {
	w.t.Helper()
	w.until(fmt.Sprintf(`[...document.querySelectorAll("#entries .said.assistant")].some((e) => e.textContent.includes(%q)) && !document.querySelector("#talk .running, #talk .piece, .question")`, text))
}

// presses presses a button that leads to its own end. What is being said may be
// drawn anew at any time, so that it may have to be pressed again.
func (w *window) presses(selector string) {
	w.t.Helper()
	w.until(fmt.Sprintf(`document.querySelector(%q)`, selector))
	w.until(fmt.Sprintf(`(() => { const b = document.querySelector(%q); if (b && !b.form.dataset.busy) b.click(); return !b; })()`, selector))
}

// prompts are how often each thing was said by the person in a session.
func prompts(t *testing.T, st *store.Store, id tidemark.SessionID) map[string]int {
	t.Helper()
	v := must[*store.View](t)(st.View(t.Context(), id))
	all := make(map[string]int)
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Role == tidemark.User && e.Kind == tidemark.KindMessage {
			all[e.Text()]++
		}
	}
	return all
}

const endless = "[[fake slow=60 long=400000]] never mind"

func TestAPersonTalksInASessionFromItsPage(t *testing.T) {
	s, folder := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 2)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	w.says("[[fake say Hello from **the** stand-in.]]")
	w.until(`[...document.querySelectorAll("#entries .said.assistant strong")].some((e) => e.textContent === "the")`)
	w.until(`!document.querySelector("#talk .running, #talk .piece")`)

	// It comes word by word: the piece on the page gets longer.
	w.says(endless)
	w.until(`document.querySelector("#talk .piece")`)
	asks[bool](w, `window.__piece = document.querySelector("#talk .piece"), window.__was = window.__piece.textContent.length, true`)
	w.until(`window.__piece.isConnected && window.__piece.textContent.length > window.__was + 50`)
	// A page that is loaded again in the middle goes on where it was.
	was := asks[int](w, `window.__piece.textContent.length`)
	w.opens("/sessions/" + string(id))
	w.until(fmt.Sprintf(`document.querySelector("#talk .piece") && document.querySelector("#talk .piece").textContent.length > %d`, was))
	// What is said meanwhile waits, also on a page that is loaded again, and can be
	// taken back; the rest is said in its turn.
	for _, text := range []string{"by mistake", "[[fake say The first is answered.]]", "[[fake say The second is answered.]]"} {
		w.fills("#say", text+kb.Enter)
		w.until(fmt.Sprintf(`document.getElementById("ahead").innerText.includes(%q) && !document.getElementById("say").value`, text))
	}
	w.opens("/sessions/" + string(id))
	w.until(`document.querySelectorAll("#ahead li").length === 3`)
	w.clicks("#ahead li:first-child button")
	w.until(`document.querySelectorAll("#ahead li").length === 2 && document.getElementById("say").value === "by mistake"`)
	w.fills("#say", "")
	// Only that answer is stopped, not those to what waits: whoever stops names it.
	asks[bool](w, `fetch(location.pathname + "/stop", { method: "POST", body: new URLSearchParams({ turn: "one that is over" }) }).then((r) => { window.__stopped = r.status; }), true`)
	w.until(`window.__stopped === 404 && document.querySelector("#talk .running")`)
	w.until(`(() => {
		const piece = document.querySelector("#talk .piece"), b = document.querySelector("form[action$='/stop'] button");
		if (piece && piece.textContent.startsWith("The tide") && b && !b.form.dataset.busy) b.click();
		return ![...document.querySelectorAll("#talk .piece")].some((p) => p.textContent.startsWith("The tide"));
	})()`)
	w.until(`document.getElementById("ahead").hidden && [...document.querySelectorAll("#entries .said.assistant")].filter((e) => /(first|second) is answered/.test(e.textContent)).length === 2`)
	w.until(`!document.querySelector("#talk .running, #talk .piece")`)
	if n := w.count("#entries .stopped"); n != 1 {
		t.Errorf("%d answers are said to have been stopped", n)
	}
	// What was said is listed with the other turns.
	if got := asks[[]string](w, `[...document.querySelectorAll("#rail .outline a")].slice(-2).map((a) => a.textContent + " " + new URL(a.href).hash)`); len(got) != 2 || !strings.Contains(got[0], "The first is answered") || !strings.Contains(got[1], "The second is answered") || !asks[bool](w, `document.querySelector(new URL(document.querySelector("#rail .outline li:last-child a").href).hash).matches(".said.user")`) {
		t.Errorf("the last turns are %q", got)
	}
	if asks[bool](w, `document.getElementById("entries").textContent.includes("by mistake")`) {
		t.Error("what was taken back was said")
	}

	// What it wants to do is shown whole, and done once it is allowed.
	made := filepath.Join(folder, "made.txt")
	call := func(name string) string {
		return fmt.Sprintf(`[[fake call write {"path":%q,"content":"made <b>here</b>"}]] [[fake say now %s is settled]]`, name, name)
	}
	w.says(call("made.txt"))
	w.until(`document.querySelector(".question .approval") && document.querySelector(".question .approval").textContent.includes("made <b>here</b>")`)
	if _, err := os.Stat(made); err == nil {
		t.Error("it was made before it was allowed")
	}
	// It counts as what waits for the person, wherever they are, and leads there.
	const counted = `document.title.startsWith("(1) ") && document.querySelector("nav [href='/sessions'] .waits").checkVisibility() && !document.querySelector("nav [href='/fleet'] .waits").checkVisibility()`
	w.until(counted + ` && document.getElementById("state").textContent.includes("waits for your answer")`)
	w.opens("/")
	w.until(counted + ` && document.querySelector("#home .now .warn b").textContent === "1"`)
	w.opens("/sessions")
	w.until(counted + ` && document.querySelector("tr:has(a[href*='` + string(id) + `'])").textContent.includes("waits for your answer")`)
	w.opens("/")
	w.leaves(func() { w.clicks("#asking a") })
	w.presses(`.question button[value=once]`)
	w.answers("now made.txt is settled")
	w.until(`!document.title.startsWith("(") && !document.querySelector("nav [href='/sessions'] .waits").checkVisibility()`)
	if b, err := os.ReadFile(made); err != nil || string(b) != "made <b>here</b>" {
		t.Errorf("%q, %v", b, err)
	}
	w.says(call("refused.txt"))
	w.presses(`.question button[value=deny]`)
	w.answers("now refused.txt is settled")
	if _, err := os.Stat(filepath.Join(folder, "refused.txt")); err == nil {
		t.Error("it was made although it was refused")
	}
	for text, n := range prompts(t, st, id) {
		if n != 1 && !strings.HasPrefix(text, "question") {
			t.Errorf("%q was said %d times", text, n)
		}
	}
}

func TestThePageFollowsTheEndUntilTheReaderScrollsUp(t *testing.T) {
	s, _ := talking(t)
	id := talk(t, s.of("a", "jo"), tidemark.Session{Title: "harbour"}, 30)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	const inView = `document.getElementById("newest").getBoundingClientRect().bottom < innerHeight + 80`
	w.until(inView + ` && document.documentElement.scrollHeight > 2 * innerHeight`)
	// What is laid out late, or goes and comes again, moves the end away while nobody
	// is told of anything.
	for _, height := range []string{"3000px", "10px", "5000px"} {
		asks[bool](w, fmt.Sprintf(`new Promise((done) => {
			const late = document.getElementById("late") || document.createElement("div");
			late.id = "late";
			document.getElementById("entries").append(late);
			requestAnimationFrame(() => setTimeout(() => { late.style.height = %q; requestAnimationFrame(() => requestAnimationFrame(() => done(true))); }));
		})`, height))
		w.until(inView)
	}
	w.says(endless)
	w.until(`document.querySelector("#talk .piece") && document.querySelector("#talk .piece").textContent.length > 500`)
	w.until(inView)
	w.until(`(() => {
		const b = document.querySelector("form[action$='/stop'] button");
		if (b && !b.form.dataset.busy) b.click();
		return !document.querySelector("#talk .running, #talk .piece");
	})()`)
	w.until(inView)
	w.says("[[fake say and on]]")
	w.answers("and on")
	w.until(inView)

	// Who scrolls up stays there, whatever comes, until they are at the end again.
	w.types(kb.Escape)
	asks[bool](w, `window.scrollTo({ top: 100, behavior: "instant" }), true`)
	w.until(`scrollY < 1000 && !document.querySelector(".to-newest").classList.contains("seen")`)
	w.fills("#say", "[[fake say not seen at once]]")
	asks[bool](w, `window.scrollTo({ top: 100, behavior: "instant" }), true`)
	asks[bool](w, `document.getElementById("talk").dispatchEvent(new CustomEvent("htmx:sseMessage", { bubbles: true, detail: {} })), true`)
	asks[bool](w, `(() => { const late = document.getElementById("late"); if (late) late.style.height = "7000px"; return true; })()`)
	if !asks[bool](w, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(scrollY < 1000))))`) {
		t.Error("who reads above is taken to the end")
	}
	asks[bool](w, `window.scrollTo({ top: 1e6, behavior: "instant" }), true`)
	w.until(inView)
	w.types(kb.Enter)
	w.answers("not seen at once")
	w.until(inView)
}

func TestASessionBeginsOnThePages(t *testing.T) {
	s, _ := talking(t)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions")
	w.types("n")
	w.until(`document.querySelector(".begin").open`)
	w.fills("#begin-text", "[[fake say A new one begins.]]")
	w.fills("#begin-project", "/nowhere/at/all")
	w.leaves(func() { w.clicks(".begin button") })
	w.sees("not a work tree of yours")
	w.opens("/sessions")
	w.types("n")
	w.fills("#begin-text", "[[fake say A new one begins.]]")
	w.leaves(func() { w.clicks(".begin button") })
	w.until(`location.pathname.length > 30 && [...document.querySelectorAll("#entries .said.assistant")].some((e) => e.textContent.includes("A new one begins."))`)
	// It goes on like any other.
	w.until(`!document.querySelector("#talk .running, #talk .piece")`)
	w.says("[[fake say And goes on.]]")
	w.until(`[...document.querySelectorAll("#entries .said.assistant")].some((e) => e.textContent.includes("And goes on."))`)
}

func TestOnlyThePersonAtThisMachineTalks(t *testing.T) {
	s, _ := talking(t)
	id := talk(t, s.of("a", "jo"), tidemark.Session{Title: "harbour"}, 1)
	foreign := talk(t, s.of("b", "jo"), tidemark.Session{Title: "market"}, 1)
	w := s.window(t)
	w.signsIn("b")
	w.opens("/sessions/" + string(foreign))
	w.until(`document.querySelector("#entries .said")`)
	if w.count("#composer, #talk .held") > 0 {
		t.Error("somebody else than the person of this machine gets a composer")
	}
	send := func(secret, path string, change func(*http.Request)) int {
		t.Helper()
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", s.url+path, strings.NewReader(url.Values{"text": {"[[fake say no]]"}}.Encode())))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", secret)
		r.Header.Set("Origin", s.url)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Accept", "application/json")
		change(r)
		answer := must[*http.Response](t)(http.DefaultClient.Do(r))
		defer answer.Body.Close()
		io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	a, b := s.cookie("a"), s.cookie("b")
	here := func(*http.Request) {}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	path := "/sessions/" + string(id) + "/say"
	port := s.address[strings.LastIndex(s.address, ":"):]
	for name, c := range map[string]struct {
		secret, path string
		change       func(*http.Request)
		want         int
	}{
		"another user in their own session":  {b, "/sessions/" + string(foreign) + "/say", here, 403},
		"another user in the person's":       {b, path, here, 403},
		"the person in another's session":    {a, "/sessions/" + string(foreign) + "/say", here, 404},
		"a page of another origin":           {a, path, header("Origin", "http://elsewhere.example"), 401},
		"a page of another site":             {a, path, header("Sec-Fetch-Site", "cross-site"), 403},
		"through a proxy":                    {a, path, header("X-Forwarded-For", "203.0.113.7"), 403},
		"by another name of this machine":    {a, path, func(r *http.Request) { r.Host = "tides.example.com" + port; r.Header.Set("Origin", "http://"+r.Host) }, 403},
		"nobody":                             {"tidemark=made-up", path, here, 401},
		"the person":                         {a, path, here, 204},
		"what is no act":                     {a, "/sessions/" + string(id) + "/nothing", here, 404},
		"an answer to what was not asked":    {a, "/sessions/" + string(id) + "/answer", here, 400},
		"asking for a session of another":    {b, "/sessions/" + string(foreign) + "/ask", here, 403},
		"stopping the talk of somebody else": {b, "/sessions/" + string(id) + "/stop", here, 403},
		"another user's new session":         {b, "/sessions/new", here, 403},
		"a new one from another origin":      {a, "/sessions/new", header("Origin", "http://elsewhere.example"), 401},
		"a new one through a proxy":          {a, "/sessions/new", header("X-Forwarded-For", "203.0.113.7"), 403},
	} {
		if got := send(c.secret, c.path, c.change); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if all := prompts(t, s.of("a", "jo"), id); all["[[fake say no]]"] != 1 {
		t.Errorf("said %v", all)
	}
}

func TestASessionThatIsHeldElsewhereIsFollowedAndAskedFor(t *testing.T) {
	s, _ := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 1)
	held := must[*store.Writer](t)(st.Attach(t.Context(), id, process.Self("another terminal")))
	asked := make(chan store.HandoverRequest, 1)
	go held.KeepAlive(t.Context(), func(h store.HandoverRequest) { asked <- h; held.Close(context.WithoutCancel(t.Context())) })
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	w.sees("You read along", "another terminal")
	w.until(`getComputedStyle(document.querySelector("#composer")).display === "none"`)
	if _, err := held.Append(t.Context(), tidemark.Say(tidemark.Assistant, "written elsewhere")); err != nil {
		t.Fatal(err)
	}
	w.until(`document.querySelector("#entries").textContent.includes("written elsewhere")`)
	w.presses(`.held button`)
	<-asked
	w.until(`!document.querySelector("#talk .held") && getComputedStyle(document.querySelector("#composer")).display !== "none"`)
	w.says("[[fake say mine now]]")
	w.answers("mine now")

	// What a client of this server is told, a page shows as it comes.
	other := talk(t, st, tidemark.Session{Title: "a client's"}, 1)
	w.opens("/sessions/" + string(other))
	w.until(`document.querySelector("#composer") && !document.querySelector("#talk .held")`)
	c, _, err := websocket.Dial(t.Context(), s.url+"/api/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {s.cookie("a")}, "Origin": {s.url}, "Sec-Fetch-Site": {"same-origin"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	go func() { // it reads along
		for {
			if _, _, err := c.Read(t.Context()); err != nil {
				return
			}
		}
	}()
	for _, m := range []api.SocketRequest{{Type: api.SocketAttach, Session: string(other)}, {Type: api.SocketSend, Text: endless}} {
		b := must[[]byte](t)(json.Marshal(m))
		if err := c.Write(t.Context(), websocket.MessageText, b); err != nil {
			t.Fatal(err)
		}
	}
	w.until(`document.querySelector("#talk .piece") && document.querySelector("#talk .held")`)
	asks[bool](w, `window.__piece = document.querySelector("#talk .piece"), window.__was = window.__piece.textContent.length, true`)
	w.until(`window.__piece.isConnected && window.__piece.textContent.length > window.__was + 50`)
	if w.count(`form[action$="/stop"], .question`) > 0 {
		t.Error("a page stops the turn of a client")
	}
	c.CloseNow()
	w.until(`!document.querySelector("#talk .piece, #talk .held")`)
}

// talkServer says in the environment of a process that it is a server: the address,
// the folder of its stores, the folder that the agent works in, and the model.
const talkServer = "TIDEMARK_TEST_TALK_SERVER"

type standalone struct{ Address, Stores, Folder, Model string }

// serveTalks is a server of its own, until it is killed.
func serveTalks() {
	var o standalone
	err := json.Unmarshal([]byte(os.Getenv(talkServer)), &o)
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", o.Address)
	}
	var s *Server
	if err == nil {
		d := doors{"a": auth.Local("the secret of tenant a", tidemark.TenantOf("a", "jo"))}
		s, err = New(Options{Auth: d, SignIn: d, Open: sqliteStoresIn(new(never), o.Stores), Chat: talksIn(o.Folder, o.Model), Version: "test", Holder: process.Self("test")})
	}
	if err == nil {
		err = http.Serve(l, s)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// never cleans up: it is killed.
type never struct{}

func (*never) Cleanup(func()) {}

func TestNothingThatWasSaidIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	stores, folder := t.TempDir(), t.TempDir()
	s := newSite(t, chromium(t), sqliteStoresIn(t, stores))
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 2)
	w := s.window(t)
	w.signsIn("a") // the cookie holds with whoever has the same secret
	s.end()
	env := string(must[[]byte](t)(json.Marshal(standalone{s.address, stores, folder, standin.Start(t)})))
	begin := func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env, c.Stderr = append(os.Environ(), talkServer+"="+env), os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	killed := begin()
	waitFor(t, s.address)
	w.opens("/sessions/" + string(id))
	w.says(endless)
	w.until(`document.querySelector("#talk .piece") && document.querySelector("#talk .piece").textContent.length > 100`)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	w.until(`!document.getElementById("banner").hidden`)
	w.fills("#say", "[[fake say I am back]]"+kb.Enter)
	w.sees("the message was not sent")
	if got := asks[string](w, `document.querySelector("#say").value`); got != "[[fake say I am back]]" {
		t.Errorf("%q is left of what was typed", got)
	}
	begin()
	w.until(`document.getElementById("banner").hidden && !document.querySelector("#talk .running")`)
	w.fills("#say", "[[fake say I am back]]"+kb.Enter)
	w.answers("I am back")
	all := prompts(t, st, id)
	if all[endless] != 1 || all["[[fake say I am back]]"] != 1 {
		t.Errorf("said %v", all)
	}
}

// waitFor waits until somebody listens at an address.
func waitFor(t *testing.T, address string) {
	t.Helper()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestAPageWhoseStreamOpensAfterABranchShowsIt(t *testing.T) {
	s, _ := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 3)
	w := s.window(t)
	w.signsIn("a")

	// The page was made before the session went back, and its stream opens afterwards.
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/sessions/"+string(id), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cookie", s.cookie("a"))
	res := must[*http.Response](t)(http.DefaultClient.Do(request))
	defer res.Body.Close()
	made := string(must[[]byte](t)(io.ReadAll(res.Body)))
	_, rest, found := strings.Cut(made, `sse-connect="`)
	stream, _, _ := strings.Cut(rest, `"`)
	if !found || !strings.Contains(made, "answer 3") {
		t.Fatalf("no stream in %.2000s", made)
	}
	goBack := func(seq int64) {
		t.Helper()
		a := must[*store.Writer](t)(st.Attach(t.Context(), id, process.Self("elsewhere")))
		if err := a.Branch(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	goBack(4)
	w.opens("/sessions/" + string(id))
	if asks[bool](w, `document.getElementById("entries").textContent.includes("answer 3")`) {
		t.Error("the page shows another branch")
	}
	// As the page from before would: it has what was said on the other branch.
	name := asks[string](w, fmt.Sprintf(`new Promise((done) => { const s = new EventSource(%q); for (const n of ["reset", "entry"]) s.addEventListener(n, () => { s.close(); done(n); }); })`, strings.ReplaceAll(stream, "&amp;", "&")))
	if name != "reset" {
		t.Errorf("a stream that opens after the session went back begins with %s", name)
	}

	// An open page loads the branch, whoever moved the session.
	w.until(`document.getElementById("live") && document.getElementById("entries").textContent.includes("answer 2")`)
	goBack(2)
	w.until(`!document.getElementById("entries").textContent.includes("answer 2") && document.getElementById("entries").textContent.includes("answer 1")`)
}
