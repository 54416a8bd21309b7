package postgres

import (
	"cmp"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// id is a UUID in the form exchanged with the database.
type id = [16]byte

func parseID(what, s string) (u id, err error) {
	if _, err := tidemark.ParseSessionID(s); err != nil {
		return u, tidemark.Invalidf("%s %q: not a UUID", what, s)
	}
	hex.Decode(u[:], []byte(strings.ReplaceAll(s, "-", "")))
	return u, nil
}

func idText(u id) string {
	s := hex.EncodeToString(u[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// idList writes ids as a PostgreSQL array.
func idList(ids []id) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, u := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(idText(u))
	}
	b.WriteByte('}')
	return b.String()
}

// sessionOf returns the session that a key belongs to, nil when it belongs to
// none.
func sessionOf(k tidemark.Key) *id {
	if len(k.ID) < 36 || len(k.ID) > 36 && k.ID[36] != '.' || !slices.Contains(sessionKinds, k.Kind) {
		return nil
	}
	u, err := parseID("session", k.ID[:36])
	if err != nil || idText(u) != k.ID[:36] { // capitals may be in a key, but not in a session's id
		return nil
	}
	return &u
}

// escaped marks a text that PostgreSQL cannot store as it is.
const escaped = "\x01"

// toText writes a name in a form that PostgreSQL can store. Nearly all stay as
// they are; one with a zero byte, or that is not UTF-8, is written in
// hexadecimal digits after a mark that no other begins with. Equal names have
// equal forms.
func toText(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) && !strings.HasPrefix(s, escaped) {
		return s
	}
	return escaped + hex.EncodeToString([]byte(s))
}

func fromText(s string) string {
	if digits, ok := strings.CutPrefix(s, escaped); ok {
		if b, err := hex.DecodeString(digits); err == nil {
			return string(b)
		}
	}
	return s
}

// Parameters of a URL that are ours, not the driver's.
const (
	paramTenant    = "tenant"
	paramAs        = "as"
	paramWorkspace = "workspace"

	defaultTenant = "default"
)

// principalOf accepts names, and ids as they are: users that come from an issuer
// have an id that is not derived from a name.
func principalOf(tenant, user string) tidemark.Principal {
	p := tidemark.TenantOf(tenant, user)
	if _, err := parseID("tenant", tenant); err == nil {
		p.Tenant = tenant
		if user == "" {
			p.User = tenant
		}
	}
	if _, err := parseID("user", user); err == nil {
		p.User = user
	}
	return p
}

// PrincipalIn returns the principal that a URL names; see Open. A workspace is
// named within its tenant.
func PrincipalIn(raw string) (tidemark.Principal, error) {
	u, err := parseURL(raw)
	if err != nil {
		return tidemark.Principal{}, err
	}
	q := u.Query()
	tenant := cmp.Or(q.Get(paramTenant), defaultTenant)
	p := principalOf(tenant, q.Get(paramAs))
	for _, w := range q[paramWorkspace] {
		if w != "" {
			p.Workspaces = append(p.Workspaces, tidemark.IDOf("workspace", tenant, w))
		}
	}
	return p, nil
}

// parseURL does not quote a wrong URL in its error: there may be a password in
// it.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, tidemark.Invalidf("a database is named like postgres://user@host/database")
	}
	return u, nil
}

func configOf(raw string) (*pgxpool.Config, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for _, ours := range []string{paramTenant, paramAs, paramWorkspace} {
		q.Del(ours)
	}
	u.RawQuery = q.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, tidemark.Invalidf("database %s: %w", u.Redacted(), err)
	}
	return config, nil
}

// maxConnsIn returns the size of the pool that the URL sets, 0 when it sets
// none.
func maxConnsIn(raw string) int32 {
	u, err := parseURL(raw)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(u.Query().Get("pool_max_conns"), 10, 32)
	return int32(n)
}

func placeOf(c *pgx.ConnConfig) string {
	return c.Database + " on " + c.Host
}

// WorkspaceIn returns the id of a workspace of the tenant that a URL names; see
// Open.
func WorkspaceIn(raw, name string) (string, error) {
	u, err := parseURL(raw)
	if err != nil {
		return "", err
	}
	return tidemark.IDOf("workspace", cmp.Or(u.Query().Get(paramTenant), defaultTenant), name), nil
}
