// Package auth determines who calls: by the token of a server for one user,
// by a service token, by a token of an issuer, or by the cookie of a browser
// that signed in. It slows down guessing, and checks again while an answer
// stays open. It does not decide what a caller may do with sessions.
//
//	known := auth.Any(auth.ServiceTokens(users), auth.Local(token, principal))
//	caller, err := known.Authenticate(r)
package auth

import "net/http"

// SignIn lets people sign in with a browser.
type SignIn interface {
	// ServeSignIn serves the paths below /signin: a form, a link, the answer of
	// an issuer. It sets the cookie that Authenticate then accepts, and calls
	// show to write the page.
	ServeSignIn(w http.ResponseWriter, r *http.Request, show ShowSignIn)
	// SignOut removes the cookie from the browser, and makes it void.
	SignOut(http.ResponseWriter, *http.Request) error
}

// ShowSignIn answers with the sign-in page.
type ShowSignIn func(w http.ResponseWriter, status int, v SignInView)

// SignInView is the sign-in page.
type SignInView struct {
	Done  bool `json:"done,omitempty"`
	Token bool `json:"token,omitempty"` // a token can be given
	// Issuers are the organisations that people sign in with.
	Issuers []SignInIssuer `json:"issuers,omitempty"`
	Wrong   string         `json:"wrong,omitempty"` // what did not work: link, token, issuer, tenant, state
}

// SignInIssuer is one of the organisations that people sign in with.
type SignInIssuer struct {
	Name  string `json:"name"`
	Start string `json:"start"` // where to go to begin
}
