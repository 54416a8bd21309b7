package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/mcp"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// The ways to know who calls.
const (
	authLocal = "local"
	authOIDC  = "oidc"
	authEntra = "entra" // oidc with what Microsoft Entra needs
)

// serving is what serve was asked for.
type serving struct {
	*app
	addr            string
	auth            string
	issuer          string
	audience        string
	clientID        string   // with which people sign in
	clients         []string // the programs whose tokens are taken
	publicURL       string
	role, roleClaim string
	hosts           []string
	cert, key       string
	tokenFile       string
	anchorFile      string
	otlp            string
	logFormat       string
	migrate         bool
	requireDatabase bool
	fleetFile       string
	local           *auth.LocalAuthenticator // with --auth local
	signIn          *auth.OIDCSignIn         // with --oidc-client-id
	oidc            *auth.OIDCAuthenticator  // with --auth oidc
	fleet           *file.File               // with --fleet
}

func serveCommand(a *app) *cobra.Command {
	v := &serving{app: a}
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
			if err := v.settle(cmd); err != nil {
				return err
			}
			return v.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.addr, "addr", "127.0.0.1:7433", "`ADDRESS` to listen at")
	f.StringVar(&v.auth, "auth", "", "who may call: local or oidc ($AUTH_MODE; entra is oidc for Microsoft Entra) (default local)")
	f.StringVar(&v.issuer, "oidc-issuer", "", "`URL` of who issues tokens ($OIDC_ISSUER)")
	f.StringVar(&v.audience, "oidc-audience", "", "the `AUDIENCE` that tokens have to name ($OIDC_AUDIENCE)")
	f.StringSliceVar(&v.clients, "oidc-azp", nil, "the `ID` of a program whose tokens are taken, as azp says it; again for more ($OIDC_AZP, with commas). Without it, only those of the audience itself")
	f.StringVar(&v.clientID, "oidc-client-id", "", "the `ID` that the issuer knows this server by, to let browsers sign in ($OIDC_CLIENT_ID; its secret is in $OIDC_CLIENT_SECRET)")
	f.StringVar(&v.publicURL, "public-url", "", "the `URL` that people reach this server at, when a proxy has the TLS ($TIDEMARK_PUBLIC_URL)")
	f.StringVar(&v.role, "default-role", "writer", "the `ROLE` of users at first sight: reader, writer or admin")
	f.StringVar(&v.roleClaim, "role-claim", "", "the `CLAIM` of a token that says the role, each time; without it admins give roles")
	f.StringSliceVar(&v.hosts, "host", nil, "a `NAME` that this server is called by, besides localhost; again for more. With oidc and without it, any")
	f.StringVar(&v.cert, "tls-cert", "", "`FILE` with the certificate; without it, put a proxy with TLS in front")
	f.StringVar(&v.key, "tls-key", "", "`FILE` with the key of the certificate")
	f.StringVar(&v.tokenFile, "token-file", "", "`FILE` with the token of the local user (default server.token beside the store)")
	f.StringVar(&v.anchorFile, "audit-anchors", "", "`FILE` that gets the head of the audit log every minute; keep it elsewhere")
	f.StringVar(&v.otlp, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector ($OTEL_EXPORTER_OTLP_ENDPOINT)")
	f.StringVar(&v.logFormat, "log", "json", "`FORMAT` of the log on stderr: json or text")
	f.StringVar(&v.fleetFile, "fleet", "", "take the webhooks of this fleet `FILE` at /hooks/AGENT/NAME; a fleet that is up runs their jobs")
	f.BoolVar(&v.migrate, "migrate", false, "bring the database up to date first ($TIDEMARK_DATABASE_OWNER is the URL of its owner)")
	f.BoolVar(&v.requireDatabase, "require-database", false, "refuse to start without PostgreSQL ($DATABASE_REQUIRED; on with oidc)")
	return cmd
}

