package tidemark

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Principal is the party on whose behalf a Backend is opened. Backends that keep
// the sessions of one person on one machine have none.
//
// What a tenant itself owns, above all its fleet, belongs to the principal whose
// User is the Tenant: everybody in the tenant may read it.
type Principal struct {
	Tenant     string   `json:"tenant"` // all are UUIDs, and no two are ever equal, except as above
	User       string   `json:"user"`
	Workspaces []string `json:"workspaces,omitempty"`
}

// IDOf returns a UUID derived from names, always the same one. The kind goes in
// first, so that names of different kinds never give the same id.
func IDOf(kind string, names ...string) string {
	h := sha256.New()
	for _, name := range append([]string{"tidemark", kind}, names...) {
		sum := sha256.Sum256([]byte(name))
		h.Write(sum[:])
	}
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8: a custom scheme
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

// Operator is the principal of what belongs to no tenant: the list of tenants,
// their users and tokens, and the audit log.
func Operator() Principal { return TenantOf("", "operator") }

// AuditorOf is the operator who audits a tenant: it reads the tenant's audit log
// (ActKind), and nothing else.
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
	// Share sets who else may read the session and all that belongs to it: every
	// record and log whose id is the session's, or the session's followed by a
	// dot, later ones included. Only its owner can; for anybody else it is
	// ErrNotFound.
	Share(ctx context.Context, id SessionID, with Scope) error

	// Shared returns who else may read the session, and its owner.
	Shared(ctx context.Context, id SessionID) (with Scope, owner string, err error)

	// Audience returns who the principal is, as others see it as an owner, and the
	// scopes in which others share with it: its workspaces and its tenant. The index
	// of what is shared there belongs to the scope itself, as its owner. Where there
	// is one user, it returns nothing.
	Audience() (me string, scopes []string)

	// Of returns a Backend that reads what one owner keeps and the principal may
	// read, and nothing else: two owners may have sessions of the same id, and
	// an id alone leads to the principal's own. The owner "" is the principal.
	// What is not shared is not found; any change to another owner's data is
	// ErrDenied. It lives as long as the Backend that it came from, and need not
	// be closed.
	Of(owner string) (Backend, error)
}

// SessionName is how a session is named where its owner matters: in links and
// references. It is the id alone for the principal's own (owner is "").
func SessionName(owner string, id SessionID) string {
	if owner == "" {
		return string(id)
	}
	return owner + ":" + string(id)
}

// CutOwner splits what SessionName returned, or a reference that begins with it,
// into the owner and the rest. Without an owner, the rest is all of it.
func CutOwner(name string) (owner, rest string) {
	owner, rest, found := strings.Cut(name, ":")
	if id, err := ParseSessionID(owner); found && err == nil {
		return string(id), rest // owners are UUIDs, like sessions
	}
	return "", name
}
