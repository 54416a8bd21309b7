package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/mcp"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	*app
	serve.Config
	logFormat string
}

func serveCommand(a *app) *cobra.Command {
	v := &serveFlags{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions and the fleet over HTTP",
		Long: `Answers programs and browsers over HTTP: the API of /openapi.json, the web pages,
/healthz, /readyz and /metrics. A token is always needed, on this machine too.

With --auth local there is one user, whose token is in a file that only they can
read. With --auth oidc people come with a token of an issuer, services with one
of tidemark token create, and each tenant sees its own. That needs a store on
PostgreSQL, unless --require-database=false says otherwise.

SIGTERM and Ctrl-C end it: requests under way are answered first, for 20 seconds
at most, and streams are told to come back.`,
		Example: `  tidemark serve
  tidemark serve --addr 127.0.0.1:8080
  tidemark --store "postgres://tidemark@db/tidemark" serve --addr :7433 --host tides.example.com \
      --auth oidc --oidc-issuer https://id.example.com --oidc-audience tidemark`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.complete(cmd); err != nil {
				return err
			}
			collectLess()
			return serve.Run(cmd.Context(), v.Config, v.program(cmd))
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.Addr, "addr", "127.0.0.1:7433", "`ADDRESS` to listen at")
	f.StringVar(&v.Auth, "auth", "", "who may call: local or oidc ($AUTH_MODE; entra is oidc for Microsoft Entra) (default local)")
	f.StringVar(&v.OIDC.Issuer, "oidc-issuer", "", "`URL` of who issues tokens ($OIDC_ISSUER)")
	f.StringVar(&v.OIDC.Audience, "oidc-audience", "", "the `AUDIENCE` that tokens have to name ($OIDC_AUDIENCE)")
	f.StringSliceVar(&v.OIDC.Clients, "oidc-azp", nil, "the `ID` of a program whose tokens are taken, as azp says it; again for more ($OIDC_AZP, with commas). Without it, only those of the audience itself")
	f.StringVar(&v.OIDC.ClientID, "oidc-client-id", "", "the `ID` that the issuer knows this server by, to let browsers sign in ($OIDC_CLIENT_ID; its secret is in $OIDC_CLIENT_SECRET)")
	f.StringVar(&v.OIDC.PublicURL, "public-url", "", "the `URL` that people reach this server at, when a proxy has the TLS ($TIDEMARK_PUBLIC_URL)")
	f.StringVar(&v.OIDC.Role, "default-role", "writer", "the `ROLE` of users at first sight: reader, writer or admin")
	f.StringVar(&v.OIDC.RoleClaim, "role-claim", "", "the `CLAIM` of a token that says the role, each time; without it admins give roles")
	f.StringSliceVar(&v.Hosts, "host", nil, "a `NAME` that this server is called by, besides localhost; again for more. With oidc and without it, any")
	f.StringVar(&v.CertFile, "tls-cert", "", "`FILE` with the certificate; without it, put a proxy with TLS in front")
	f.StringVar(&v.KeyFile, "tls-key", "", "`FILE` with the key of the certificate")
	f.StringVar(&v.TokenFile, "token-file", "", "`FILE` with the token of the local user (default server.token beside the store)")
	f.StringVar(&v.AnchorFile, "audit-anchors", "", "`FILE` that gets the head of the audit log every minute; keep it elsewhere")
	f.StringVar(&v.TraceEndpoint, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector ($OTEL_EXPORTER_OTLP_ENDPOINT)")
	f.StringVar(&v.logFormat, "log", "json", "`FORMAT` of the log on stderr: json or text")
	f.StringVar(&v.Fleet, "fleet", "", "take the webhooks of this fleet `FILE` at /hooks/AGENT/NAME; a fleet that is up runs their jobs")
	f.BoolVar(&v.Migrate, "migrate", false, "bring the database up to date first ($TIDEMARK_DATABASE_OWNER is the URL of its owner)")
	f.BoolVar(&v.RequireDatabase, "require-database", false, "refuse to start without PostgreSQL ($DATABASE_REQUIRED; on with oidc)")
	return cmd
}

// A server keeps little and throws much away: with a small heap a fifth of its
// time went into collecting it. servedHeap is from where on memory counts more.
const (
	servedGarbage = 400 // percent of what is kept
	servedHeap    = 1 << 30
)

// collectLess lets more garbage gather, unless the environment says how much.
func collectLess() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(servedGarbage)
		debug.SetMemoryLimit(servedHeap)
	}
}

// complete takes from the environment what no flag sets, and refuses what does not
// go together.
func (v *serveFlags) complete(cmd *cobra.Command) error {
	if err := v.Complete(os.Environ(), cmd.Flags().Changed("require-database")); err != nil {
		return err
	}
	if v.logFormat != "json" && v.logFormat != "text" {
		return tidemark.Invalidf("--log %q: want json or text", v.logFormat)
	}
	var err error
	if v.Store, _, err = v.location(); err != nil {
		return err
	}
	return v.CheckListener("--addr", v.Auth == serve.AuthLocal)
}

// program returns what a server needs of this program.
func (v *serveFlags) program(cmd *cobra.Command) serve.Program {
	return serve.Program{Version: version, Holder: v.holder(cmd), Environ: os.Environ(), Opening: v.openOptions, ToFile: v.toFile,
		Chat: func(ctx context.Context, s *store.Store, c routes.ChatOptions) (routes.Conversation, error) {
			return v.conversation(ctx, s, c, nil)
		},
		MCP: func(c routes.MCP) http.Handler { return mcp.Handler(v.mcpOptions(c, "")) },
		Log: v.logger(), Errors: v.err, Say: v.say, Complain: v.complain}
}

func (v *serveFlags) logger() *slog.Logger {
	if v.quiet {
		return nil
	}
	if v.logFormat == "text" {
		return slog.New(slog.NewTextHandler(v.err, nil))
	}
	return slog.New(slog.NewJSONHandler(v.err, nil))
}

// conversation opens a conversation for a client of the server: a new session, or
// one to continue. Its tools work in the folder that the server was started in. If
// model is not nil, it is used instead of the configured one.
func (a *app) conversation(ctx context.Context, s *store.Store, o routes.ChatOptions, model *agent.Model) (routes.Conversation, error) {
	set := agent.Options{Store: s, Holder: process.Self("tidemark serve, for " + request.CallerOf(ctx).Name), Session: o.Session,
		Choice: agent.Choice{Model: o.Model}, Model: model, Project: a.project(), Folder: currentFolder()}
	if o.ForceNew {
		set.FreshInterpreter = "asked for with force_new_session"
	}
	c, err := a.setup(a.config).OpenRemote(ctx, set, o.Emit)
	if err != nil {
		return nil, err
	}
	return c, nil
}
