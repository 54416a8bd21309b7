// Package pages is what people see of the server in a browser: sessions, the
// fleet, usage, the store. A page gathers what it shows, and package web below it
// decides how that looks; forms are carried out by the routes for programs, so
// that both follow one set of rules.
//
//	http.Handle("/", pages.New(pages.Options{Stores: all, API: calls}))
package pages

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

// Options configure the pages; SignIn and Inspect may be nil.
type Options struct {
	Stores   *stores.Stores
	API      *routes.Server // carries out the forms
	Shutdown *request.Shutdown
	SignIn   auth.SignIn
	// Inspect returns what the pages say about the storage: its size, its keys,
	// its copies; nil: nothing is known.
	Inspect func(context.Context, tidemark.Principal) (Inspection, error)
	// Watched returns what a watcher follows on this machine; nil, or without an answer:
	// that is not known.
	Watched func(context.Context, tidemark.Principal) (*web.Watch, error)
	Formats []string // of an export
	NoAudit bool
	Version string
	Now     func() time.Time
}

// Site is all pages, as an http.Handler.
type Site struct {
	o        Options
	pages    *http.ServeMux
	stores   *stores.Stores
	api      *routes.Server
	shutdown *request.Shutdown

	tallies tallies // what sessions used
	surveys surveys // and all of them together
	states  states  // what pages were told last
	tasks   tasks   // background tasks of pages
}

// New returns the pages.
func New(o Options) *Site {
	s := &Site{o: o, pages: http.NewServeMux(), stores: o.Stores, api: o.API, shutdown: o.Shutdown}
	s.pageRoutes()
	return s
}

// Routes names the pages.
func (s *Site) Routes() *http.ServeMux { return s.pages }

// view is what a page shows: a value for its template, which is sent as JSON if
// requested.
type view struct {
	web.Frame
	Data any
}

// pageRoutes are the pages. Each is registered with the role it needs, and
// gathers what it shows; package web decides how that looks.
func (s *Site) pageRoutes() {
	s.pages.HandleFunc("GET /assets/{name}", serveAsset)
	s.page("/{$}", request.Reader, s.homePage)
	s.pages.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Trouble(w, r, tidemark.NotFoundf("%s: nothing is here", r.URL.Path))
	})
	s.pages.HandleFunc("POST /signout", func(w http.ResponseWriter, r *http.Request) {
		if s.o.SignIn != nil {
			if err := s.o.SignIn.SignOut(w, r); err != nil {
				s.Trouble(w, r, err) // a copy of the cookie may still be valid
				return
			}
		}
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
	})
	s.pages.HandleFunc("GET /live", s.stateStream)
	s.palettePages()
	s.sessionPages()
	s.fleetPages()
	s.usagePages()
	s.storePages()
}

// page registers a page.
func (s *Site) page(pattern string, need request.Role, gather func(*http.Request) (view, error)) {
	s.pages.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		if !request.CallerOf(r.Context()).Role.May(need) {
			s.Trouble(w, r, tidemark.ErrDenied)
			return
		}
		if to := goOn(w, r); to != "" && pattern == "/{$}" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		v, err := gather(r)
		var to elsewhere
		if errors.As(err, &to) {
			http.Redirect(w, r, string(to), http.StatusSeeOther)
			return
		}
		if err != nil {
			s.Trouble(w, r, err)
			return
		}
		v.Unknown = append(v.Unknown, unknownNames(pattern, r.URL.Query())...)
		s.show(w, r, http.StatusOK, v)
	})
}

// elsewhere is where a page is that was asked for by another address.
type elsewhere string

func (e elsewhere) Error() string { return "the page is at " + string(e) }

// names are those that may stand in the address of a page, by its pattern.
var names = map[string][]string{
	"/{$}":           {"days"},
	"/sessions":      {"q", "project", "agent", "label", "since", "until", "state", "tool", "model", "gone", "role", "failed", "cost", "active", "hour", "sort", "order", "from", "cursor", "count"},
	"/sessions/{id}": {"worker", "node", "at", "find", "hits", "on", "from", "to", "before", "later", "onward"}, "/sessions/{id}/tree": {"worker", "node", "tree", "skip"},
	"/fleet": {"was"}, "/fleet/agents/{name}": {"was"}, "/fleet/jobs": {"agent", "status", "since", "view", "by", "node", "started", "runs", "under", "cursor", "was"}, "/fleet/jobs/{id}": {"before", "was"},
	"/usage": {"by", "metric", "bucket", "tz", "since", "until"}, "/store/audit": {"cursor", "limit", "tenant", "who", "what", "since", "until"}, "/store/tokens": {"cursor", "limit", "tenant"},
	"/store/users": {"cursor", "limit", "tenant"}, "/store/links": {"cursor", "limit", "tenant"}, "/store/tenants": {"cursor", "limit", "tenant"},
	"/store/users/{id}": {"tenant"},
}