// settle takes from the environment what no flag said, and refuses what does
// not go together.
func (v *serving) settle(cmd *cobra.Command) error {
	v.auth = cmp.Or(v.auth, os.Getenv("AUTH_MODE"), authLocal)
	v.issuer = cmp.Or(v.issuer, os.Getenv("OIDC_ISSUER"))
	v.audience = cmp.Or(v.audience, os.Getenv("OIDC_AUDIENCE"))
	if programs := os.Getenv("OIDC_AZP"); len(v.clients) == 0 && programs != "" {
		v.clients = strings.Split(programs, ",")
	}
	v.clientID = cmp.Or(v.clientID, os.Getenv("OIDC_CLIENT_ID"))
	v.publicURL = cmp.Or(v.publicURL, os.Getenv("TIDEMARK_PUBLIC_URL"))
	v.otlp = cmp.Or(v.otlp, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch v.auth {
	case authLocal, authEntra:
	case authOIDC:
		if v.issuer == "" {
			return withHint(tidemark.Invalidf("who issues the tokens?"), "name the issuer with --oidc-issuer URL")
		}
	default:
		return tidemark.Invalidf("--auth %q: want local, oidc or entra", v.auth)
	}
	if !slices.Contains([]string{tenant.RoleReader, tenant.RoleWriter, tenant.RoleAdmin}, v.role) {
		return tidemark.Invalidf("--default-role %q: want reader, writer or admin", v.role)
	}
	if v.auth != authLocal && v.audience == "" {
		return withHint(tidemark.Invalidf("tokens for whom?"), "name this service, as the issuer knows it, with --oidc-audience")
	}
	if !cmd.Flags().Changed("require-database") {
		v.requireDatabase = v.auth != authLocal
		if text := os.Getenv("DATABASE_REQUIRED"); text != "" {
			on, err := strconv.ParseBool(text)
			if err != nil {
				return tidemark.Invalidf("DATABASE_REQUIRED %q: want true or false", text)
			}
			v.requireDatabase = on
		}
	}
	if v.logFormat != "json" && v.logFormat != "text" {
		return tidemark.Invalidf("--log %q: want json or text", v.logFormat)
	}
	return v.settleListener("--addr")
}

// settleListener refuses an address, named by a flag, at which the token of the
// local user would go over a wire that others can read.
func (v *serving) settleListener(flag string) error {
	if (v.cert == "") != (v.key == "") {
		return tidemark.Invalidf("--tls-cert and --tls-key go together")
	}
	host, _, err := net.SplitHostPort(v.addr)
	if err != nil {
		return tidemark.Invalidf("%s %q: want HOST:PORT", flag, v.addr)
	}
	if ip := net.ParseIP(host); v.auth == authLocal && v.cert == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return withHint(tidemark.Invalidf("%s %s: others could read along, the token included", flag, v.addr),
			"listen at 127.0.0.1, or give --tls-cert and --tls-key")
	}
	return nil
}

