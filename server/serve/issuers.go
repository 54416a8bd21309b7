package serve

import (
	"cmp"
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// reread is how often the file of the issuers is looked at. It is read, and not its
// time compared: whoever replaces a file may keep the time.
const reread = 2 * time.Second

// issuerSettings is one issuer, as the file of the issuers describes it.
type issuerSettings struct {
	Issuer           string                  `yaml:"issuer"`
	Name             string                  `yaml:"name"`
	Audience         string                  `yaml:"audience"`
	Azp              []string                `yaml:"azp"`
	ClientID         string                  `yaml:"client_id"`
	ClientSecretFile string                  `yaml:"client_secret_file"`
	Entra            bool                    `yaml:"entra"`
	DefaultRole      string                  `yaml:"default_role"`
	RoleClaim        string                  `yaml:"role_claim"`
	Roles            map[string]request.Role `yaml:"roles"`
	// Rules are all rules of the issuer; nil: those of tidemark tenant rule stay.
	Rules *[]tenant.Rule `yaml:"rules"`

	secret string // what ClientSecretFile contains
}

// issuerKeeper keeps the issuers of a server as its flags and a file describe them.
type issuerKeeper struct {
	Config
	*Program
	issuers *auth.Issuers
	users   *tenant.Directory
	changed func() // forgets who was admitted
	now     []issuerSettings
	said    string // the last complaint, which is not repeated
}

// read returns the issuers that are to be accepted: that of the flags, and those of
// the file.
func (k *issuerKeeper) read() ([]issuerSettings, error) {
	var all []issuerSettings
	if c := k.OIDC; c.Issuer != "" || k.Auth == AuthEntra {
		all = append(all, issuerSettings{Issuer: c.Issuer, Audience: c.Audience, Azp: c.Clients, ClientID: c.ClientID, Entra: k.Auth == AuthEntra,
			DefaultRole: c.Role, RoleClaim: c.RoleClaim, secret: c.ClientSecret})
	}
	if k.OIDC.File == "" {
		return all, nil
	}
	f, err := os.Open(k.OIDC.File)
	if err != nil {
		return nil, tidemark.Invalidf("issuers: %w", err)
	}
	defer f.Close()
	var settings struct {
		Issuers []issuerSettings `yaml:"issuers"`
	}
	if err := yaml.ReadSettings("issuers", k.OIDC.File, f, &settings); err != nil {
		return nil, err
	}
	for _, i := range settings.Issuers {
		i.Audience, i.DefaultRole = cmp.Or(i.Audience, k.OIDC.Audience), cmp.Or(i.DefaultRole, k.OIDC.Role)
		if err := k.complete(&i, all); err != nil {
			return nil, tidemark.Invalidf("issuers %s: %w", k.OIDC.File, err)
		}
		all = append(all, i)
	}
	if len(all) == 0 {
		return nil, tidemark.Invalidf("issuers %s: there is none", k.OIDC.File)
	}
	return all, nil
}

// complete checks an issuer of the file, and reads its secret.
func (k *issuerKeeper) complete(i *issuerSettings, before []issuerSettings) error {
	if i.Entra {
		i.Issuer = cmp.Or(i.Issuer, auth.EntraIssuer)
	}
	switch {
	case i.Issuer == "":
		return tidemark.Invalidf("an issuer without its URL")
	case slices.ContainsFunc(before, func(b issuerSettings) bool {
		return b.Issuer == i.Issuer || b.Issuer == "" && i.Issuer == auth.EntraIssuer
	}):
		return tidemark.Invalidf("%s is there twice", i.Issuer)
	case i.Entra && i.Rules != nil && i.Issuer == auth.EntraIssuer:
		return tidemark.Invalidf("rules are those of one organisation: give it an entry of its own, with the issuer https://login.microsoftonline.com/TID/v2.0")
	case i.ClientSecretFile == "":
		return nil
	}
	text, err := os.ReadFile(open.Beside(k.Environ, k.OIDC.File, i.ClientSecretFile))
	if err != nil {
		return err
	}
	i.secret = strings.TrimSpace(string(text))
	return nil
}

// find returns the Authenticators of issuers, all at once: each may take its time to
// answer. One that was there before and did not change stays as it is.
func (k *issuerKeeper) find(ctx context.Context, all []issuerSettings) ([]*auth.OIDCAuthenticator, error) {
	found, errs := make([]*auth.OIDCAuthenticator, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for n, i := range all {
		if was := slices.IndexFunc(k.now, func(b issuerSettings) bool { return i.sameButRules(b) }); was >= 0 {
			found[n] = k.issuers.All()[was]
			continue
		}
		asking.Go(func() {
			found[n], errs[n] = auth.OIDC(ctx, auth.OIDCOptions{Issuer: i.Issuer, Name: i.Name, Audience: i.Audience, Entra: i.Entra, Clients: i.Azp, ClientID: i.ClientID, ClientSecret: i.secret,
				Users: k.users, Role: request.Role(i.DefaultRole), RoleClaim: i.RoleClaim, Roles: i.Roles, Fresh: freshCaller})
		})
	}
	asking.Wait()
	return found, errors.Join(errs...)
}

func (i issuerSettings) sameButRules(as issuerSettings) bool {
	i.Rules, as.Rules = nil, nil
	return reflect.DeepEqual(i, as)
}

// place keeps the rules that the file gives, where they changed. Who signed in with a
// browser has to do it again only then.
func (k *issuerKeeper) place(ctx context.Context, all []issuerSettings) error {
	for _, i := range all {
		if i.Rules == nil {
			continue
		}
		have, err := k.users.Rules(ctx, i.Issuer)
		if err != nil {
			return err
		}
		if slices.EqualFunc(have, *i.Rules, func(a, b tenant.Rule) bool { return reflect.DeepEqual(a, b) }) {
			continue
		}
		set := func() (string, error) {
			_, err := k.users.ChangeRules(ctx, i.Issuer, func([]tenant.Rule) ([]tenant.Rule, error) { return *i.Rules, nil })
			return i.Issuer, err
		}
		if !open.HasAudit(k.Store) {
			_, err = set()
		} else {
			err = k.users.AuditAround(ctx, tidemark.TenantOf(tenant.DefaultTenant, "").Tenant,
				tenant.Audited{Who: tidemark.Operator().User, Name: "the file of the issuers on " + k.Holder.Host, Action: "tenant.rule.set", Thing: i.Issuer}, set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin takes up what was read before the store was open.
func (k *issuerKeeper) begin(ctx context.Context, users *tenant.Directory) error {
	k.users = users
	for _, by := range k.issuers.All() {
		by.SetUsers(users)
		if err := by.Away(); err != nil {
			k.Say("tidemark: warning: issuer %s does not answer: %v; it is asked again when somebody comes with its token", by.Issuer(), err)
		}
	}
	return k.place(ctx, k.now)
}

// again reads the file again, and takes up what changed. With a file that is wrong
// everything stays as it is.
func (k *issuerKeeper) again(ctx context.Context) error {
	all, err := k.read()
	if err != nil || reflect.DeepEqual(all, k.now) {
		return err
	}
	found, err := k.find(ctx, all)
	if err != nil {
		return err
	}
	if err := k.place(ctx, all); err != nil {
		return err
	}
	k.issuers.Replace(found)
	k.now = all
	k.changed()
	k.Say("The issuers changed: %d are accepted.", len(all))
	return nil
}

// watch reads the file again whenever it may have changed, until ctx ends, and
// returns a function that waits for that.
func (k *issuerKeeper) watch(ctx context.Context) (end func()) {
	if k == nil || k.OIDC.File == "" {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reread):
			}
			text := ""
			if err := k.again(ctx); err != nil && ctx.Err() == nil {
				if text = err.Error(); text != k.said {
					k.Complain(tidemark.Invalidf("%w; the issuers and rules from before stay", err))
				}
			}
			k.said = text
		}
	}()
	return func() { stop(); <-done }
}
