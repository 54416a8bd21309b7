package link

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	backend "github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// DefaultLife is how long a link leads somewhere unless its maker says otherwise.
const DefaultLife = 7 * 24 * time.Hour

// Options say what a copy is like. The zero value is the whole branch that a session
// is on, for DefaultLife.
type Options struct {
	// Node is what the point is called, for the page; "" for a whole session.
	Node string
	// Redact masks secrets.
	Redact bool
	// Life is how long the link leads to the copy.
	Life time.Duration
}

// Made is a link or a file that was made, or a link that a server knows.
type Made struct {
	URL       string             `json:"url,omitempty"` // with the key, if it was made just now
	File      string             `json:"file,omitempty"`
	Name      string             `json:"name,omitempty"`
	Session   tidemark.SessionID `json:"session,omitempty"`
	State     string             `json:"state,omitempty"`
	Bytes     int64              `json:"bytes"`
	Redacted  bool               `json:"redacted,omitempty"`
	CreatedAt time.Time          `json:"created_at,omitzero"`
	ExpiresAt time.Time          `json:"expires_at,omitzero"`
	EndedAt   time.Time          `json:"ended_at,omitzero"`
	User      string             `json:"user,omitempty"`  // who made it, in a list of everybody's
	Owner     string             `json:"owner,omitempty"` // what they are called
	RevokedBy string             `json:"revoked_by,omitempty"`
}

// Columns are those of Row.
var Columns = []string{"NAME", "STATE", "EXPIRES", "BYTES", "SESSION"}

// Row is a link in a table. When formats a time.
func (m Made) Row(when func(time.Time) string) []string {
	return []string{m.Name, m.State, when(m.ExpiresAt), strconv.FormatInt(m.Bytes, 10), string(m.Session)}
}

// OwnedColumns are those of OwnedRow.
var OwnedColumns = []string{"NAME", "OWNER", "STATE", "MADE", "EXPIRES", "BYTES"}

// OwnedRow is a link in a table of everybody's.
func (m Made) OwnedRow(when func(time.Time) string) []string {
	return []string{m.Name, cmp.Or(m.Owner, m.User), m.State, when(m.CreatedAt), when(m.ExpiresAt), strconv.FormatInt(m.Bytes, 10)}
}

// Server keeps links.
type Server struct {
	address string
	token   func(context.Context) (string, error)
	users   bool   // the links of all users of the tenant are meant, not those of the caller
	tenant  string // "": that of the caller
}

// OfUsers returns the server for an admin, who sees to the links of all users of a
// tenant; "": their own. An operator may name any.
func (s Server) OfUsers(tenant string) Server {
	s.users, s.tenant = true, tenant
	return s
}

// At returns the server at an address. Token returns the caller's token for it.
func At(address string, token func(context.Context) (string, error)) Server {
	return Server{address: strings.TrimSuffix(strings.TrimRight(address, "/"), "/tenant"), token: token}
}

// Find returns the server that keeps the links of who uses a store: the one that is
// named, the one that the store is on, or the only one among the URLs of its remotes.
// ErrInvalid: none of them. Tokens returns the caller's token for an address.
func Find(named, storeURL string, remotes []string, tokens func(string) func(context.Context) (string, error)) (Server, error) {
	only := named
	switch {
	case named != "" && !IsServer(named):
		return Server{}, tidemark.Invalidf("--server %.100q: want https://HOST", named)
	case named == "" && IsServer(storeURL):
		only = storeURL
	case named == "":
		for _, u := range remotes {
			if u, _, _ = strings.Cut(u, "?"); !IsServer(u) || u == only {
				continue
			}
			if only != "" {
				return Server{}, hint.With(tidemark.Invalidf("which server? there are several among the remotes"), "name one: --server %s", u)
			}
			only = u
		}
	}
	if only == "" {
		return Server{}, hint.With(tidemark.Invalidf("a link needs a Tidemark server that keeps the copy, and neither the store nor a remote is on one"),
			"name one: --server https://HOST, or make a file: -o FILE")
	}
	return At(only, tokens(only)), nil
}

// IsServer reports whether a URL is that of a server.
func IsServer(u string) bool {
	return strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://")
}

// shared is where a server answers to links; see package server/request.
const shared = "/shared/"

// call asks about a link, or about all of them where name is empty.
func (s Server) call(ctx context.Context, method, name string, query url.Values, body []byte, into any) error {
	path, look, who := "/api/v1/links", "tidemark share ls", "a token of that server"
	if s.users {
		path, look, who = "/api/v1/users/links", "tidemark share ls --all", "the token of an admin"
	}
	if s.tenant != "" {
		query.Set("tenant", s.tenant)
		look += " --tenant " + s.tenant
	}
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	err := backend.CallAPI(ctx, s.address, s.token, backend.APICall{Method: method, Path: path + "?" + query.Encode(), Body: body, Into: into})
	switch {
	case errors.Is(err, tidemark.ErrDenied) && hint.Of(err) == "":
		return hint.With(err, "set $TIDEMARK_TOKEN, or $TIDEMARK_TOKEN_FILE, to %s: tidemark token create", who)
	case errors.Is(err, tidemark.ErrNotFound) && name == "":
		return hint.With(err, "where the store of the server is, see the tenants with: tidemark tenant ls")
	case errors.Is(err, tidemark.ErrNotFound):
		return hint.With(err, "see the links with: %s", look)
	case errors.Is(err, tidemark.ErrStorage) && hint.Of(err) == "":
		return hint.With(err, "see whether a server answers there: tidemark version --server %s", s.address)
	}
	return err
}

