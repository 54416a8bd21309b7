package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/link"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// framed is what the frame of a link's page has: its elements and its text, as the
// browser built them. No script can read it.
type framed struct {
	url      string
	elements []*cdp.Node
	text     strings.Builder
}

func (f *framed) add(n *cdp.Node) {
	switch n.NodeType {
	case 1: // an element
		f.elements = append(f.elements, n)
	case 3: // a text
		f.text.WriteString(n.NodeValue)
	}
	for _, c := range n.Children {
		f.add(c)
	}
}

// attributeOf is that of an element, "" when it has none.
func attributeOf(n *cdp.Node, name string) string {
	for i := 0; i+1 < len(n.Attributes); i += 2 {
		if n.Attributes[i] == name {
			return n.Attributes[i+1]
		}
	}
	return ""
}

// reads waits until the frame of a link's page has a text, and returns what it has.
func (w *window) reads(text string) (f framed) {
	w.t.Helper()
	for till := time.Now().Add(patient); ; {
		f = framed{}
		ctx, cancel := context.WithTimeout(w.ctx, patient)
		all, err := chromedp.Call(ctx, dom.GetDocument, dom.GetDocumentParams{Depth: new(int64(-1)), Pierce: new(true)})
		cancel()
		if err == nil {
			var find func(*cdp.Node)
			find = func(n *cdp.Node) {
				if n.ContentDocument != nil {
					f.url = n.ContentDocument.DocumentURL
					f.add(n.ContentDocument)
				}
				for _, c := range n.Children {
					find(c)
				}
			}
			find(all.Root)
		}
		if strings.Contains(f.text.String(), text) {
			return f
		}
		if time.Now().After(till) {
			w.t.Fatalf("the frame never had %q (%v) on %s: %.500q", text, err, w.where(), f.text.String())
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// clicksIn clicks on a link in the frame until it has led somewhere. What is not drawn
// yet has no place, so that it is looked for again as long as somebody would wait.
func (w *window) clicksIn(text, href, leads string) {
	w.t.Helper()
	for till := time.Now().Add(patient); ; time.Sleep(15 * time.Millisecond) {
		f := w.reads(text)
		if f.url == leads {
			return
		}
		if time.Now().After(till) {
			w.t.Fatalf("%s leads to %s", href, f.url)
		}
		i := slices.IndexFunc(f.elements, func(n *cdp.Node) bool { return attributeOf(n, "href") == href })
		if i < 0 {
			continue
		}
		at, err := chromedp.Call(w.ctx, dom.GetContentQuads, dom.GetContentQuadsParams{BackendNodeID: f.elements[i].BackendNodeID})
		if err == nil && len(at.Quads) > 0 && len(at.Quads[0]) == 8 {
			q := at.Quads[0]
			w.do(chromedp.MouseClickXY((q[0]+q[4])/2, (q[1]+q[5])/2))
		}
	}
}

// shares makes a link of jo of tenant a to what link.Render packs, and returns its
// path and its key.
func (s *site) shares(t *testing.T, packed []byte) (path, key string) {
	t.Helper()
	sealed, key, err := link.Seal(packed)
	if err != nil {
		t.Fatal(err)
	}
	jo := tidemark.TenantOf("a", "jo")
	l := must[tenant.Link](t)(s.operators(t).PutLink(t.Context(), tenant.Link{Name: link.NewName(), Tenant: jo.Tenant, User: jo.User, ExpiresAt: time.Now().Add(time.Hour)}, sealed))
	return "/shared/" + l.Name, key
}

func (s *site) operators(t *testing.T) *tenant.Directory {
	t.Helper()
	return must[*tenant.Directory](t)(s.server.stores.Operators(t.Context()))
}

// copied is a session as a link leads to it.
func copied(t *testing.T, st *store.Store, id tidemark.SessionID) []byte {
	t.Helper()
	v := must[*store.View](t)(st.View(t.Context(), id))
	return must[[]byte](t)(link.Render(t.Context(), st, store.Point{View: v}, "", false))
}

func TestALinkOpensInABrowserThatKnowsNobody(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		st := s.of("a", "jo")
		out := st.Create(tidemark.Session{Title: "the crane"}, process.Self("talk"))
		must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "lift the anchor, see https://elsewhere.example/x")))
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		path, key := s.shares(t, copied(t, st, out.ID()))
		w := s.window(t)
		w.opens(path + "#" + key)
		f := w.reads("lift the anchor")
		w.until(`!document.getElementById("session").hidden && document.getElementById("says").hidden`)
		if i := slices.IndexFunc(f.elements, func(n *cdp.Node) bool { return attributeOf(n, "href") == "https://elsewhere.example/x" }); i < 0 || attributeOf(f.elements[i], "target") != "_blank" {
			t.Errorf("the link in the session is none that opens a window of its own")
		}
		w.clicksIn("lift the anchor", "#e1", "about:srcdoc#e1")
		if asks[bool](w, `(() => { try { return document.getElementById("session").contentDocument !== null } catch { return false } })()`) {
			t.Error("a script of the page reaches into the frame")
		}

		// Without the key, with another one, with a part of it.
		w.opens(path + "?a")
		w.sees("The key is missing")
		w.fills("#key", key)
		w.clicks("#ask button")
		w.reads("lift the anchor")
		w.opens(path + "?b#" + strings.Repeat("A", 43))
		w.sees("The key does not fit this copy")
		w.opens(path + "?c#" + key[:20])
		w.sees("The key is missing")

		jo := tidemark.TenantOf("a", "jo")
		must[tenant.Link](t)(s.operators(t).RevokeLink(t.Context(), jo.Tenant, jo.User, strings.TrimPrefix(path, "/shared/")))
		w.opens(path + "?d#" + key)
		w.sees("This link was revoked")
		w.opens("/shared/" + link.NewName() + "#" + key)
		w.sees("There is no such link")
	})
}

