package pages

import (
	"cmp"
	"net/http"

	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// linkPages are the links of all users, which an admin can end. Nobody opens a copy
// from here: the server does not have the keys.
func (s *Site) linkPages() {
	s.page("/store/links", request.Admin, func(r *http.Request) (view, error) {
		l, err := s.gatherLinks(r)
		return s.storeView(r, web.Store{Part: "links", Links: l}), err
	})
	s.act("/store/links/{name}/revoke", request.Admin, func(r *http.Request) (string, string, error) {
		out, err := s.api.RevokeUserLink(r.Context(), &routes.UserLinkInput{Tenant: r.FormValue("tenant"), LinkPath: routes.LinkPath{Name: r.PathValue("name")}})
		if err != nil {
			return "", "", err
		}
		return back(r, "links"), web.Say("", "store.link.revoked", out.Body.Name), nil
	})
}

func (s *Site) gatherLinks(r *http.Request) (*web.StoreLinks, error) {
	ctx := r.Context()
	in, err := s.pageOf(r)
	if err != nil {
		return nil, err
	}
	page, err := s.api.UserLinks(ctx, &routes.ListInput{Tenant: r.FormValue("tenant"), PageInput: in})
	if err != nil {
		return nil, err
	}
	c := request.CallerOf(ctx)
	v := &web.StoreLinks{Links: []web.Link{}, Next: page.Body.Next}
	for _, l := range page.Body.Items {
		v.Links = append(v.Links, web.Link{Name: l.Name, Owner: render.CleanLine(cmp.Or(l.Owner, l.User)), Self: l.Tenant == c.Tenant && l.User == c.User, State: l.State, Bytes: l.Bytes, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, EndedAt: l.EndedAt})
	}
	return v, nil
}
