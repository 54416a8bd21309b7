package tenant

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// An issuer may speak for many tenants. Its rules then say who belongs where, by
// the claims of a token: the first rule that fits decides, and whom none fits is
// let in nowhere. They are one record, so that their order is never half changed.

// AnyValue is the value of a rule that fits whatever a claim says.
const AnyValue = "*"

// maxRules bounds the rules of an issuer: each caller is held against all of them.
const maxRules = 500

// maxClaimBytes bounds the name of a claim and its value.
const maxClaimBytes = 256

// Rule says where people belong whose token has a claim with a value.
type Rule struct {
	Claim  string `json:"claim,omitempty"` // "": whoever the issuer vouches for
	Value  string `json:"value,omitempty"` // one of the claim's values, or AnyValue
	Tenant string `json:"tenant"`          // its name
	// Role and Workspaces, by name, are what such people have from then on, each
	// time they come; where a rule has none, the admins of the tenant give them.
	Role       string   `json:"role,omitempty"`
	Workspaces []string `json:"workspaces,omitempty"`
	// Operator means that such people, who have to be admins, may also do what a token
	// of the scope operator may: see to all tenants, and read nothing of theirs.
	Operator bool `json:"operator,omitempty"`
}

// Fits reports whether the rule is about a token; values are those of a claim.
func (r Rule) Fits(values func(claim string) []string) bool {
	if r.Claim == "" {
		return true
	}
	said := values(r.Claim)
	return slices.Contains(said, r.Value) || r.Value == AnyValue && len(said) > 0
}

// Same reports whether two rules fit the same tokens.
func (r Rule) Same(as Rule) bool { return r.Claim == as.Claim && r.Value == as.Value }

// Into returns rules with r after the others, or before them.
func (r Rule) Into(rules []Rule, first bool) []Rule {
	if first {
		return append([]Rule{r}, rules...)
	}
	return append(slices.Clone(rules), r)
}

// OutOf returns rules without the one that fits the same tokens as r: ErrNotFound
// when there is none.
func (r Rule) OutOf(rules []Rule) ([]Rule, error) {
	if !slices.ContainsFunc(rules, r.Same) {
		return nil, tidemark.NotFoundf("there is no such rule")
	}
	return slices.DeleteFunc(slices.Clone(rules), r.Same), nil
}

func (r Rule) check() error {
	switch {
	case len(r.Claim) > maxClaimBytes || len(r.Value) > maxClaimBytes:
		return tidemark.Invalidf("rule: a claim or value of more than %d bytes", maxClaimBytes)
	case r.Claim == "" && r.Value != "":
		return tidemark.Invalidf("rule: the value %q of which claim?", r.Value)
	case r.Claim != "" && r.Value == "":
		return tidemark.Invalidf("rule: which value of %q? %s is any", r.Claim, AnyValue)
	case r.Operator && r.Role != RoleAdmin:
		return tidemark.Invalidf("rule: an operator has the role %s", RoleAdmin)
	case r.Role != "":
		return CheckRole(r.Role)
	}
	return nil
}

// issuerRules is what is kept of the rules of one issuer.
type issuerRules struct {
	Issuer    string    `json:"issuer"`
	Rules     []Rule    `json:"rules"`
	ChangedAt time.Time `json:"changed_at"`
}

func rulesKey(issuer string) tidemark.Key {
	return tidemark.Key{Kind: kindRules, ID: tidemark.IDOf("rules", issuer)}
}

// Rules returns the rules of an issuer, in the order in which they are tried; none
// for an issuer that speaks for the one tenant that is bound to it.
func (d *Directory) Rules(ctx context.Context, issuer string) ([]Rule, error) {
	var kept issuerRules
	_, err := d.k.Get(ctx, rulesKey(issuer), &kept)
	return kept.Rules, err
}

// RulesChanged returns when the rules of an issuer were last changed; zero for one
// that never had any. Who signed in before that has to show a token again.
func (d *Directory) RulesChanged(ctx context.Context, issuer string) (time.Time, error) {
	var kept issuerRules
	_, err := d.k.Get(ctx, rulesKey(issuer), &kept)
	return kept.ChangedAt, err
}

// ChangeRules changes the rules of an issuer. Every tenant that they name has to be
// there; workspaces that are not there yet are made. Errors: ErrNotFound, ErrInvalid.
func (d *Directory) ChangeRules(ctx context.Context, issuer string, change func([]Rule) ([]Rule, error)) ([]Rule, error) {
	var all []Rule
	err := records.Retry(ctx, func() error {
		var kept issuerRules
		r, err := d.k.Get(ctx, rulesKey(issuer), &kept)
		if err != nil {
			return err
		}
		if all, err = change(kept.Rules); err != nil {
			return err
		}
		if err := d.checkRules(ctx, all); err != nil {
			return err
		}
		p, err := records.Put(r.Key, r.Version, issuerRules{issuer, all, d.k.Now()})
		if err != nil {
			return err
		}
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
	return all, err
}

func (d *Directory) checkRules(ctx context.Context, all []Rule) error {
	if len(all) > maxRules {
		return tidemark.Invalidf("%d rules: an issuer has %d at most", len(all), maxRules)
	}
	for i, r := range all {
		if err := r.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(all[:i], r.Same) {
			return tidemark.Invalidf("rule: %s %s is there twice, and the second never counts", text.Shorten(r.Claim, maxNameBytes), text.Shorten(r.Value, maxNameBytes))
		}
		t, err := d.TenantNamed(ctx, r.Tenant)
		if err != nil {
			return err
		}
		for _, name := range r.Workspaces {
			if _, err := d.CreateWorkspace(ctx, t.ID, name); err != nil && !errors.Is(err, tidemark.ErrExists) {
				return err
			}
		}
	}
	return nil
}

// WorkspacesOf returns the ids of the workspaces that the rule names in its tenant,
// sorted.
func (r Rule) WorkspacesOf(t Tenant) []string {
	var ids []string
	for _, name := range r.Workspaces {
		ids = append(ids, workspaceID(t, name))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Belonging returns where a token belongs: the tenant, and the rule that says so. An
// issuer without rules speaks for the tenant that is bound to it, and the rule is
// empty. ErrNotFound when no rule fits.
func (d *Directory) Belonging(ctx context.Context, issuer, foreign string, values func(claim string) []string) (Tenant, Rule, error) {
	rules, err := d.Rules(ctx, issuer)
	if err != nil {
		return Tenant{}, Rule{}, err
	}
	if len(rules) == 0 {
		t, err := d.TenantOfIssuer(ctx, issuer, foreign)
		return t, Rule{}, err
	}
	for _, r := range rules {
		if r.Fits(values) {
			t, err := d.TenantNamed(ctx, r.Tenant)
			return t, r, err
		}
	}
	return Tenant{}, Rule{}, tidemark.NotFoundf("no rule of the issuer fits")
}