// maxUnknown bounds how many names that mean nothing are told.
const maxUnknown = 5

// unknownNames are the names in an address that a page does not know: whoever
// mistyped one should not take what is shown for what they asked for.
func unknownNames(pattern string, q url.Values) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(names[pattern], name) && len(all) < maxUnknown {
			all = append(all, render.CleanLine(name[:min(len(name), 40)]))
		}
	}
	return all
}

// act registers the action of a form. It returns where the browser goes next,
// and the message to show there.
func (s *Site) act(pattern string, need request.Role, do func(*http.Request) (next, notice string, err error)) {
	s.pages.HandleFunc("POST "+pattern, func(w http.ResponseWriter, r *http.Request) {
		if !request.CallerOf(r.Context()).Role.May(need) {
			s.Trouble(w, r, tidemark.ErrDenied)
			return
		}
		next, notice, err := do(whole(r))
		if err != nil {
			s.Trouble(w, r, err)
			return
		}
		if notice != "" {
			http.SetCookie(w, noticeCookie(r, base64.RawURLEncoding.EncodeToString([]byte(notice)), 10))
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

// whole is a request to change something, which is done whole: who sends a form and
// leaves the page at once has sent it.
func whole(r *http.Request) *http.Request { return r.WithContext(context.WithoutCancel(r.Context())) }

// noticeCookie carries the message of an action to the next page. It is not
// part of the address, which anybody could make up.
func noticeCookie(r *http.Request, value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: "tidemark-notice", Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

func noticeOf(r *http.Request) string {
	c, err := r.Cookie("tidemark-notice")
	if err != nil {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(text) > 500 {
		return ""
	}
	return render.CleanLine(string(text))
}

// frame is what surrounds every page.
func (s *Site) frame(r *http.Request, page string) web.Frame {
	c := request.CallerOf(r.Context())
	path := r.URL.Path
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.Query().Encode()
	}
	return web.Frame{Page: page, User: c.Name, Tenant: c.Tenant, Role: string(c.Role), Path: path, Query: r.URL.Query().Get("q"),
		Now: s.o.Now(), Whole: r.Header.Get("HX-Request") != "", Notice: noticeOf(r), Theme: themeOf(r), Version: s.o.Version}
}

type asJSONKey struct{}

// wantsJSON reports whether a page was requested as JSON: PATH.json.
func wantsJSON(r *http.Request) bool {
	is, _ := r.Context().Value(asJSONKey{}).(bool)
	return is
}

// ServeHTTP serves everything that is not a call of the API.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", web.Policy())
	// Without a referrer, browsers call the origin of a form null, and we could
	// not tell our own pages from others.
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	if path, ok := strings.CutSuffix(r.URL.Path, ".json"); ok && !strings.HasPrefix(path, "/assets/") {
		r = r.Clone(context.WithValue(r.Context(), asJSONKey{}, true))
		r.URL.Path, r.URL.RawPath = path, ""
	}
	s.pages.ServeHTTP(w, r)
}

// show answers with a page, or with its data as JSON.
func (s *Site) show(w http.ResponseWriter, r *http.Request, status int, v view) {
	if v.Notice != "" {
		http.SetCookie(w, noticeCookie(r, "", -1))
	}
	var body bytes.Buffer
	var err error
	media := "text/html; charset=utf-8"
	begun := false
	if wantsJSON(r) {
		media = "application/json"
		enc := json.NewEncoder(&body)
		enc.SetIndent("", "  ")
		err = enc.Encode(v.Data)
	} else {
		if v.User != "" && v.Page != "error" && request.CallerOf(r.Context()).Role.May(request.Reader) {
			state := s.stateOf(r.Context())
			v.State = &state
		}
		if begun = status == http.StatusOK && r.Method == http.MethodGet; begun {
			beginPage(w, r, media) // with the position of all that it shows
		}
		err = web.Render(&body, v.Frame, v.Data)
	}
	switch {
	case err != nil && begun:
		request.Note(r.Context(), "error", err.Error())
		panic(http.ErrAbortHandler) // the browser is told that nothing came
	case err != nil:
		request.Note(r.Context(), "error", err.Error())
		http.Error(w, "the page could not be written", http.StatusInternalServerError)
	case begun && takesPacked(r):
		pack(w, body.Bytes())
	case begun:
		w.Write(body.Bytes())
	default:
		answerBody(w, r, status, media, body.Bytes())
	}
}

// beginPage sends what stands before a page whose content is known, while that is still
// written: the browser makes a process for it meanwhile, which takes it longer. A page
// has no tag, since no two are the same: it says when it was made.
func beginPage(w http.ResponseWriter, r *http.Request, media string) {
	describe(w, media)
	h := w.Header()
	if h.Get("Cache-Control") == "no-store" {
		h.Set("Cache-Control", "private, no-cache")
	}
	if takesPacked(r) {
		h.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush() // where that cannot be done it goes with the rest
}

// describe says what an answer is and what it depends on.
func describe(w http.ResponseWriter, media string) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Vary", "Accept-Encoding, Cookie, Authorization, HX-Request")
}

// takesPacked reports whether the client reads what is compressed.
func takesPacked(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// smallestPacked is the size below which compression saves nothing.
const smallestPacked = 1024

// packers are compressors that wait for a page: to make one takes as long as to use it.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// answerBody answers with a body that the client may have already, compressed
// if the client supports it.
func answerBody(w http.ResponseWriter, r *http.Request, status int, media string, body []byte) {
	answerPacked(w, r, status, media, body, func(w io.Writer) { pack(w, body) })
}

// pack writes a body compressed.
func pack(w io.Writer, body []byte) {
	z := packers.Get().(*gzip.Writer)
	z.Reset(w)
	z.Write(body)
	z.Close()
	z.Reset(nil) // it keeps nothing of this answer
	packers.Put(z)
}

// answerPacked is answerBody with its own way to write the compressed body.
func answerPacked(w http.ResponseWriter, r *http.Request, status int, media string, body []byte, pack func(io.Writer)) {
	describe(w, media)
	h := w.Header()
	if status == http.StatusOK && r.Method != http.MethodPost {
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", tag)
		if h.Get("Cache-Control") == "no-store" {
			h.Set("Cache-Control", "private, no-cache")
		}
		if strings.Contains(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if len(body) < smallestPacked || !takesPacked(r) {
		w.WriteHeader(status)
		w.Write(body)
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	pack(w)
}

// trouble is the content of an error page.
type trouble struct {
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Request string `json:"request"`
	// Sealed means that the server has no key for what it keeps; Read is the
	// command that reads it where the key is.
	Sealed bool   `json:"sealed,omitempty"`
	Read   string `json:"read,omitempty"`
}

// sealed tells whoever asks for what only its owner's key opens how to read it.
func (t *trouble) sealed(r *http.Request) {
	scheme := "http://"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https://"
	}
	t.Sealed, t.Read = true, "tidemark --store "+scheme+render.CleanLine(r.Host)+" ls"
	if id, ok := strings.CutPrefix(r.URL.Path, "/sessions/"); ok {
		if id, _, _ = strings.Cut(id, "/"); tidemark.CheckID(id) == nil {
			t.Read = strings.TrimSuffix(t.Read, "ls") + "show " + id
		}
	}
}

// troubles are the errors with texts of their own.
var troubles = []int{400, 401, 403, 404, 409, 423, 500, 503}

// Trouble answers with a page that helps.
func (s *Site) Trouble(w http.ResponseWriter, r *http.Request, err error) {
	p := request.Problem(err)
	status, known := p.Status, p.Status
	if !slices.Contains(troubles, known) {
		known = 500
		if status < 500 {
			known = 400
		}
	}
	if status >= 500 {
		request.Note(r.Context(), "error", err.Error())
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", "2")
	}
	if status == http.StatusServiceUnavailable && r.Method == http.MethodGet {
		w.Header().Set("Refresh", "5") // the page says that it retries
	}
	detail := p.Detail
	if errors.Is(err, tidemark.ErrDenied) {
		detail = ""
	}
	f := s.frame(r, "error")
	if status == http.StatusUnauthorized && r.Method == http.MethodGet && !wantsJSON(r) && (r.Header.Get("Sec-Fetch-Dest") == "" || r.Header.Get("Sec-Fetch-Dest") == "document") {
		http.SetCookie(w, next(r, ownPath(f.Path), nextSeconds))
	}
	t := trouble{Status: known, Detail: render.CleanLine(detail), Request: request.ID(r.Context())}
	if errors.Is(err, tidemark.ErrSealed) {
		t.sealed(r)
	}
	f.Title = troubleTitle(t)
	s.show(w, r, status, view{f, t})
}

// troubleTitle is what the tab of a trouble is called: what happened, or what to do
// where that is all there is to it.
func troubleTitle(t trouble) string {
	switch {
	case t.Status == http.StatusUnauthorized:
		return web.Say("", "nav.signin")
	case t.Sealed:
		return strings.TrimSuffix(web.Say("", "error.sealed"), ".")
	}
	return strings.TrimSuffix(web.Say("", "error."+strconv.Itoa(t.Status)), ".")
}

// serveAsset answers with a file that pages load. Its address changes with it.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	a, ok := web.AssetNamed(name)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if a.Version != "" && r.URL.Query().Get("v") == a.Version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	answerPacked(w, r, http.StatusOK, a.MediaType, a.Content, func(w io.Writer) { w.Write(a.Packed()) })
}
