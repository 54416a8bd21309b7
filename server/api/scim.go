package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// SCIM 2.0 (RFC 7643 and 7644), the part that identity providers use: they create,
// change, deactivate and delete the users and groups of the tenant whose token they
// have. Its answers have a media type and errors of their own, so that these calls
// stand beside the description of the others.

// SCIMPath is where identity providers find it.
const SCIMPath = "/api/v1/scim"

const (
	scimMedia    = "application/scim+json"
	scimUser     = "urn:ietf:params:scim:schemas:core:2.0:User"
	scimGroup    = "urn:ietf:params:scim:schemas:core:2.0:Group"
	scimList     = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	scimPatch    = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	scimError    = "urn:ietf:params:scim:api:messages:2.0:Error"
	scimConfig   = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	scimType     = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	scimSchema   = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	maxSCIMCount = 200
)

// resource is a user or a group as it is sent, by the names of its attributes.
type resource = map[string]any

// scimFault is an error that SCIM has a word for.
type scimFault struct {
	error
	word   string
	status int
}

func (f scimFault) Unwrap() error { return f.error }

func faultf(word, format string, args ...any) error {
	return scimFault{tidemark.Invalidf(format, args...), word, http.StatusBadRequest}
}

// scimCall is one call by an identity provider.
type scimCall struct {
	*http.Request
	s     *Server
	ctx   context.Context
	users *tenant.Directory
	t     tenant.Tenant
}

// scimAnswer is what it gets.
type scimAnswer struct {
	status int
	body   resource
}

func (s *Server) scimRoutes() {
	for pattern, do := range map[string]func(scimCall) (scimAnswer, error){
		"GET /ServiceProviderConfig": scimServiceProvider,
		"GET /ResourceTypes":         scimResourceTypes,
		"GET /ResourceTypes/{id}":    scimResourceTypes,
		"GET /Schemas":               scimSchemas,
		"GET /Schemas/{id}":          scimSchemas,
		"GET /Users":                 scimCall.listUsers,
		"POST /Users":                scimCall.createUser,
		"GET /Users/{id}":            scimCall.getUser,
		"PUT /Users/{id}":            scimCall.changeUser,
		"PATCH /Users/{id}":          scimCall.changeUser,
		"DELETE /Users/{id}":         scimCall.deleteUser,
		"GET /Groups":                scimCall.listGroups,
		"POST /Groups":               scimCall.createGroup,
		"GET /Groups/{id}":           scimCall.getGroup,
		"PUT /Groups/{id}":           scimCall.changeGroup,
		"PATCH /Groups/{id}":         scimCall.changeGroup,
		"DELETE /Groups/{id}":        scimCall.deleteGroup,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.HandleFunc(method+" "+SCIMPath+path, func(w http.ResponseWriter, r *http.Request) { s.answerSCIM(w, r, do) })
	}
}

// answerSCIM answers a call of an admin of a tenant: usually a token for this alone.
func (s *Server) answerSCIM(w http.ResponseWriter, r *http.Request, do func(scimCall) (scimAnswer, error)) {
	ctx := r.Context()
	c := scimCall{Request: r, s: s, ctx: ctx}
	var a scimAnswer
	err := tidemark.ErrDenied
	if request.CallerOf(ctx).Role.May(request.Admin) {
		c.users, c.t, err = s.Administered(ctx, "")
	}
	if err == nil {
		a, err = do(c)
	}
	if err != nil {
		a = scimProblem(ctx, err)
	}
	if meta, ok := a.body["meta"].(resource); ok {
		if etag, _ := meta["version"].(string); etag != "" {
			w.Header().Set("ETag", etag)
			if r.Method == http.MethodGet && r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		if a.status == http.StatusCreated {
			w.Header().Set("Location", meta["location"].(string))
		}
	}
	w.Header().Set("Content-Type", scimMedia)
	w.WriteHeader(a.status)
	if a.body != nil && a.status != http.StatusNoContent {
		json.NewEncoder(w).Encode(a.body)
	}
}

// scimProblem is an error as SCIM says it.
func scimProblem(ctx context.Context, err error) scimAnswer {
	p := request.Problem(request.Fail(ctx, err))
	body := resource{"schemas": []string{scimError}, "detail": p.Detail, "status": strconv.Itoa(p.Status)}
	status := p.Status
	var fault scimFault
	switch {
	case errors.As(err, &fault):
		status, body["scimType"] = fault.status, fault.word
		body["status"] = strconv.Itoa(status)
	case errors.Is(err, tidemark.ErrExists):
		body["scimType"] = "uniqueness"
	case errors.Is(err, tidemark.ErrInvalid):
		body["scimType"] = "invalidValue"
	}
	if body["scimType"] == "" {
		delete(body, "scimType")
	}
	return scimAnswer{status, body}
}

// read decodes the body. What a provider sends beyond what is kept is ignored.
func (c scimCall) read() (resource, error) {
	var in resource
	text, err := io.ReadAll(c.Body)
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, request.TooLarge(large.Limit)
		}
		return nil, faultf("invalidSyntax", "the body cannot be read")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&in); err != nil || in == nil || d.More() {
		return nil, faultf("invalidSyntax", "the body is no JSON object")
	}
	return in, nil
}

