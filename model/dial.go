package model

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Straight returns a client like c, or like the default one, that follows no
// redirects: they would send the key to another host.
func Straight(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	straight := *c
	straight.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &straight
}

// ParseBase parses the address of a server. An invalid one is ErrInvalid.
func ParseBase(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, tidemark.Invalidf("base URL %.200q: want http://HOST or https://HOST", base)
	}
	return u, nil
}

// shortestKey is how long a key is that is worth hiding. Servers that want none are
// given a word such as "none".
const shortestKey = 6

// WithoutKeys removes keys from a server's response: some servers quote them.
func WithoutKeys(page []byte, keys ...string) []byte {
	for _, key := range keys {
		if len(key) >= shortestKey {
			page = bytes.ReplaceAll(page, []byte(key), []byte("[key]"))
		}
	}
	return page
}