// prints prints what the window shows, and returns how many pages that are.
func (w *window) prints() (pages int) {
	w.t.Helper()
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		printed, err := cdp.Call(ctx, t, cdpage.PrintToPDF, cdpage.PrintToPDFParams{})
		if err == nil {
			pages = len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(printed.Data, -1))
		}
		return err
	}))
	return pages
}

// What is shown in a frame of which nothing out here knows how long it is has as many
// pages as it needs, and is shown as before after it.
func TestALinkIsPrintedToItsEnd(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	path, key := s.shares(t, copied(t, st, talk(t, st, tidemark.Session{Title: "the crane"}, 60)))
	w := s.window(t)
	w.opens(path + "#" + key)
	w.reads("answer 60 about the tide")
	w.until(`document.getElementById("says").hidden`)
	before := asks[string](w, `document.body.innerHTML`)
	if n := w.prints(); n < 4 {
		t.Errorf("60 turns are printed on %d pages", n)
	}
	w.until(`!document.querySelector("body > article")`)
	if after := strings.ReplaceAll(asks[string](w, `document.body.innerHTML`), ` style=""`, ""); after != before {
		t.Errorf("after it was printed, the page has\n%s\nand before\n%s", after, before)
	}
}

// TestHostileTranscriptsDoNothingBehindALink opens copies that are full of what should
// not get through. The window fails by itself when something asks for anything
// elsewhere, or the policy had to step in.
func TestHostileTranscriptsDoNothingBehindALink(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	w := s.window(t)
	for seed := range uint64(6) {
		c := hostile.New(3_000_000 + seed)
		out := st.Create(tidemark.Session{Title: c.Disguise(c.Of(hostile.Payloads)), Agent: c.Of(hostile.Payloads), Project: c.Of(hostile.Goals), Tags: []string{c.Of(hostile.Payloads)}}, process.Self("talk"))
		for range 30 {
			e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Model: c.Of(hostile.Payloads), Blocks: []tidemark.Block{c.Block(0), c.Block(0)}}
			_, _ = out.Append(t.Context(), e) // what no store takes, no page has to show
		}
		must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "this is the end of it")))
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		path, key := s.shares(t, copied(t, st, out.ID()))
		w.opens(path + "#" + key)
		for _, n := range w.reads("this is the end of it").elements {
			if slices.Contains([]string{"script", "iframe", "frame", "object", "embed", "form", "link", "video", "audio", "svg", "math"}, n.LocalName) {
				t.Errorf("the frame has <%s>", n.LocalName)
			}
			if n.LocalName == "base" && attributeOf(n, "href") != "about:srcdoc" {
				t.Errorf("the frame has <base %q>", n.Attributes)
			}
			for i := 0; i < len(n.Attributes); i += 2 {
				if strings.HasPrefix(n.Attributes[i], "on") || n.Attributes[i] == "style" || strings.HasPrefix(strings.ToLower(strings.TrimSpace(n.Attributes[i+1])), "javascript:") {
					t.Errorf("the frame has %s=%q", n.Attributes[i], n.Attributes[i+1])
				}
			}
		}
		w.prints()
		if asks[bool](w, `!!window.__pwned`) {
			t.Error("a script ran")
		}
	}
}

// bare opens a window that writes nothing down: what it opens breaks rules on purpose.
func (s *site) bare(t *testing.T) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(s.chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	// The window lives as long as the context that it was first used with.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &window{t: t, ctx: ctx, site: s}
}

