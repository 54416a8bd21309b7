package tidemark

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Principal is on whose behalf a Backend is opened. Backends that keep the
// sessions of one person on one machine have none.
//
// What a tenant owns itself, its fleet above all, belongs to the principal
// whose User is the Tenant: everybody in the tenant may read it.
type Principal struct {
	Tenant     string   `json:"tenant"` // UUIDs, all of them; no two of them are ever equal, but see above
	User       string   `json:"user"`
	Workspaces []string `json:"workspaces,omitempty"`
}

// IDOf returns the UUID that stands for what names say, always the same one.
// Names of another kind never give the same: the kind comes first.
func IDOf(kind string, names ...string) string {
	h := sha256.New()
	for _, name := range append([]string{"tidemark", kind}, names...) {
		sum := sha256.Sum256([]byte(name))
		h.Write(sum[:])
	}
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8: made by a rule of our own
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// TenantOf returns the principal of a tenant by its name: the tenant itself
// when user is empty, else that user in it.
func TenantOf(name, user string) Principal {
	p := Principal{Tenant: IDOf("tenant", name)}
	p.User = p.Tenant
	if user != "" {
		p.User = IDOf("user", name, user)
	}
	return p
}

// Operator is the principal of what belongs to no tenant: which tenants there
// are, their users and tokens, and who did what.
func Operator() Principal { return TenantOf("", "operator") }

// AuditorOf is the operator who looks at what was done in a tenant: it reads
// what was done (ActKind) there, and nothing else.
func AuditorOf(tenant string) Principal {
	return Principal{Tenant: tenant, User: Operator().User}
}

// Scope says who else may read something.
type Scope struct {
	With      string `json:"with"` // private, workspace or tenant
	Workspace string `json:"workspace,omitempty"`
}

// Who else may read.
const (
	Private     = "private"
	InWorkspace = "workspace"
	InTenant    = "tenant"
)

// Sharer is the ability to let others of the same tenant read.
type Sharer interface {
	// Share says who else may read the session id with all that belongs to it:
	// every record and log whose id is it or begins with it and a dot, those
	// that come later included. Only its owner can; for anybody else it is
	// ErrNotFound.
	Share(ctx context.Context, id SessionID, with Scope) error

	// Shared returns who else may read the session, and whose it is.
	Shared(ctx context.Context, id SessionID) (with Scope, owner string, err error)

	// Of returns a Backend that reads what one owner keeps and the principal may
	// read, and nothing else: two owners may have sessions of the same id, and an
	// id alone leads to one's own. "" is the principal. What is not shared is not
	// there; whatever would change something of another is ErrDenied. It lives as
	// long as the Backend that it came from, and need not be closed.
	Of(owner string) (Backend, error)
}

// SessionName is how a session is called where whose it is matters: in links and
// references. It is the id alone for one of the principal's own (owner is "").
func SessionName(owner string, id SessionID) string {
	if owner == "" {
		return string(id)
	}
	return owner + ":" + string(id)
}

// CutOwner parts what SessionName made, or a reference that begins so, into the
// owner and the rest. Without an owner, the rest is all of it.
func CutOwner(name string) (owner, rest string) {
	owner, rest, found := strings.Cut(name, ":")
	if id, err := ParseSessionID(owner); found && err == nil {
		return string(id), rest // owners are UUIDs, like sessions
	}
	return "", name
}
