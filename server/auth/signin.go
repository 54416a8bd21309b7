// Package auth says who calls: by the token of a server for one user, by a
// service token, by a token of an issuer, or by the cookie of a browser that
// signed in. It slows down who guesses, and asks again while an answer stays
// open. What a caller may do with sessions is not decided here.
//
//	known := auth.Any(auth.ServiceTokens(users), auth.Local(token, principal))
//	caller, err := known.Authenticate(r)
package auth

import "net/http"

// SignIn lets people in with a browser.
type SignIn interface {
	// ServeSignIn answers below /signin: a form, a link, what an issuer sends
	// back. It sets the cookie that Authenticate then takes, and lets show write
	// the page.
	ServeSignIn(w http.ResponseWriter, r *http.Request, show ShowSignIn)
	// SignOut makes the browser forget who it is, and its cookie void.
	SignOut(http.ResponseWriter, *http.Request) error
}

// ShowSignIn answers with the page on which people come in.
type ShowSignIn func(w http.ResponseWriter, status int, v SignInView)

// SignInView is the page on which people come in.
type SignInView struct {
	Done   bool   `json:"done,omitempty"`
	Token  bool   `json:"token,omitempty"`  // a token can be given
	Issuer string `json:"issuer,omitempty"` // the organisation that people sign in with
	Wrong  string `json:"wrong,omitempty"`  // what did not work: link, token, issuer, tenant, state
}
