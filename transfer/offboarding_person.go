package transfer

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// HandedOver is what a user was given of another's.
type HandedOver struct {
	From     string               `json:"from"`
	To       string               `json:"to"`
	Sessions []tidemark.SessionID `json:"sessions" nullable:"false"`
	OnHold   []tidemark.SessionID `json:"on_hold,omitempty"` // the originals stay, too
	Kept     []tidemark.SessionID `json:"kept,omitempty"`    // To has other sessions of these ids
}

// String says it to people.
func (h HandedOver) String() string {
	s := fmt.Sprintf("Handed over: %d sessions.", len(h.Sessions))
	for _, id := range h.OnHold {
		s += "\nOn hold, and also still where it was: " + string(id)
	}
	for _, id := range h.Kept {
		s += "\nNot handed over, because there is another of this id: " + string(id)
	}
	return s
}

// HandOver moves the sessions of one user to another of the same tenant: they are
// copied, compared and then destroyed where they were. A session of which the other
// has one with the same id stays, and its forks with it. The originals of what is on
// hold stay, too. It may be interrupted and called again. ErrSealed: there is no key
// here for what one of them has.
func (x *Offboarding) HandOver(ctx context.Context, t tenant.Tenant, from, to tenant.User) (HandedOver, error) {
	h := HandedOver{From: from.ID, To: to.ID, Sessions: []tidemark.SessionID{}}
	if from.ID == to.ID {
		return h, tidemark.Invalidf("nobody hands over to themselves")
	}
	if to.State != tenant.Active {
		return h, tidemark.Invalidf("user %s is %s", to.ID, to.State)
	}
	source, err := x.opened(ctx, t, from)
	if err != nil {
		return h, err
	}
	target, err := x.opened(ctx, t, to)
	if err != nil {
		return h, err
	}
	copied, err := x.Users.Copied(ctx, t.ID, from.ID, to.ID)
	if err != nil {
		return h, err
	}
	if err := h.choose(ctx, source, target, copied); err != nil {
		return h, err
	}
	adopted, err := target.Adopting(ctx)
	if err != nil {
		return h, err
	}
	_, err = archive.Copy(ctx, source.Records().Backend(), target.Records().Backend(), &archive.CopyOptions{Change: target.Refile, Skip: func(k tidemark.Key) bool {
		return len(k.ID) < 36 || !slices.Contains(h.Sessions, tidemark.SessionID(k.ID[:36])) || slices.Contains(copied, tidemark.SessionID(k.ID[:36])) ||
			slices.Contains([]string{records.KindLease, records.KindPulse, records.KindHandover}, k.Kind) // who writes to it, where it was
	}})
	if err := errors.Join(err, adopted(context.WithoutCancel(ctx))); err != nil {
		return h, err
	}
	for _, id := range h.Sessions {
		if !slices.Contains(copied, id) {
			copied = append(copied, id)
		}
	}
	if err := x.Users.KeepCopied(ctx, t.ID, from.ID, to.ID, copied); err != nil {
		return h, err
	}
	for _, id := range h.Sessions {
		if slices.Contains(h.OnHold, id) {
			continue
		}
		if err := source.Release(ctx, id, true); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return h, err
		}
		if err := source.Destroy(ctx, id, x.Holder); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return h, err
		}
	}
	return h, source.RewriteIndex(ctx)
}

func (x *Offboarding) opened(ctx context.Context, t tenant.Tenant, u tenant.User) (*store.Store, error) {
	s, err := x.Store(ctx, tidemark.Principal{Tenant: t.ID, User: u.ID, Workspaces: u.Workspaces})
	if errors.Is(err, tidemark.ErrSealed) {
		err = hint.With(tidemark.Errorf(tidemark.ErrSealed, "what %s has is sealed, and there is no key for it here", u.ID), "give the key of the person, or one of the organisation: --key-file FILE")
	}
	return s, err
}

