package server

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/web"
)

// linker makes sign-in links.
type linker interface{ NewCode() string }

// signInRoutes are for programs that let a browser in.
func (s *Server) signInRoutes() {
	o := op("POST", "/api/v1/signin-code", "make-signin-code", "Make a code that signs a browser in, once", "admin", Admin)
	huma.Register(s.api, status(o, http.StatusCreated), s.makeSignInCode)
}

type signInCodeOutput struct {
	Body struct {
		Path string    `json:"path" doc:"where the browser goes, on this server"`
		Code string    `json:"code"`
		Till time.Time `json:"till" doc:"it works until then, and once"`
	}
}

func (s *Server) makeSignInCode(ctx context.Context, _ *struct{}) (*signInCodeOutput, error) {
	if c := CallerOf(ctx); !c.Operator || c.Token != "" {
		return nil, fail(ctx, tidemark.ErrDenied)
	}
	l, ok := s.o.SignIn.(linker)
	if !ok {
		return nil, fail(ctx, tidemark.Unsupportedf("people sign in to this server with their organisation; there are no links"))
	}
	var out signInCodeOutput
	out.Body.Code = l.NewCode()
	out.Body.Path, out.Body.Till = "/signin?code="+out.Body.Code, s.o.Now().Add(codeLife)
	return &out, nil
}

// signInPage answers with the page on which people come in.
func signInPage(w http.ResponseWriter, status int, v web.SignInView) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", web.Policy())
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	if v.Done {
		// A redirect would still be a request from where the link stood, and a
		// strict cookie stays at home then. So the page goes on by itself.
		h.Set("Refresh", "0;url=/")
	}
	var body bytes.Buffer
	if err := web.Render(&body, web.Frame{Page: "signin", Now: time.Now()}, v); err != nil {
		http.Error(w, "the page could not be written", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

// SignOut makes the browser forget who it is, and its cookie void where SetUsers
// said that this can be kept.
func (a *LocalAuth) SignOut(w http.ResponseWriter, r *http.Request) error {
	if value := cookieOf(r); a.users != nil && a.cookieHolds(value) {
		if err := a.users.SignOut(r.Context(), value, a.now().Add(cookieLife)); err != nil {
			return err
		}
	}
	c := &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if r.TLS != nil {
		c.Name, c.Secure = secureCookieName, true
	}
	http.SetCookie(w, c)
	return nil
}
