package pages

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// reachShown is how many sessions the palette lists, and reachRead how many of
	// the newest it looks through for a title; the search finds the rest.
	reachShown = 8
	reachRead  = 500
	// paneRows is how many sessions are listed beside the one that is read.
	paneRows = 60
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
			found, err := s.named(r, wordsOf(r), paneRows)
			return "pane", found, err
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

// named are the newest sessions whose title, project or agent has all the words,
// or whose id begins with the only one.
func (s *Site) named(r *http.Request, words []string, limit int) ([]web.Reachable, error) {
	st, err := s.stores.Mine(r.Context())
	if err != nil {
		return nil, err
	}
	var all []web.Reachable
	for i, err := range st.Sessions(r.Context(), store.Filter{Limit: reachRead}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		title := render.CleanLine(i.Title)
		if title == "" {
			title = web.Say("", "session.untitled") + " " + string(i.ID)[:8]
		}
		if fits(words, title+" "+i.Project+" "+i.Agent) || len(words) == 1 && strings.HasPrefix(string(i.ID), words[0]) {
			all = append(all, web.Reachable{Path: "/sessions/" + i.Name(), Text: title, Agent: render.CleanLine(i.Agent), Project: render.CleanLine(i.Project), Turns: i.Nodes, At: i.UpdatedAt})
		}
		if len(all) == limit {
			break
		}
	}
	return all, nil
}

// fits reports whether a text has all the words.
func fits(words []string, text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

func wordsOf(r *http.Request) []string {
	return strings.Fields(strings.ToLower(r.URL.Query().Get("q")))
}

// reach finds what the palette leads to.
func (s *Site) reach(r *http.Request) ([]web.Reachable, error) {
	words := wordsOf(r)
	all, err := s.named(r, words, reachShown)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && len(words) == 1 { // ids of other tools may have capital letters
		st, err := s.stores.Mine(r.Context())
		if err != nil {
			return nil, err
		}
		one, err := called(r.Context(), st, strings.TrimSpace(r.URL.Query().Get("q")))
		if err != nil {
			return nil, err
		}
		if one != nil {
			all = append(all, web.Reachable{Path: "/sessions/" + one.Name, Text: cmp.Or(one.Title, web.Say("", "session.untitled"))})
		}
	}
	if len(words) > 0 {
		q := strings.Join(words, " ")
		all = append(all, web.Reachable{Path: address("/sessions", nil, "q", q), Text: web.Say("", "palette.search", render.CleanLine(q))})
	}
	for _, p := range places {
		if text := web.Say("", p.text); fits(words, text) {
			all = append(all, web.Reachable{Path: p.path, Text: text})
		}
	}
	return all, nil
}
