// Package tenant is the operator's part of a store: which tenants there are,
// their users, workspaces and service tokens, who did what (the audit log), and
// what the servers of one store have to share: their keys, who signed out,
// responses to requests that may be repeated, and the sealed copies that links
// lead to.
//
// It never keeps the text of a token or a cookie, nor the content of a
// session. It does not decide what a role may do: the server does.
//
//	users := tenant.NewDirectory(operator.Records())
//	acme, err := users.CreateTenant(ctx, tenant.Tenant{Name: "acme"})
package tenant

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The kinds of the records and logs of the operator.
const (
	kindTenant     = "tenant"     // record: a tenant
	kindIssuer     = "issuer"     // record: HASH, the tenant of an issuer
	kindRules      = "rules"      // record: HASH, where the people of an issuer belong
	kindUser       = "user"       // record: TENANT.USER
	kindWorkspace  = "workspace"  // record: TENANT.WORKSPACE
	kindToken      = "token"      // record: a service token, grouped by its tenant
	kindAudit      = "audit"      // log: TENANT or TENANT.SEGMENT, who did what, each line chained to the one before
	kindAuditState = "auditstate" // record: TENANT, the segments of its audit log
	kindBoot       = "boot"       // record: TENANT.NODE.BOOT, how far the acts of a server are chained; see tidemark.ActLog
	kindAnchor     = "anchor"     // log: TENANT, earlier heads of the audit log
	kindServerKey  = "serverkey"  // record: NAME, a secret that all servers of the store share
	kindSignOut    = "signout"    // record: HASH, a cookie that is no longer valid
	kindLink       = "link"       // record: NAME, a link to a copy of a session, grouped by its owner
	kindLinkData   = "linkdata"   // record: NAME, the copy that the link leads to, which no server can read
	kindErasure    = "erasure"    // record: TENANT or TENANT.USER, what was erased
	kindGroup      = "group"      // record: TENANT.GROUP, a group of an identity provider
	kindLimits     = "limits"     // record: TENANT or TENANT.USER, what they may have at most
	kindKept       = "kept"       // record: TENANT.USER, how much they keep
	kindForwarded  = "forwarded"  // record: TENANT.HASH, how far the audit log was sent to a place
	kindDeparture  = "departure"  // record: TENANT.FROM.TO, the sessions of a user that another has
)

// Directory is the operator's part of a store. Its methods may be called
// concurrently, by several servers at once.
type Directory struct {
	k *records.Kernel
}

// NewDirectory returns the Directory in the operator's records.
func NewDirectory(k *records.Kernel) *Directory { return &Directory{k: k} }

// Work calls do while no other program does work of this name: ErrHeld. Its context ends
// when another one took over, since this one was silent for too long.
func (d *Directory) Work(ctx context.Context, name string, who tidemark.Holder, do func(context.Context) error) error {
	return d.k.While(ctx, tidemark.Key{Kind: "work", ID: name}, who, do)
}

// Backend returns what the Directory works on.
func (d *Directory) Backend() tidemark.Backend { return d.k.Backend() }
