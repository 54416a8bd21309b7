package tenant

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A link leads to a copy of a session that its owner has encrypted under a key
// that no server has. Whoever asks by a link is unknown, so that the copy is
// kept with the operator's records and not with those of its owner.

const (
	// MaxLinkBytes bounds a sealed copy: some hundred thousand words, packed. All of
	// it is in memory while it is sent.
	MaxLinkBytes = 16 << 20
	// MaxLinkLife is how long a link may lead somewhere.
	MaxLinkLife = 366 * 24 * time.Hour
	// linkGrave is how long it is remembered that there was a link, so that
	// whoever opens it late is told what became of it.
	linkGrave = 30 * 24 * time.Hour
	// maxLinks and allLinksBytes bound what one owner has.
	maxLinks      = 1000
	allLinksBytes = 1 << 30
	// linksSwept bounds how many links one sweep ends.
	linksSwept = 100
)

// Link is a link as it is kept.
type Link struct {
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant"`
	User      string    `json:"user"`
	Session   string    `json:"session,omitempty"` // which one it is a copy of, as its owner says
	State     string    `json:"state"`
	Bytes     int64     `json:"bytes"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`    // when it expired or was revoked
	RevokedBy string    `json:"revoked_by,omitempty"` // the user who revoked it, if that was not its owner
}

// Thing names a link in the audit log, with whose it is.
func (l Link) Thing() string { return l.Name + linkOf + l.User }

const linkOf = " of "

// About reports whether a line says what a user did, or what was done to them or to a
// link of theirs.
func (l AuditLine) About(user string) bool {
	return l.Who == user || l.Thing == user || strings.HasSuffix(l.Thing, linkOf+user)
}

var linkName = expression.WhenNeeded(`^[a-z2-7]{26}$`)

func linkKey(name string) tidemark.Key     { return tidemark.Key{Kind: kindLink, ID: name} }
func linkDataKey(name string) tidemark.Key { return tidemark.Key{Kind: kindLinkData, ID: name} }

func linkGroup(tenant, user string) string { return tenant + "." + user }

func linkRecord(l Link, version int64) (tidemark.Record, error) {
	r, err := records.Put(linkKey(l.Name), version, l)
	r.Group, r.State, r.Due = linkGroup(l.Tenant, l.User), l.State, l.ExpiresAt
	if l.State != Active {
		r.Due = l.EndedAt.Add(linkGrave)
	}
	r.Sum = r.Checksum()
	return r, err
}

// PutLink keeps a link and its sealed copy until the link expires. Doing it again
// with the same copy changes nothing. ErrInvalid: a name that is not 26 random
// letters, or a time that is past or more than MaxLinkLife away. ErrExists:
// the name is taken. ErrDenied: the owner has too many.
func (d *Directory) PutLink(ctx context.Context, l Link, sealed []byte) (Link, error) {
	now := d.k.Now()
	l.State, l.Bytes, l.CreatedAt, l.ExpiresAt, l.EndedAt = Active, int64(len(sealed)), now, records.Keepable(l.ExpiresAt), time.Time{}
	switch {
	case !linkName().MatchString(l.Name):
		return l, tidemark.Invalidf("%.40q: a link is named by 26 random letters of a-z and 2-7", l.Name)
	case len(sealed) == 0 || len(sealed) > MaxLinkBytes:
		return l, tidemark.Invalidf("%d bytes: a link has at most %d", len(sealed), MaxLinkBytes)
	case !l.ExpiresAt.After(now) || l.ExpiresAt.After(now.Add(MaxLinkLife)):
		return l, tidemark.Invalidf("a link expires between now and %d days from now", MaxLinkLife/(24*time.Hour))
	}
	d.SweepLinks(ctx) // what is left over does no harm
	r, err := linkRecord(l, 0)
	if err != nil {
		return l, err
	}
	data := tidemark.Record{Key: linkDataKey(l.Name), Version: 1, Body: sealed}
	data.Sum = data.Checksum()
	if there, had, err := d.OpenLink(ctx, l.Name); err == nil && there.Tenant == l.Tenant && there.User == l.User && bytes.Equal(had, sealed) {
		return there, nil
	} else if !errors.Is(err, tidemark.ErrNotFound) {
		return l, errors.Join(err, tidemark.Existsf("link %s is there already", l.Name))
	}
	if err := d.checkLinks(ctx, l); err != nil {
		return l, err
	}
	_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r, data}})
	if errors.Is(err, tidemark.ErrConflict) {
		err = tidemark.Existsf("link %s is there already", l.Name)
	}
	return l, err
}

// checkLinks refuses one more link to an owner who has too many.
func (d *Directory) checkLinks(ctx context.Context, next Link) error {
	n, size := 1, next.Bytes
	for l, err := range d.Links(ctx, next.Tenant, next.User, "") {
		if err != nil {
			return err
		}
		if l.State == Active {
			n, size = n+1, size+l.Bytes
		}
	}
	if n > maxLinks || size > allLinksBytes {
		return tidemark.Deniedf("you have %d links with %d bytes; at most %d with %d are kept", n-1, size-next.Bytes, maxLinks, allLinksBytes)
	}
	return nil
}

// Link returns what is known of a link: ErrNotFound. One that has expired, or was
// revoked, has that State.
func (d *Directory) Link(ctx context.Context, name string) (Link, error) {
	l, _, err := d.link(ctx, name)
	return l, err
}

