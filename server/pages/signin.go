package pages

import (
	"bytes"
	"net/http"
	"time"

	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
)

// ShowSignIn answers with the sign-in page.
func ShowSignIn(w http.ResponseWriter, status int, v auth.SignInView) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", web.Policy())
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	if v.Done {
		// After a redirect the request would still count as coming from the
		// page with the link, and a strict cookie would not be sent. So the
		// page itself continues.
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
