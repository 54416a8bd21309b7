package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
)

// Complete takes from the environment what is not set, and refuses what does not go
// together. requireSaid means that RequireDatabase is set on purpose.
func (c *Config) Complete(environ []string, requireSaid bool) error {
	env := func(name string) string { return open.Getenv(environ, name) }
	c.Auth = cmp.Or(c.Auth, env("AUTH_MODE"), AuthLocal)
	c.OIDC.Issuer = cmp.Or(c.OIDC.Issuer, env("OIDC_ISSUER"))
	c.OIDC.Audience = cmp.Or(c.OIDC.Audience, env("OIDC_AUDIENCE"))
	if programs := env("OIDC_AZP"); len(c.OIDC.Clients) == 0 && programs != "" {
		c.OIDC.Clients = strings.Split(programs, ",")
	}
	c.OIDC.ClientID = cmp.Or(c.OIDC.ClientID, env("OIDC_CLIENT_ID"))
	c.OIDC.ClientSecret = env("OIDC_CLIENT_SECRET")
	c.OIDC.PublicURL = cmp.Or(c.OIDC.PublicURL, env("TIDEMARK_PUBLIC_URL"))
	c.TraceEndpoint = cmp.Or(c.TraceEndpoint, env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch c.Auth {
	case AuthLocal, AuthEntra:
	case AuthOIDC:
		if c.OIDC.Issuer == "" {
			return hint.With(tidemark.Invalidf("who issues the tokens?"), "name the issuer with --oidc-issuer URL")
		}
	default:
		return tidemark.Invalidf("--auth %q: want local, oidc or entra", c.Auth)
	}
	if !slices.Contains([]string{tenant.RoleReader, tenant.RoleWriter, tenant.RoleAdmin}, c.OIDC.Role) {
		return tidemark.Invalidf("--default-role %q: want reader, writer or admin", c.OIDC.Role)
	}
	if c.Auth != AuthLocal && c.OIDC.Audience == "" {
		return hint.With(tidemark.Invalidf("tokens for whom?"), "name this service, as the issuer knows it, with --oidc-audience")
	}
	if !requireSaid {
		c.RequireDatabase = c.Auth != AuthLocal
		if text := env("DATABASE_REQUIRED"); text != "" {
			on, err := strconv.ParseBool(text)
			if err != nil {
				return tidemark.Invalidf("DATABASE_REQUIRED %q: want true or false", text)
			}
			c.RequireDatabase = on
		}
	}
	return nil
}
