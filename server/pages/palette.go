package pages

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
)

const (
	// reachShown is how many sessions the palette lists for words, and reachNewest how
	// many before anything is typed: the actions and pages below are to be seen, too.
	reachShown  = 8
	reachNewest = 5
)

// places are the pages that the palette leads to, by the name of their text.
var places = []struct{ path, text string }{
	{"/", "nav.home"}, {"/sessions", "nav.sessions"}, {"/fleet", "nav.fleet"}, {"/fleet/jobs", "jobs.title"}, {"/usage", "nav.usage"}, {"/store", "nav.store"},
	{"/sessions?state=trash", "sessions.trash"},
}

// themes are the values that somebody may choose.
var themes = map[string]bool{"light": true, "dark": true, "contrast": true}

const themeCookie = "tidemark-theme"

// themeOf is what the browser was told to use.
func themeOf(r *http.Request) string {
	c, err := r.Cookie(themeCookie)
	if err != nil || !themes[c.Value] {
		return ""
	}
	return c.Value
}

// palettePages are what stands on pages of all kinds: the palette, the list beside
// a session, and the choice of a theme.
func (s *Site) palettePages() {
	s.pages.HandleFunc("GET /palette", func(w http.ResponseWriter, r *http.Request) {
		s.fragment(w, r, func() (string, any, error) {
			found, err := s.reach(r)
			return "reach", found, err
		})
	})
	s.pages.HandleFunc("GET /pane", func(w http.ResponseWriter, r *http.Request) {
		s.fragment(w, r, func() (string, any, error) {
			beside, err := s.pane(r)
			return "pane", beside, err
		})
	})
	s.pages.HandleFunc("POST /look", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			s.Trouble(w, r, tidemark.Invalidf("form: %w", err))
			return
		}
		c := &http.Cookie{Name: themeCookie, Value: r.PostForm.Get("theme"), Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode}
		if !themes[c.Value] {
			c.Value, c.MaxAge = "", -1
		}
		http.SetCookie(w, c)
		http.Redirect(w, r, ownPath(r.PostForm.Get("back")), http.StatusSeeOther)
	})
}

// ownPath returns a path of this site that a form brought, and the first page for
// anything that could lead elsewhere.
func ownPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// fits reports whether a text has all the words.
func fits(words []string, text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

func wordsOf(r *http.Request) []string {
	return strings.Fields(strings.ToLower(r.URL.Query().Get("q")))
}

// reach finds what the palette leads to. The actions of the page that it is open on
// are known there.
func (s *Site) reach(r *http.Request) (*web.Palette, error) {
	words, v := wordsOf(r), &web.Palette{}
	for _, p := range places {
		if text := web.Say("", p.text); fits(words, text) {
			v.Places = append(v.Places, web.Reachable{Path: p.path, Text: text})
		}
	}
	var err error
	if len(words) == 0 {
		v.Sessions, _, err = s.newestRows(r, nil, reachNewest)
		return v, err
	}
	if v.Sessions, v.Said, err = s.sought(r, reachShown); err != nil {
		return nil, err
	}
	q := strings.Join(words, " ")
	v.Search = &web.Reachable{Path: address("/sessions", nil, "q", q), Text: web.Say("", "palette.search", render.CleanLine(q))}
	if len(v.Sessions)+len(v.Said) > 0 || len(words) > 1 {
		return v, nil
	}
	st, err := s.stores.Mine(r.Context())
	if err != nil {
		return nil, err
	}
	one, err := called(r.Context(), st, strings.TrimSpace(r.URL.Query().Get("q"))) // ids of other tools may have capital letters
	if one != nil {
		v.Sessions = []web.Reachable{{Path: "/sessions/" + one.Name, Text: cmp.Or(one.Title, web.Say("", "session.untitled"))}}
	}
	return v, err
}