func (d *Directory) link(ctx context.Context, name string) (l Link, version int64, err error) {
	missing := tidemark.NotFoundf("no such link")
	if !linkName().MatchString(name) {
		return l, 0, missing
	}
	r, err := d.k.Get(ctx, linkKey(name), &l)
	if err == nil && r.Version == 0 {
		err = missing
	}
	return d.asOfNow(l), r.Version, err
}

func (d *Directory) asOfNow(l Link) Link {
	if l.State == Active && !d.k.Now().Before(l.ExpiresAt) {
		l.State, l.EndedAt = Expired, l.ExpiresAt
	}
	return l
}

// OpenLink returns a link with its sealed copy: ErrNotFound. One that does not lead
// anywhere any more has no copy.
func (d *Directory) OpenLink(ctx context.Context, name string) (Link, []byte, error) {
	l, err := d.Link(ctx, name)
	if err != nil || l.State != Active {
		return l, nil, err
	}
	r, err := d.Backend().Get(ctx, linkDataKey(name))
	return l, r.Body, err
}

// Links lists the links of an owner, also those that have ended, by name,
// starting after after.
func (d *Directory) Links(ctx context.Context, tenant, user, after string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for l, err := range records.List[Link](ctx, d.k, startingAfter(tidemark.Query{Kind: kindLink, Group: linkGroup(tenant, user)}, after)) {
			if !yield(d.asOfNow(l), err) {
				return
			}
		}
	}
}

// TenantLinks lists the links of everybody in a tenant, or of everybody where it is
// empty, as Links does. It reads past
// those of other tenants: they are grouped by their owners, who look at them all the
// time, and an admin does so now and then. One that is damaged may be another tenant's,
// and is left out.
func (d *Directory) TenantLinks(ctx context.Context, tenant, after string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for l, err := range records.List[Link](ctx, d.k, startingAfter(tidemark.Query{Kind: kindLink}, after)) {
			if errors.Is(err, tidemark.ErrCorrupt) || err == nil && tenant != "" && l.Tenant != tenant {
				continue
			}
			if !yield(d.asOfNow(l), err) {
				return
			}
		}
	}
}

// RevokeLink ends a link of an owner and removes its copy: ErrNotFound. Revoking one
// that has ended changes nothing.
func (d *Directory) RevokeLink(ctx context.Context, tenant, user, name string) (Link, error) {
	return d.revokeLink(ctx, name, user, func(l Link) bool { return l.Tenant == tenant && l.User == user })
}

// RevokeTenantLink ends a link of anybody in a tenant, as RevokeLink does. By is the
// user who wants it so.
func (d *Directory) RevokeTenantLink(ctx context.Context, tenant, by, name string) (Link, error) {
	return d.revokeLink(ctx, name, by, func(l Link) bool { return l.Tenant == tenant })
}

func (d *Directory) revokeLink(ctx context.Context, name, by string, meant func(Link) bool) (Link, error) {
	var l Link
	err := records.Retry(ctx, func() error {
		var version int64
		var err error
		if l, version, err = d.link(ctx, name); err != nil {
			return err
		}
		if !meant(l) {
			return tidemark.NotFoundf("no such link")
		}
		if l.State == Active {
			l.State, l.EndedAt = Revoked, d.k.Now()
			if by != l.User {
				l.RevokedBy = by
			}
			return d.endLink(ctx, l, version)
		}
		return nil
	})
	return l, err
}

// endLink keeps that a link has ended, and removes its copy.
func (d *Directory) endLink(ctx context.Context, l Link, version int64) error {
	r, err := linkRecord(l, version)
	if err != nil {
		return err
	}
	_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}, Deletes: []tidemark.Precondition{{Key: linkDataKey(l.Name), Version: 1}}})
	return err
}

// SweepLinks removes the copies of links that have expired, and forgets those that
// ended long ago, some of them at a time.
func (d *Directory) SweepLinks(ctx context.Context) error {
	var forgotten tidemark.Batch
	var over []string
	for r, err := range d.Backend().List(ctx, tidemark.Query{Kind: kindLink, DueBy: d.k.Now(), Order: tidemark.ByDue, Limit: linksSwept}) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
		case err != nil:
			return err
		case r.State == Active:
			over = append(over, r.ID)
		default:
			forgotten.Deletes = append(forgotten.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
		}
	}
	var errs []error
	for _, name := range over {
		l, version, err := d.link(ctx, name)
		if err == nil && l.State == Expired {
			err = d.endLink(ctx, l, version)
		}
		errs = append(errs, err)
	}
	if len(forgotten.Deletes) > 0 {
		_, err := d.k.Commit(ctx, forgotten)
		errs = append(errs, err)
	}
	for i, err := range errs {
		if errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrNotFound) {
			errs[i] = nil // another server sweeps as well
		}
	}
	return errors.Join(errs...)
}

// ForgetLinks removes the links of an owner with their copies, also those that have
// ended, and returns how many there were.
func (d *Directory) ForgetLinks(ctx context.Context, tenant, user string) (n int64, err error) {
	for l, err := range d.Links(ctx, tenant, user, "") {
		if err != nil {
			return n, err
		}
		err = records.Retry(ctx, func() error {
			var batch tidemark.Batch
			for _, key := range []tidemark.Key{linkKey(l.Name), linkDataKey(l.Name)} {
				r, err := d.Backend().Get(ctx, key)
				if err != nil && !errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrCorrupt) {
					return err
				}
				if r.Version > 0 {
					batch.Deletes = append(batch.Deletes, tidemark.Precondition{Key: key, Version: r.Version})
				}
			}
			if len(batch.Deletes) == 0 {
				return nil
			}
			_, err := d.k.Commit(ctx, batch)
			return err
		})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