func (s Server) made(l tenant.Link, key string) Made {
	m := Made{URL: s.address + shared + l.Name, Name: l.Name, Session: tidemark.SessionID(l.Session), State: l.State, Bytes: l.Bytes, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, EndedAt: l.EndedAt, RevokedBy: l.RevokedBy}
	if key != "" {
		m.URL += "#" + key
	}
	if s.users {
		m.User = l.User
	}
	return m
}

// Make makes a link to the path to a point of a session. ErrCorrupt, with a link: some
// of the session is damaged, and the copy has everything readable.
func (s Server) Make(ctx context.Context, at store.Point, o Options) (Made, error) {
	if o.Life == 0 {
		o.Life = DefaultLife
	}
	sealed, key, damage := render(ctx, at, o)
	if sealed == nil {
		return Made{}, damage
	}
	name := NewName()
	query := url.Values{"expires_at": {time.Now().Add(o.Life).UTC().Format(time.RFC3339)}, "session": {string(at.ID)}}
	var l tenant.Link
	var err error
	for range 3 { // the same name and the same copy are one link, however often they arrive
		if err = s.call(ctx, http.MethodPut, name, query, sealed, &l); !errors.Is(err, tidemark.ErrStorage) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return Made{}, err
	}
	m := s.made(l, key)
	m.Redacted = o.Redact
	return m, damage
}

// List returns the links of the caller, or of all users, also those that ended lately,
// the newest first.
func (s Server) List(ctx context.Context) ([]Made, error) {
	all := []Made{}
	for next := ""; ; {
		var page struct {
			Items []struct {
				tenant.Link
				Owner string `json:"owner"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if err := s.call(ctx, http.MethodGet, "", url.Values{"cursor": {next}}, nil, &page); err != nil {
			return nil, err
		}
		for _, l := range page.Items {
			m := s.made(l.Link, "")
			m.Owner = l.Owner
			all = append(all, m)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	return newestFirst(all), nil
}

func newestFirst(all []Made) []Made {
	slices.SortFunc(all, func(a, b Made) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all
}

// Revoke ends a link, which is named by its URL, with or without the key, or by its
// name there. ErrInvalid: it is a link of another server, which does not get the
// caller's token. ErrNotFound: the caller has no such link.
func (s Server) Revoke(ctx context.Context, link string) (Made, error) {
	at, name := split(link)
	if at != "" && at != s.address {
		return Made{}, hint.With(tidemark.Invalidf("the link is one of %s, not of %s", at, s.address), "if that server is yours: tidemark share revoke --server %s %s", at, name)
	}
	var l tenant.Link
	if err := s.call(ctx, http.MethodDelete, name, url.Values{}, nil, &l); err != nil {
		return Made{}, err
	}
	return s.made(l, ""), nil
}

// split returns the server and the name of a link, which is a URL, with or without the
// key, or a name alone.
func split(link string) (at, name string) {
	link, _, _ = strings.Cut(link, "#")
	if at, name, ok := strings.Cut(link, shared); ok {
		return at, name
	}
	return "", link
}

// WriteFile makes a page in one file, which asks nobody for anything, by write.
// Nobody can revoke it. The URL that it returns opens it on this machine.
func WriteFile(ctx context.Context, at store.Point, o Options, name string, write func(func(io.Writer) error) error) (Made, error) {
	sealed, key, damage := render(ctx, at, o)
	if sealed == nil {
		return Made{}, damage
	}
	path, err := filepath.Abs(name)
	if err != nil || name == "-" {
		return Made{}, tidemark.Invalidf("%s: is not a file", name)
	}
	page := File(sealed)
	err = write(func(w io.Writer) error {
		_, err := w.Write(page)
		return err
	})
	if err != nil {
		return Made{}, err
	}
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	where := url.URL{Scheme: "file", Path: path, Fragment: key}
	return Made{URL: where.String(), File: name, Session: at.ID, Bytes: int64(len(page)), Redacted: o.Redact, CreatedAt: time.Now().UTC()}, damage
}

// render returns a sealed copy and its key; without a copy the error says why.
func render(ctx context.Context, at store.Point, o Options) (sealed []byte, key string, err error) {
	packed, damage := Render(ctx, at.Store(), at, o.Node, o.Redact)
	if packed == nil {
		return nil, "", damage
	}
	if sealed, key, err = Seal(packed); err != nil {
		return nil, "", err
	}
	return sealed, key, damage
}
