package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// maxHeirs bounds the users that a page offers to hand sessions over to. The id of
// any other can be typed.
const maxHeirs = 200

// leavingPages are about one user, or one tenant, who leaves. Erasing and handing over
// go on behind the page; the directory has how far they are, so that a server that
// was stopped can be told to go on.
func (s *Site) leavingPages() {
	if !s.api.Offboards() {
		return
	}
	s.page("/store/users/{id}", request.Admin, func(r *http.Request) (view, error) {
		l, err := s.gatherUser(r)
		return s.storeView(r, web.Store{Part: "users", Leaving: l}), err
	})
	s.page("/store/tenants/{id}", request.Admin, func(r *http.Request) (view, error) {
		l, err := s.gatherTenant(r)
		return s.storeView(r, web.Store{Part: "tenants", Leaving: l}), err
	})
	s.pages.HandleFunc("GET /store/users/{id}/export", s.exportUser)
	s.act("/store/users/{id}/hand-over", request.Admin, s.actHandOver)
	s.act("/store/users/{id}/erase", request.Admin, func(r *http.Request) (string, string, error) {
		l, err := s.gatherUser(r)
		if err != nil {
			return "", "", err
		}
		return s.beginErasing(r, l, s.api.EraseUser)
	})
	s.act("/store/tenants/{id}/erase", request.Admin, func(r *http.Request) (string, string, error) {
		l, err := s.gatherTenant(r)
		if err != nil {
			return "", "", err
		}
		return s.beginErasing(r, l, s.api.EraseTenant)
	})
}

func leavingTask(ctx context.Context, what, id string) string {
	return TaskName(request.CallerOf(ctx).Principal, what+"/"+id)
}

// gatherUser finds a user, and what became of what they had.
func (s *Site) gatherUser(r *http.Request) (*web.StoreLeaving, error) {
	ctx := r.Context()
	users, t, err := s.api.Administered(ctx, r.FormValue("tenant"))
	if err != nil {
		return nil, err
	}
	u, err := users.User(ctx, t.ID, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	l := &web.StoreLeaving{ID: u.ID, Name: userName(u), Email: render.CleanLine(u.Email), State: u.State, Self: u.ID == request.CallerOf(ctx).User}
	for other, err := range users.Users(ctx, t.ID, "") {
		if err != nil {
			return nil, err
		}
		if other.ID != u.ID && other.State == tenant.Active {
			l.Others = append(l.Others, web.User{ID: other.ID, Name: userName(other), Email: render.CleanLine(other.Email)})
		}
		if len(l.Others) == maxHeirs {
			break
		}
	}
	given := s.task(leavingTask(ctx, "handover", u.ID))
	l.HandOver = taskView(given)
	if given != nil && given.over() {
		if h, err := taskResult[*transfer.HandedOver](given); err == nil {
			l.Handed = strings.Split(h.String(), "\n")
		}
	}
	return l, s.fillErasure(ctx, l, users, t.ID, u.ID)
}

// userName is what a page calls a user.
func userName(u tenant.User) string { return render.CleanLine(cmp.Or(u.Name, u.Subject, u.ID)) }

// gatherTenant finds a tenant, for the operator. Of one that is erased there is the
// report alone.
func (s *Site) gatherTenant(r *http.Request) (*web.StoreLeaving, error) {
	ctx := r.Context()
	users, err := s.api.Operate(ctx)
	if err != nil {
		return nil, err
	}
	l := &web.StoreLeaving{ID: r.PathValue("id"), Whole: true, Self: r.PathValue("id") == request.CallerOf(ctx).Tenant}
	t, err := users.Tenant(ctx, l.ID)
	missing := errors.Is(err, tidemark.ErrNotFound)
	if err != nil && !missing {
		return nil, err
	}
	l.Name, l.State = render.CleanLine(cmp.Or(t.Name, l.ID)), cmp.Or(t.State, tenant.Suspended)
	if err2 := s.fillErasure(ctx, l, users, l.ID, ""); err2 != nil {
		return nil, err2
	}
	if missing && l.Erasure == nil {
		return nil, err
	}
	return l, nil
}

func (s *Site) fillErasure(ctx context.Context, l *web.StoreLeaving, users *tenant.Directory, org, user string) error {
	l.Erase = taskView(s.task(leavingTask(ctx, "erase", l.ID)))
	e, err := users.Erasure(ctx, org, user)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	l.Erasure = &web.Erasure{State: e.State, BegunAt: e.BegunAt, EndedAt: e.EndedAt, Sessions: e.Sessions, Lines: e.Lines, Keys: e.Keys, Links: e.Links, OnHold: e.OnHold, Left: e.Left}
	return err
}

// beginErasing erases behind the page, after the name was typed.
func (s *Site) beginErasing(r *http.Request, l *web.StoreLeaving, erase func(context.Context, *routes.EraseInput) (*struct{ Body tenant.Erasure }, error)) (string, string, error) {
	if strings.TrimSpace(r.FormValue("confirm")) != l.Name {
		return "", "", tidemark.Invalidf("%s was not typed: nothing was erased", l.Name)
	}
	if l.Self {
		return "", "", tidemark.Invalidf("nobody erases themselves: somebody has to be left to see to it")
	}
	in := &routes.EraseInput{Tenant: r.FormValue("tenant"), ID: l.ID}
	in.Body.Confirm, in.Body.UnseenHolds = l.ID, r.FormValue("unseen_holds") != ""
	s.Begin(r.Context(), leavingTask(r.Context(), "erase", l.ID), func(ctx context.Context, _ func(int64)) (any, error) {
		out, err := erase(ctx, in)
		if err != nil {
			return nil, err
		}
		return &out.Body, nil
	}).wait(r.Context(), glance)
	part := "users/"
	if l.Whole {
		part = "tenants/"
	}
	return back(r, part+l.ID), web.Say("", "store.leaving.erase.begun", l.Name), nil
}

// actHandOver hands over behind the page.
func (s *Site) actHandOver(r *http.Request) (string, string, error) {
	l, err := s.gatherUser(r)
	if err != nil {
		return "", "", err
	}
	in := &routes.HandOverUserInput{Tenant: r.FormValue("tenant"), ID: l.ID}
	if in.Body.To = strings.TrimSpace(r.FormValue("to")); in.Body.To == "" {
		return "", "", tidemark.Invalidf("nobody was named who gets the sessions")
	}
	// Who gets them is looked up before anything runs behind the page.
	users, t, err := s.api.Administered(r.Context(), in.Tenant)
	if err == nil {
		_, err = users.User(r.Context(), t.ID, in.Body.To)
	}
	if err != nil {
		return "", "", err
	}
	s.Begin(r.Context(), leavingTask(r.Context(), "handover", l.ID), func(ctx context.Context, _ func(int64)) (any, error) {
		out, err := s.api.HandOverUser(ctx, in)
		if err != nil {
			return nil, err
		}
		return &out.Body, nil
	}).wait(r.Context(), glance)
	return back(r, "users/"+l.ID), web.Say("", "store.leaving.handover.begun", l.Name), nil
}

// exportUser answers with everything about one person.
func (s *Site) exportUser(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Admin) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	u, write, err := s.api.ExportUser(ctx, r.FormValue("tenant"), r.PathValue("id"))
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.zip"`, u.ID))
	routes.Cut(ctx, write(w))
}