// choose finds out what is handed over. What was copied before an interruption is.
func (h *HandedOver) choose(ctx context.Context, source, target *store.Store, copied []tidemark.SessionID) error {
	base := make(map[tidemark.SessionID]tidemark.SessionID)
	for i, err := range ownSessions(ctx, source) {
		if err != nil {
			return err
		}
		if i.Base != nil && !i.Base.Owned {
			base[i.ID] = i.Base.Session
		}
		other := false
		if !slices.Contains(copied, i.ID) {
			other, err = hasOther(ctx, source, target, i.ID)
		}
		switch {
		case err != nil:
			return err
		case other:
			h.Kept = append(h.Kept, i.ID)
			continue
		case i.OnHold:
			h.OnHold = append(h.OnHold, i.ID)
		}
		h.Sessions = append(h.Sessions, i.ID)
	}
	// What is forked from a session that stays, stays with it.
	for again := true; again; {
		again = false
		h.Sessions = slices.DeleteFunc(h.Sessions, func(id tidemark.SessionID) bool {
			stays := slices.Contains(h.Kept, base[id]) && !slices.Contains(copied, id)
			if again = again || stays; stays {
				h.Kept = append(h.Kept, id)
			}
			return stays
		})
	}
	h.OnHold = slices.DeleteFunc(h.OnHold, func(id tidemark.SessionID) bool { return slices.Contains(h.Kept, id) })
	return nil
}

// hasOther reports whether target has another session of the same id. One that is as
// it is in source was copied before an interruption.
func hasOther(ctx context.Context, source, target *store.Store, id tidemark.SessionID) (bool, error) {
	key := tidemark.Key{Kind: "session", ID: string(id)}
	there, err := target.Records().Backend().Get(ctx, key)
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && there.Version+there.Head.Length == 0 || there.Owner != "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	here, err := source.Records().Backend().Get(ctx, key)
	return !bytes.Equal(here.Body, there.Body) || here.Version != there.Version, err
}

// Person is what is known about a user, besides what they keep.
type Person struct {
	User       tenant.User        `json:"user"`
	Tenant     tenant.Tenant      `json:"tenant"`
	Workspaces []tenant.Workspace `json:"workspaces"`
	Tokens     []tenant.Token     `json:"tokens"`
	Links      []tenant.Link      `json:"links"`
	Groups     []string           `json:"groups,omitempty"` // of the identity provider, by name
}

// Export writes everything about one person as a ZIP file: person.json, audit.jsonl
// with what they did and what was done to them, sessions.tidemark, an archive of all
// that they keep, and in links the copies that their links lead to. What is sealed
// stays so.
func (x *Offboarding) Export(ctx context.Context, out io.Writer, t tenant.Tenant, u tenant.User) error {
	p := Person{User: u, Tenant: t, Workspaces: []tenant.Workspace{}, Tokens: []tenant.Token{}, Links: []tenant.Link{}}
	for w, err := range x.Users.Workspaces(ctx, t.ID, "") {
		if err != nil {
			return err
		}
		if slices.Contains(u.Workspaces, w.ID) {
			p.Workspaces = append(p.Workspaces, w)
		}
	}
	for token, err := range x.Users.Tokens(ctx, t.ID, "") {
		if err != nil {
			return err
		}
		if token.User == u.ID || token.CreatedBy == u.ID {
			p.Tokens = append(p.Tokens, token)
		}
	}
	for l, err := range x.Users.Links(ctx, t.ID, u.ID, "") {
		if err != nil {
			return err
		}
		p.Links = append(p.Links, l)
	}
	for g, err := range x.Users.Groups(ctx, t.ID) {
		if err != nil {
			return err
		}
		if slices.Contains(g.Members, u.ID) {
			p.Groups = append(p.Groups, g.Name)
		}
	}
	b, err := x.Backend(ctx, tidemark.Principal{Tenant: t.ID, User: u.ID})
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	w, err := z.Create("person.json")
	if err == nil {
		err = writeIndented(w, p)
	}
	if err == nil {
		w, err = z.Create("audit.jsonl")
	}
	if err != nil {
		return err
	}
	lines := json.NewEncoder(w)
	for l, err := range x.Users.AuditLines(ctx, t.ID, tidemark.Span{}) {
		if err != nil {
			return err
		}
		if !l.About(u.ID) {
			continue
		}
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	if w, err = z.Create("sessions.tidemark"); err != nil {
		return err
	}
	if _, err := archive.Write(ctx, w, b, &archive.WriteOptions{Describe: map[string]string{"about": u.ID}, Damaged: func(error) {}}); err != nil {
		return err
	}
	if err := x.exportLinks(ctx, z, p.Links); err != nil {
		return err
	}
	return z.Close()
}

// exportLinks adds the copies that links lead to, as they are kept: sealed.
func (x *Offboarding) exportLinks(ctx context.Context, z *zip.Writer, links []tenant.Link) error {
	for _, l := range links {
		_, sealed, err := x.Users.OpenLink(ctx, l.Name)
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && sealed == nil {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		w, err := z.Create("links/" + l.Name)
		if err == nil {
			_, err = w.Write(sealed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
