// Package web is how the pages look: templates, style, a small script and all
// their texts. It does not know where data comes from: package pages gathers it
// into the views below.
//
// It never touches a request, a store or the network.
//
//	err := web.Render(w, web.Frame{Page: "sessions"}, view)
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/render"
)

//go:embed templates assets text
var files embed.FS

// Frame is what surrounds every page.
type Frame struct {
	Page    string // the name of its template and of its texts
	Title   string // "": the text PAGE.title
	Query   string // what was searched for
	User    string // who is signed in, "" when nobody is
	Tenant  string // of the user, for people; "" on one machine
	Role    string // reader, writer, admin
	Path    string // of the page itself, with its query
	Lang    string // "": English
	Now     time.Time
	Notice  string   // what the last action did
	State   *State   // what waits, and what the page is up to; nil: nobody is signed in
	Unknown []string // names in the address that mean nothing here
	Whole   bool     // a script puts it into a page that is there: nothing of it waits for being seen
	Theme   string   // light, dark, contrast; "": as the system has it
	Version string
}

// State is what pages are told about while they are open: what waits for the person,
// and versions of what lists show.
type State struct {
	Waiting  int    `json:"waiting"` // calls of jobs
	Asking   int    `json:"asking"`  // sessions that are talked in
	Sessions string `json:"sessions"`
	Fleet    string `json:"fleet"`
}

// All is how much waits for the person.
func (s State) All() int { return s.Waiting + s.Asking }

// QueryOf is the query of the page itself.
func (f Frame) QueryOf() string {
	_, q, _ := strings.Cut(f.Path, "?")
	return q
}

// May reports whether the viewer may do what needs a role.
func (f Frame) May(role string) bool {
	rank := map[string]int{"reader": 1, "writer": 2, "admin": 3}
	return rank[f.Role] >= rank[role] && rank[role] > 0
}

// shown is what a template gets.
type shown struct {
	Frame
	View any
}

// Render writes a page.
func Render(w io.Writer, f Frame, view any) error {
	t, err := templates()
	if err != nil {
		return err
	}
	page := t[f.Page]
	if page == nil {
		return fmt.Errorf("page %q: there is no such template", f.Page)
	}
	// A page is written completely or not at all.
	var buf bytes.Buffer
	if err := page.ExecuteTemplate(&buf, "layout", shown{f, view}); err != nil {
		return fmt.Errorf("page %q: %w", f.Page, err)
	}
	_, err = w.Write(buf.Bytes())
	return err
}

// Fragment writes a part of a page: the template of that name in the page's
// file.
func Fragment(w io.Writer, f Frame, name string, view any) error {
	t, err := templates()
	if err != nil {
		return err
	}
	page := t[f.Page]
	if page == nil || page.Lookup(name) == nil {
		return fmt.Errorf("page %q: there is no part %q", f.Page, name)
	}
	var buf bytes.Buffer
	if err := page.ExecuteTemplate(&buf, name, shown{f, view}); err != nil {
		return fmt.Errorf("page %q: %s: %w", f.Page, name, err)
	}
	_, err = w.Write(buf.Bytes())
	return err
}

// templates are parsed when the first page is requested: a program that serves
// none does not pay for them. Each page is the layout, the shared parts, and
// its own file.
var templates = sync.OnceValues(func() (map[string]*template.Template, error) {
	base, err := template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := make(map[string]*template.Template)
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if all[name], err = t.ParseFS(files, file); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// Asset is one file that pages load.
type Asset struct {
	Content   []byte
	MediaType string
	Version   string // changes with the content

	// Packed is the content as gzip has it. It is packed once, when it is first asked for.
	Packed func() []byte
}

// bundles are what pages load as one: a browser paints nothing before it has all
// styles, and each request costs it more than their bytes do.
var bundles = map[string][]string{
	"style.css": {"transcript.css", "look.css", "pages.css"},
	"script.js": {"htmx.js", "sse.js", "composer.js", "pages.js"},
}

// assets are all files by name.
var assets = sync.OnceValue(func() map[string]Asset {
	read := func(name string) []byte {
		if name == "transcript.css" {
			return []byte(render.Style()) // an exported page has the same
		}
		content, _ := files.ReadFile("assets/" + name) // they are part of the program
		return content
	}
	all := make(map[string]Asset)
	add := func(name string, content []byte) {
		sum := sha256.Sum256(content)
		all[name] = Asset{Content: content, MediaType: mediaTypes[path.Ext(name)], Version: hex.EncodeToString(sum[:6]),
			Packed: sync.OnceValue(func() []byte { return packed(content) })}
	}
	for name, parts := range bundles {
		var content []byte
		for _, part := range parts {
			content = append(append(content, read(part)...), '\n')
		}
		add(name, content)
	}
	add("mark.svg", read("mark.svg"))
	return all
})

// start is the script that is in each page: to fetch it would take as long again as the
// style, which is fetched meanwhile.
//
//go:embed assets/start.js
var start string

func packed(content []byte) []byte {
	var small bytes.Buffer
	z, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // a level that there is
	z.Write(content)                                          // memory takes it all
	z.Close()
	return small.Bytes()
}

var mediaTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// AssetNamed returns a file that pages load.
func AssetNamed(name string) (Asset, bool) {
	a, ok := assets()[name]
	return a, ok
}

// Policy is what a browser may do on our pages: load only what is ours, and run no
// script or style that is in a page but the one with which each begins.
var Policy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(start))
	return "default-src 'none'; script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
})