// versioned completes a resource with what is known about it itself.
func (c scimCall) versioned(r resource, kind, id string, created, changed time.Time) resource {
	text, _ := json.Marshal(r)
	sum := sha256.Sum256(text)
	r["meta"] = resource{"resourceType": kind, "created": created.UTC().Format(time.RFC3339Nano), "lastModified": changed.UTC().Format(time.RFC3339Nano),
		"location": SCIMPath + "/" + kind + "s/" + id, "version": `W/"` + hex.EncodeToString(sum[:8]) + `"`}
	return r
}

// unchanged returns an error when the provider believes something else of a resource.
func (c scimCall) unchanged(r resource) error {
	want := c.Header.Get("If-Match")
	if have := r["meta"].(resource)["version"]; want != "" && want != "*" && want != have {
		return scimFault{tidemark.Errorf(tidemark.ErrConflict, "it was changed since"), "", http.StatusPreconditionFailed}
	}
	return nil
}

// list answers with those of all resources that the filter of the call fits, a page
// of them.
func (c scimCall) list(all []resource) (scimAnswer, error) {
	q := c.URL.Query()
	start, err := scimNumber(q, "startIndex", 1)
	if err != nil {
		return scimAnswer{}, err
	}
	count, err := scimNumber(q, "count", maxSCIMCount)
	if err != nil {
		return scimAnswer{}, err
	}
	if text := q.Get("filter"); text != "" {
		fits, err := parseSCIMFilter(text)
		if err != nil {
			return scimAnswer{}, err
		}
		all = slices.DeleteFunc(all, func(r resource) bool { return !fits(r) })
	}
	total := len(all)
	start = max(start, 1)
	page := all[min(start-1, total):]
	page = page[:min(len(page), max(count, 0), maxSCIMCount)]
	shown := make([]resource, 0, len(page))
	for _, r := range page {
		shown = append(shown, c.shown(r))
	}
	return scimAnswer{http.StatusOK, resource{"schemas": []string{scimList}, "totalResults": total, "startIndex": start, "itemsPerPage": len(page), "Resources": shown}}, nil
}

// shown is a resource without what the call does not want to see.
func (c scimCall) shown(r resource) resource {
	for name := range strings.SplitSeq(c.URL.Query().Get("excludedAttributes"), ",") {
		if key := attributeOf(r, strings.TrimSpace(name)); !slices.Contains([]string{"schemas", "id", "meta"}, key) {
			delete(r, key)
		}
	}
	return r
}

func scimNumber(q url.Values, name string, otherwise int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, faultf("invalidValue", "%s %.20q: want a number", name, text)
	}
	return n, nil
}

// userResource is a user as it is sent.
func (c scimCall) userResource(u tenant.User, groups []tenant.Group) resource {
	p := tenant.Provisioned{}
	if u.Provisioned != nil {
		p = *u.Provisioned
	}
	name := u.ProvisionedName()
	r := resource{"schemas": []string{scimUser}, "id": u.ID, "userName": name, "displayName": cmp.Or(u.Name, name), "active": u.State == tenant.Active,
		"name": resource{"formatted": cmp.Or(u.Name, name), "givenName": p.GivenName, "familyName": p.FamilyName}}
	if p.ExternalID != "" {
		r["externalId"] = p.ExternalID
	}
	if u.Email != "" {
		r["emails"] = []any{resource{"value": u.Email, "type": "work", "primary": true}}
	}
	in := []any{}
	for _, g := range groups {
		if slices.Contains(g.Members, u.ID) {
			in = append(in, resource{"value": g.ID, "display": g.Name, "$ref": SCIMPath + "/Groups/" + g.ID})
		}
	}
	if len(in) > 0 {
		r["groups"] = in
	}
	changed := p.ChangedAt
	if changed.IsZero() {
		changed = u.FirstSeenAt
	}
	return c.versioned(r, "User", u.ID, u.FirstSeenAt, changed)
}