// TestWhoeverMakesALinkCannotMakeItsPageDoAnything shares pages that this program would
// never write.
func TestWhoeverMakesALinkCannotMakeItsPageDoAnything(t *testing.T) {
	s := onSQLite(t)
	var asked atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Store(r.URL.Path) }))
	t.Cleanup(elsewhere.Close)
	w := s.bare(t)
	for _, page := range []string{
		`<script>parent.__pwned = top.__pwned = true; fetch("ELSEWHERE/fetched")</script><p>shown`,
		`<img src="ELSEWHERE/i.png"><p>shown`,
		`<link rel="stylesheet" href="ELSEWHERE/s.css"><style>@import "ELSEWHERE/t.css"; body { background: url(ELSEWHERE/b.png) }</style><p>shown`,
		`<meta http-equiv="refresh" content="0;url=ELSEWHERE/r"><p>shown`,
		`<iframe src="ELSEWHERE/f"></iframe><iframe srcdoc="<script>top.__pwned = true</script>"></iframe><p>shown`,
		`<base href="ELSEWHERE/"><img src="x" onerror="top.__pwned = true"><p>shown`,
		`<video src="ELSEWHERE/v" autoplay></video><object data="ELSEWHERE/o"></object><p>shown`,
		`<form action="ELSEWHERE/form"><input autofocus onfocus="top.__pwned = true; this.form.submit()"></form><p>shown`,
	} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write([]byte(strings.ReplaceAll(page, "ELSEWHERE", elsewhere.URL))); err != nil || z.Close() != nil {
			t.Fatal("gzip")
		}
		path, key := s.shares(t, packed.Bytes())
		w.opens(path + "#" + key)
		w.reads("shown")
		w.until(`document.getElementById("says").hidden`)
		w.prints()
		w.until(`location.pathname === "` + path + `" && document.getElementById("says").hidden`)
		if asks[bool](w, `!!window.__pwned`) {
			t.Errorf("a script of %s ran", page)
		}
	}
	// What a page asks for late is asked for before this one has come.
	w.opens("/shared/" + link.NewName())
	w.sees("There is no such link")
	if asked := asked.Load(); asked != nil {
		t.Errorf("a page asked for %v", asked)
	}
}

func TestAFileOfASessionOpensByItself(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "the crane"}, 3)
	v := must[*store.View](t)(st.View(t.Context(), id))
	var file bytes.Buffer
	made := must[link.Made](t)(link.WriteFile(t.Context(), store.Point{View: v}, link.Options{}, "a crane.html", func(write func(io.Writer) error) error { return write(&file) }))
	_, key, _ := strings.Cut(made.URL, "#")
	var asked atomic.Int64
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/crane.html" {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(file.Bytes())
	}))
	t.Cleanup(from.Close)
	w := s.bare(t)
	w.do(chromedp.Navigate(from.URL + "/crane.html#" + key))
	w.reads("answer 3 about the tide")
	w.do(chromedp.Navigate(from.URL + "/crane.html?later"))
	w.sees("The key is missing")
	w.fills("#key", key)
	w.clicks("#ask button")
	w.reads("answer 3 about the tide")
	if n := asked.Load(); n > 1 { // a browser looks for an icon
		t.Errorf("the file asked for %d things", n)
	}
}

func TestAFileOfASessionOpensFromADisk(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "the crane"}, 3)
	v := must[*store.View](t)(st.View(t.Context(), id))
	name := filepath.Join(t.TempDir(), "a crane.html")
	made := must[link.Made](t)(link.WriteFile(t.Context(), store.Point{View: v}, link.Options{}, name, func(write func(io.Writer) error) error {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}))
	w := s.bare(t)
	w.do(chromedp.Navigate(made.URL))
	w.reads("answer 3 about the tide")
}

func TestALinkThatExpiredSaysSoInABrowser(t *testing.T) {
	s := onSQLite(t)
	var l tenant.Link
	// On a busy machine a second may be over before it is stored.
	for life, err := time.Second, errors.New("not stored yet"); err != nil; life *= 2 {
		if life > time.Minute {
			t.Fatal(err)
		}
		l, err = s.operators(t).PutLink(t.Context(), tenant.Link{Name: link.NewName(), Tenant: "a", User: "jo", ExpiresAt: time.Now().Add(life)}, []byte("sealed"))
	}
	w := s.window(t)
	time.Sleep(time.Until(l.ExpiresAt))
	w.opens("/shared/" + l.Name + "#" + strings.Repeat("A", 43))
	w.sees("This link has expired, and the copy that it led to was removed.")
}
