package server

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
