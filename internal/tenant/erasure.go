package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// What is being erased is a record of the operator's store, from before the first row
// goes until after the last: whoever is interrupted goes on where they were, and what
// was erased can be shown afterwards.

// The states of an Erasure.
const (
	Erasing   = "erasing"
	ErasedAll = "erased"
	ErasedBut = "on hold" // all but what is on hold
)

// Erasure is what was erased of a user, or of a whole tenant, and what is left.
type Erasure struct {
	Tenant  string    `json:"tenant"`
	User    string    `json:"user,omitempty"` // "": the whole tenant
	State   string    `json:"state" enum:"erasing,erased,on hold"`
	By      string    `json:"by,omitempty"`
	BegunAt time.Time `json:"begun_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	ErasedCounts
	// Sealed means that some of it was sealed: its wrapped keys went first.
	Sealed bool `json:"sealed,omitempty"`
	// OnHold are the sessions that were left because they are on hold, as OWNER:ID.
	OnHold []string `json:"on_hold,omitempty"`
	// Left says where traces may remain.
	Left []string `json:"left,omitempty"`
	// Pending is what is about to be erased: if its key is gone after a kill, all of it is.
	Pending *PendingErasure `json:"pending,omitempty"`
}

// PendingErasure is a batch, as it is kept before it is committed.
type PendingErasure struct {
	Owner string `json:"owner"`
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	ErasedCounts
}

// ErasedCounts counts what was erased.
type ErasedCounts struct {
	Sessions int64 `json:"sessions"`
	Records  int64 `json:"records"`
	Lines    int64 `json:"lines"`
	Keys     int64 `json:"keys"` // wrapped keys, without which what was sealed cannot be read
	Tokens   int64 `json:"tokens"`
	Links    int64 `json:"links"`
}

// Add counts more.
func (c *ErasedCounts) Add(more ErasedCounts) {
	c.Sessions += more.Sessions
	c.Records += more.Records
	c.Lines += more.Lines
	c.Keys += more.Keys
	c.Tokens += more.Tokens
	c.Links += more.Links
}

// String says it to people.
func (e Erasure) String() string {
	s := fmt.Sprintf("Erased: %d sessions, %d records, %d lines, %d keys, %d links; %d tokens are revoked.", e.Sessions, e.Records, e.Lines, e.Keys, e.Links, e.Tokens)
	for _, id := range e.OnHold {
		s += "\nOn hold: " + id
	}
	for _, left := range e.Left {
		s += "\nLeft: " + left
	}
	return s
}

func erasureKey(tenant, user string) tidemark.Key {
	id := tenant
	if user != "" {
		id += "." + user
	}
	return tidemark.Key{Kind: kindErasure, ID: id}
}

// Erasure returns what was erased of a user, or with "" of a tenant: ErrNotFound when
// nothing ever was.
func (d *Directory) Erasure(ctx context.Context, tenant, user string) (Erasure, error) {
	var e Erasure
	r, err := d.k.Get(ctx, erasureKey(tenant, user), &e)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("nothing was erased of %s", r.ID)
	}
	return e, err
}

// KeepErasure keeps what was erased so far.
func (d *Directory) KeepErasure(ctx context.Context, e Erasure) error {
	return records.Retry(ctx, func() error {
		r, err := d.k.Get(ctx, erasureKey(e.Tenant, e.User), &struct{}{})
		if err != nil {
			return err
		}
		p, err := records.Put(r.Key, r.Version, e)
		if err != nil {
			return err
		}
		p.State = e.State
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
}

// departure is which sessions of a user another one has, copied and compared: what is
// left to do is to destroy them where they were.
type departure struct {
	Copied []tidemark.SessionID `json:"copied"`
}

func departureKey(tenant, from, to string) tidemark.Key {
	return tidemark.Key{Kind: kindDeparture, ID: tenant + "." + from + "." + to}
}

// Copied returns the sessions of a user that were handed over to another.
func (d *Directory) Copied(ctx context.Context, tenant, from, to string) ([]tidemark.SessionID, error) {
	var have departure
	_, err := d.k.Get(ctx, departureKey(tenant, from, to), &have)
	return have.Copied, err
}

// KeepCopied says that a user has these sessions of another.
func (d *Directory) KeepCopied(ctx context.Context, tenant, from, to string, all []tidemark.SessionID) error {
	return records.Retry(ctx, func() error {
		r, err := d.k.Get(ctx, departureKey(tenant, from, to), &departure{})
		if err != nil {
			return err
		}
		p, err := records.Put(r.Key, r.Version, departure{all})
		if err == nil {
			_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
		return err
	})
}

// Depart keeps a user out for good: suspended, without tokens, name, address and
// workspaces. The record stays, so that a token of the issuer does not make the user
// anew. It returns how many tokens were revoked.
func (d *Directory) Depart(ctx context.Context, tenant, id string, forget bool) (tokens int64, err error) {
	_, err = d.ChangeUser(ctx, tenant, id, func(u *User) error {
		u.State = Suspended
		if forget {
			*u = User{ID: u.ID, Tenant: u.Tenant, Role: RoleReader, State: Suspended, FirstSeenAt: u.FirstSeenAt, LastSeenAt: u.LastSeenAt}
		}
		return nil
	})
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return 0, err
	}
	if in, err := d.Tenant(ctx, tenant); forget && err == nil {
		if err := d.leaveGroups(ctx, in, id); err != nil {
			return 0, err
		}
	}
	if forget {
		if err := errors.Join(d.remove(ctx, limitsKey(tenant, id)), d.remove(ctx, keptKey(tenant, id))); err != nil {
			return 0, err
		}
	}
	for t, err := range d.Tokens(ctx, tenant, "") {
		if err != nil {
			return tokens, err
		}
		if t.User != id || t.State == Revoked {
			continue
		}
		if _, err := d.RevokeToken(ctx, tenant, t.ID); err != nil {
			return tokens, err
		}
		tokens++
	}
	return tokens, nil
}

// RemoveTenant removes what says who may do what in a tenant: its users, workspaces,
// tokens, issuer and rules, and the tenant itself last, so that an interrupted removal
// can be repeated. Its audit log stays.
func (d *Directory) RemoveTenant(ctx context.Context, t Tenant) error {
	if err := d.removeRules(ctx, t); err != nil {
		return err
	}
	for _, q := range []tidemark.Query{within(kindUser, t.ID, ""), within(kindWorkspace, t.ID, ""), within(kindGroup, t.ID, ""), within(kindLimits, t.ID, ""), within(kindKept, t.ID, ""), {Kind: kindToken, Group: t.ID}} {
		for r, err := range d.k.Backend().List(ctx, q) {
			if err != nil {
				return err
			}
			if err := d.remove(ctx, r.Key); err != nil {
				return err
			}
		}
	}
	keys := []tidemark.Key{limitsKey(t.ID, ""), tenantKey(t.ID)}
	if t.Issuer != "" {
		keys = append([]tidemark.Key{issuerKey(t.Issuer, t.Foreign)}, keys...)
	}
	for _, key := range keys {
		if err := d.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// removeRules takes the rules that lead to a tenant out of those of all issuers.
func (d *Directory) removeRules(ctx context.Context, t Tenant) error {
	leads := func(r Rule) bool { return r.leadsTo(t) }
	for of, err := range records.List[issuerRules](ctx, d.k, tidemark.Query{Kind: kindRules, Order: tidemark.ByID}) {
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(of.Rules, leads) {
			continue
		}
		if _, err := d.ChangeRules(ctx, of.Issuer, func(all []Rule) ([]Rule, error) { return slices.DeleteFunc(slices.Clone(all), leads), nil }); err != nil {
			return err
		}
	}
	return nil
}

func (d *Directory) remove(ctx context.Context, key tidemark.Key) error {
	return records.Retry(ctx, func() error {
		r, err := d.k.Get(ctx, key, &struct{}{})
		if err != nil || r.Version == 0 {
			return err
		}
		_, err = d.k.Commit(ctx, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key, Version: r.Version}}})
		return err
	})
}