func (c scimCall) groups() (all []tenant.Group, err error) {
	for g, err := range c.users.Groups(c.ctx, c.t.ID) {
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// user finds a user that the provider may know.
func (c scimCall) user() (tenant.User, resource, error) {
	u, err := c.users.User(c.ctx, c.t.ID, c.PathValue("id"))
	if err == nil && u.ProvisionedName() == "" {
		err = tidemark.NotFoundf("user %s: not found", u.ID)
	}
	if err != nil {
		return u, nil, err
	}
	groups, err := c.groups()
	return u, c.userResource(u, groups), err
}

func (c scimCall) listUsers() (scimAnswer, error) {
	groups, err := c.groups()
	if err != nil {
		return scimAnswer{}, err
	}
	var all []resource
	for u, err := range c.users.Users(c.ctx, c.t.ID, "") {
		if err != nil {
			return scimAnswer{}, err
		}
		if u.ProvisionedName() != "" {
			all = append(all, c.userResource(u, groups))
		}
	}
	return c.list(all)
}

func (c scimCall) getUser() (scimAnswer, error) {
	_, r, err := c.user()
	if err != nil {
		return scimAnswer{}, err
	}
	return scimAnswer{http.StatusOK, c.shown(r)}, nil
}

// sayUser sets what a resource says about a user.
func sayUser(u *tenant.User, r resource) error {
	var in struct {
		UserName, ExternalID, DisplayName string
		Active                            any
		Name                              struct{ Formatted, GivenName, FamilyName string }
		Emails                            []struct {
			Value   string
			Type    string
			Primary any
		}
	}
	if err := recode(r, &in); err != nil {
		return err
	}
	active, known := truth(in.Active)
	if !known && in.Active != nil {
		return faultf("invalidValue", "active: want true or false")
	}
	p := u.Provisioned
	p.UserName, p.GivenName, p.FamilyName = in.UserName, in.Name.GivenName, in.Name.FamilyName
	p.ExternalID = cmp.Or(in.ExternalID, p.ExternalID)
	u.Name = cmp.Or(in.DisplayName, in.Name.Formatted, strings.TrimSpace(in.Name.GivenName+" "+in.Name.FamilyName))
	if u.Email = ""; len(in.Emails) > 0 {
		u.Email = in.Emails[0].Value
	}
	for _, e := range in.Emails {
		if primary, _ := truth(e.Primary); primary {
			u.Email = e.Value
		}
	}
	if known {
		u.State = map[bool]string{true: tenant.Active, false: tenant.Suspended}[active]
	}
	return nil
}

// truth reads a boolean, which some providers send as a text.
func truth(v any) (is, known bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		is, err := strconv.ParseBool(strings.ToLower(v))
		return is, err == nil
	}
	return false, false
}

// recode reads a resource into a struct. The names of attributes are alike in any case.
func recode(r resource, into any) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return faultf("invalidValue", "an attribute has another type than the schema says")
	}
	return nil
}

func (c scimCall) createUser() (scimAnswer, error) {
	in, err := c.read()
	if err != nil {
		return scimAnswer{}, err
	}
	u := tenant.User{State: tenant.Active, Provisioned: &tenant.Provisioned{}}
	if err := sayUser(&u, in); err != nil {
		return scimAnswer{}, err
	}
	if u, err = c.users.Provision(c.ctx, c.t, u); err == nil {
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, "scim.user.create", u.ID, tenant.AuditDone)
	}
	if err != nil {
		return scimAnswer{}, err
	}
	return scimAnswer{http.StatusCreated, c.userResource(u, nil)}, nil
}

// changeUser replaces what is said about a user, or changes parts of it.
func (c scimCall) changeUser() (scimAnswer, error) {
	in, err := c.read()
	if err != nil {
		return scimAnswer{}, err
	}
	was, have, err := c.user()
	if err == nil {
		err = c.unchanged(have)
	}
	if err == nil && c.Method == http.MethodPatch {
		in, err = patched(have, in)
	}
	if err != nil {
		return scimAnswer{}, err
	}
	u, err := c.users.Reprovision(c.ctx, c.t, was.ID, func(u *tenant.User) error { return sayUser(u, in) })
	if err == nil {
		did := "scim.user.change"
		if was.State != u.State {
			did = map[string]string{tenant.Active: "scim.user.activate", tenant.Suspended: "scim.user.deactivate"}[u.State]
		}
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, did, u.ID, tenant.AuditDone)
	}
	if err != nil {
		return scimAnswer{}, err
	}
	_, now, err := c.user()
	return scimAnswer{http.StatusOK, now}, err
}