// run serves until the command ends.
func (v *serving) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := v.check(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", v.addr)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	defer listener.Close()
	t, err := v.openTeam(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	if !t.database && v.auth != authLocal {
		v.say("tidemark: warning: sessions of all tenants are in one store on this machine; anybody with this machine has all of them")
	}
	if isFiles(t.url) {
		v.say("tidemark: warning: %s", noAudit)
	}
	o := server.Options{Open: t.store, Backend: t.backend, Holder: v.holder(cmd), Ready: t.ready, Export: serveExport, Formats: transfer.Formats(),
		Acts: t.acts, Together: t.db != nil || t.single, NoAudit: isFiles(t.url), Import: v.serveImport, Version: version, Hosts: v.hosts, Log: v.logger()}
	if o.Hosts == nil && v.auth == authLocal {
		o.Hosts = []string{}
	}
	if o.Auth, err = v.authenticator(ctx, t); err != nil {
		return err
	}
	if v.local != nil {
		o.SignIn = v.local
		// A conversation has tools that run on this machine as this user: that
		// is for who has the machine, not for everybody with a token.
		o.Chat = func(ctx context.Context, s *store.Store, c routes.ChatOptions) (routes.Conversation, error) {
			if who := request.CallerOf(ctx); !who.Operator || who.Token != "" {
				return nil, tidemark.ErrDenied
			}
			return v.conversation(ctx, s, c, nil)
		}
	}
	if v.signIn != nil {
		o.SignIn = v.signIn
	}
	users, err := t.operator(ctx)
	if err != nil {
		return err
	}
	if o.CursorKey, err = users.ServerKey(ctx, "cursor"); err != nil {
		return err
	}
	if v.otlp != "" {
		var end func(context.Context) error
		o.Tracer, end = server.Tracing(v.otlp, version, nil)
		defer func() {
			late, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer stop()
			end(late)
		}()
	}
	var s *server.Server
	if o.Hooks, err = v.hooks(ctx, t, func() *server.Server { return s }); err != nil {
		return err
	}
	o.Inspect = t.inspect
	o.MCP = func(c routes.MCP) http.Handler { return mcp.Handler(v.forAgents(c, "")) }
	if s, err = server.New(o); err != nil {
		return err
	}
	defer v.keepAnchors(ctx, s)()
	return v.serve(ctx, s, s, listener)
}

// serveExport writes a session for a client.
func serveExport(ctx context.Context, s *store.Store, at store.Point, format string) (string, func(io.Writer) error, error) {
	return transfer.Download(ctx, s, at, format, os.Environ())
}

// serveImport imports what a client sent.
func (v *serving) serveImport(ctx context.Context, s *store.Store, name string, content io.Reader) (in []routes.Imported, err error) {
	how := v.opening(writes)
	how.SecretsMet = nil // they are somebody else's
	results, err := transfer.Upload(ctx, s, name, content, v.holderNamed("serve"), how)
	for _, r := range results {
		if r.Session != "" {
			in = append(in, routes.Imported{ID: r.Session, Title: r.Title, Entries: int64(r.Entries), Known: r.State == "known", Lost: r.Lost})
		}
	}
	return in, err
}

// hooks takes the webhooks of a fleet file; nil when there is none.
func (v *serving) hooks(ctx context.Context, t *team, by func() *server.Server) (http.Handler, error) {
	if v.fleet == nil {
		return nil, nil
	}
	p, err := t.principal()
	if err != nil {
		return nil, err
	}
	p = tidemark.Principal{Tenant: p.Tenant, User: p.Tenant}
	s, err := t.store(ctx, p)
	if err != nil {
		return nil, err
	}
	s = s.With(func(ctx context.Context, b *tidemark.Batch) (func(error), error) {
		if also := by().WrittenDown(p); also != nil {
			return also(ctx, b)
		}
		return func(error) {}, nil // there is no audit log
	})
	d := daemon.New(daemon.Options{Store: s, File: v.fleet, Secret: os.Getenv,
		Tell: func(name, text string) { v.say("%s", agent.WithWorker(name, text)) }})
	return d.Handler(os.Getenv), nil
}

// drainTimeout is how long requests have to end when the server is told to.
const drainTimeout = 20 * time.Second

// serve answers with a handler of s until ctx ends, and then lets what is under
// way end.
func (v *serving) serve(ctx context.Context, s *server.Server, handler http.Handler, listener net.Listener) error {
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(v.err, nil), slog.LevelWarn)}
	scheme := "http"
	if v.cert != "" {
		scheme = "https"
	}
	v.say("Serving at %s://%s", scheme, listener.Addr())
	n := newNotifier(os.Getenv)
	n.ready()
	ended := make(chan error, 1)
	go func() {
		if v.cert != "" {
			ended <- h.ServeTLS(listener, v.cert, v.key)
		} else {
			ended <- h.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	n.stopping()
	s.Drain()
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer stop()
	err := errors.Join(h.Shutdown(late), s.Wait(late))
	if errors.Is(err, context.DeadlineExceeded) {
		v.say("tidemark: some requests did not end in %s and were cut off", drainTimeout)
		err = h.Close()
	}
	v.say("Served.")
	return err
}

func (v *serving) logger() *slog.Logger {
	if v.quiet {
		return nil
	}
	if v.logFormat == "text" {
		return slog.New(slog.NewTextHandler(v.err, nil))
	}
	return slog.New(slog.NewJSONHandler(v.err, nil))
}

// besideStore is where the token of a server lies: beside its store or, where
// that is no place on this machine, where clients look.
func (a *app) besideStore(named string) (string, error) {
	place, _, err := a.location()
	if scheme, path, _ := strings.Cut(place, ":"); err == nil && named == "" && (scheme == "sqlite" || scheme == "files") {
		return filepath.Join(filepath.Dir(path), open.TokenName), nil
	}
	if err != nil {
		return "", err
	}
	return open.TokenPath(os.Environ(), named)
}

// serverToken returns the token of the local user, and where it is. One user
// has one token, which lies beside each store that was served and where clients
// look for it, so that they find it whichever store is served.
func (v *serving) serverToken() (token, path string, err error) {
	if path, err = v.besideStore(v.tokenFile); err != nil {
		return "", "", err
	}
	clients, err := open.TokenPath(os.Environ(), v.tokenFile)
	if err != nil {
		return "", "", err
	}
	for _, p := range []string{path, clients} {
		if token, err = open.ReadToken(p); token != "" || err != nil {
			break
		}
	}
	if token == "" && err == nil {
		token = newLocalToken()
	}
	for _, p := range []string{path, clients} {
		if err == nil {
			_, err = keepToken(p, token)
		}
	}
	return token, path, err
}

// localToken returns the token that a file holds, and makes one at first.
func localToken(path string) (string, error) { return keepToken(path, newLocalToken()) }

func newLocalToken() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// keepToken returns the token in a file, after it put the given one there if
// there was none.
func keepToken(path, token string) (string, error) {
	if is, err := open.ReadToken(path); is != "" || err != nil {
		return is, err
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return "", tidemark.Storagef("%w", err)
	}
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return "", tidemark.Storagef("%w", err)
	}
	defer dir.Close()
	name := filepath.Base(path)
	err = durable.Stream(dir, fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), name, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, token)
		return err
	})
	if err != nil {
		return "", tidemark.Storagef("%s: %w", path, err)
	}
	return token, nil
}
