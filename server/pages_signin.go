package server

import (
	"bytes"
	"net/http"
	"time"

	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/web"
)

// showSignIn answers with the page on which people come in.
func showSignIn(w http.ResponseWriter, status int, v auth.SignInView) {
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