func (c scimCall) deleteUser() (scimAnswer, error) {
	u, have, err := c.user()
	if err == nil {
		err = c.unchanged(have)
	}
	if err == nil {
		err = c.users.Deprovision(c.ctx, c.t, u.ID)
	}
	if err == nil {
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, "scim.user.delete", u.ID, tenant.AuditDone)
	}
	return scimAnswer{status: http.StatusNoContent}, err
}

// groupResource is a group as it is sent.
func (c scimCall) groupResource(g tenant.Group) resource {
	members := []any{}
	for _, id := range g.Members {
		members = append(members, resource{"value": id, "type": "User", "$ref": SCIMPath + "/Users/" + id})
	}
	r := resource{"schemas": []string{scimGroup}, "id": g.ID, "displayName": g.Name, "members": members}
	if g.ExternalID != "" {
		r["externalId"] = g.ExternalID
	}
	return c.versioned(r, "Group", g.ID, g.CreatedAt, g.ChangedAt)
}

func (c scimCall) listGroups() (scimAnswer, error) {
	groups, err := c.groups()
	if err != nil {
		return scimAnswer{}, err
	}
	var all []resource
	for _, g := range groups {
		all = append(all, c.groupResource(g))
	}
	return c.list(all)
}

func (c scimCall) getGroup() (scimAnswer, error) {
	g, err := c.users.Group(c.ctx, c.t.ID, c.PathValue("id"))
	if err != nil {
		return scimAnswer{}, err
	}
	return scimAnswer{http.StatusOK, c.shown(c.groupResource(g))}, nil
}

// sayGroup sets what a resource says about a group.
func sayGroup(g *tenant.Group, r resource) error {
	var in struct {
		DisplayName, ExternalID string
		Members                 []struct{ Value string }
	}
	if err := recode(r, &in); err != nil {
		return err
	}
	g.Name, g.ExternalID, g.Members = in.DisplayName, cmp.Or(in.ExternalID, g.ExternalID), []string{}
	for _, m := range in.Members {
		g.Members = append(g.Members, m.Value)
	}
	return nil
}

func (c scimCall) createGroup() (scimAnswer, error) {
	in, err := c.read()
	if err != nil {
		return scimAnswer{}, err
	}
	var g tenant.Group
	if err := sayGroup(&g, in); err != nil {
		return scimAnswer{}, err
	}
	if g, err = c.users.CreateGroup(c.ctx, c.t, g); err == nil {
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, "scim.group.create", g.ID, tenant.AuditDone)
	}
	if err != nil {
		return scimAnswer{}, err
	}
	return scimAnswer{http.StatusCreated, c.groupResource(g)}, nil
}

// changeGroup replaces a group, or changes parts of it.
func (c scimCall) changeGroup() (scimAnswer, error) {
	in, err := c.read()
	if err != nil {
		return scimAnswer{}, err
	}
	g, err := c.users.ChangeGroup(c.ctx, c.t, c.PathValue("id"), func(g *tenant.Group) error {
		have := c.groupResource(*g)
		if err := c.unchanged(have); err != nil {
			return err
		}
		to := in
		if c.Method == http.MethodPatch {
			if to, err = patched(have, in); err != nil {
				return err
			}
		}
		return sayGroup(g, to)
	})
	if err == nil {
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, "scim.group.change", g.ID, tenant.AuditDone)
	}
	if err != nil {
		return scimAnswer{}, err
	}
	return scimAnswer{http.StatusOK, c.groupResource(g)}, nil
}

func (c scimCall) deleteGroup() (scimAnswer, error) {
	g, err := c.users.Group(c.ctx, c.t.ID, c.PathValue("id"))
	if err == nil {
		err = c.unchanged(c.groupResource(g))
	}
	if err == nil {
		err = c.users.DeleteGroup(c.ctx, c.t, g.ID)
	}
	if err == nil {
		err = c.s.stores.AuditIn(c.ctx, c.t.ID, "scim.group.delete", g.ID, tenant.AuditDone)
	}
	return scimAnswer{status: http.StatusNoContent}, err
}
