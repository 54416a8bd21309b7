// Package serve is what tidemark serve does, for every Go program: it opens the
// stores of a server, determines who may call it, listens, and lets requests in
// progress end when it is told to stop.
//
// It never reads the environment of its process, prints nothing and catches
// no signals: its caller passes in the environment, functions for messages,
// and a context that ends.
//
//	err := serve.Run(ctx, serve.Config{Listener: serve.Listener{Addr: "127.0.0.1:7433"}, Auth: serve.AuthLocal}, program)
package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Config is how a server is to run.
type Config struct {
	Listener
	// Store is the URL of the store that it serves. With Migrate its database
	// is upgraded first, and RequireDatabase refuses a store that is no
	// database.
	Store                    string
	Migrate, RequireDatabase bool
	// Replicas are the URLs of standbys of the database that answer reads.
	Replicas []string
	// Databases is the file with the databases that tenants may have been moved to; "":
	// there are none.
	Databases string
	// Hosts are the names that it is called by, besides localhost. Without any,
	// AuthLocal accepts only localhost, and the others any.
	Hosts []string
	// Auth says how callers are authenticated: AuthLocal, AuthOIDC or
	// AuthEntra.
	Auth string
	// TokenFile has the token of the local user; "": beside the store.
	TokenFile string
	OIDC      OIDC
	// AnchorFile receives the heads of the audit log every minute; "": none.
	AnchorFile string
	// AuditKeep is how long lines of the audit log are kept, such as 365d; "": for ever.
	// AuditSyslog and AuditWebhook are places that get them, too; "": none.
	AuditKeep, AuditSyslog, AuditWebhook string
	// Cold is the URL of the place that older lines of quiet sessions are moved to; "":
	// none. ColdOlder is how long nobody touched them, such as 36h; "": 90d.
	Cold, ColdOlder string
	// PackOlder is how long nobody touched a session whose older lines are packed in the
	// store itself; "": never.
	PackOlder string
	// TraceEndpoint is the URL of an OpenTelemetry collector; "": none.
	TraceEndpoint string
	// Fleet is the file whose webhooks are accepted; "": none.
	Fleet string
	// Limits bound what callers may do.
	Limits request.Limits
	// LogFormat is json or text: how the caller of Run writes Program.Log.
	LogFormat string

	settings                                 []*Setting
	databasePassword, databaseOwner, keyFile string
	webhookSecret, coldKey, coldSecret       string
}

// Program is what a server needs from the program that runs it. All fields but
// Reload are required.
type Program struct {
	Version string
	Holder  tidemark.Holder
	Environ []string
	// Opening says how stores are opened, and cold places with the keys in Environ.
	Opening func(open.Access) *open.Options
	// Chat opens a conversation for the owner of the server's machine, and Folder
	// says which folder it works in; Commands are what can be typed after a slash there.
	Chat     func(context.Context, *store.Store, routes.ChatOptions) (routes.Conversation, error)
	Folder   func(tidemark.Session) string
	Commands func(tidemark.Session) []slash.Command
	// MCP returns the handler for other agents.
	MCP func(routes.MCP) http.Handler
	// ToFile writes a file completely, or not at all.
	ToFile func(name string, write func(io.Writer) error) error
	// Log receives one line per request; nil: none. Errors receives connection
	// errors, and Say and Complain messages for people.
	Log      *slog.Logger
	Errors   io.Writer
	Say      func(format string, args ...any)
	Complain func(error)
	// Reload has the server read its certificate again, which it also does when
	// the files change.
	Reload <-chan os.Signal

	certificate *certificate // of Serve; nil: without TLS
}

func (p *Program) getenv(name string) string { return open.Getenv(p.Environ, name) }

// running is one run of a server.
type running struct {
	Config
	Program
	stores *Opener
	fleet  *file.File // with Config.Fleet
	access access
}

func newRunning(c Config, p Program) *running {
	opening := p.Opening
	p.Opening = func(how open.Access) *open.Options {
		o := opening(how)
		o.Environ = p.Environ // which has what the file says
		o.Cold = c.Cold
		return o
	}
	return &running{Config: c, Program: p}
}

// NoAudit says why a store of files has no audit log.
const NoAudit = "a store of files has no audit log: nobody will know who did what"

// Check does what could prevent a start, and nothing else: it reads the files,
// asks the issuer, and logs in to the database. Nothing is created.
func Check(ctx context.Context, c Config, p Program) error {
	v := newRunning(c, p)
	if err := v.check(ctx); err != nil || !open.IsPostgres(v.Store) {
		return err
	}
	_, err := CheckDatabase(ctx, v.Store, v.Replicas...)
	return err
}

// others reads where tenants may have been moved to. The role and its password are
// those of the store, where the file does not say otherwise.
func (c *Config) others() func() (map[string]string, error) {
	if c.Databases == "" {
		return nil
	}
	return func() (map[string]string, error) {
		all, err := open.ReadDatabases(c.Databases)
		for name, place := range all {
			if err == nil && c.databasePassword != "" && !hasPassword(place) {
				all[name], err = c.withPassword(Sources{}, place)
			}
		}
		return all, err
	}
}

// Run serves until ctx ends. Everything that could prevent the start is checked
// before anything is created.
func Run(ctx context.Context, c Config, p Program) (err error) {
	v := newRunning(c, p)
	if err := v.check(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", v.Addr)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	defer listener.Close()
	if v.Migrate && open.IsPostgres(v.Store) {
		_, err := MigrateDatabase(ctx, v.Store, v.Environ, postgres.Migration{Upgrading: OnlyWithABackup})
		// Newer tables are for who opens them to judge: a server that is about to be
		// replaced may have to start once more.
		if newer := (*tidemark.NewerError)(nil); err != nil && !errors.As(err, &newer) {
			return err
		}
	}
	if v.stores, err = OpenStores(ctx, v.Store, v.Auth == AuthLocal, v.Opening, &postgres.Options{Replicas: v.Replicas, Others: v.others()}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stores.Close()) }()
	v.warn()
	s, end, err := v.server(ctx)
	defer end()
	if err != nil {
		return err
	}
	defer v.keepAnchors(ctx, s)()
	defer s.ForwardAudit(ctx)()
	defer v.access.oidc.watch(ctx)()
	defer v.repeatedly(ctx, s.SweepLinks)()
	endMoving, err := v.moveCold(ctx)
	if err != nil {
		return err
	}
	defer endMoving()
	if db := v.stores.db; db != nil {
		defer v.repeatedly(ctx, db.KeepActs)()
	}
	return v.Serve(ctx, s, s, listener, &v.Program)
}

// warn reports what an operator may not expect.
func (v *running) warn() {
	if v.stores.db == nil && v.Auth != AuthLocal {
		v.Say("tidemark: warning: sessions of all tenants are in one store on this machine; anybody with this machine has all of them")
	}
	if !open.HasAudit(v.Store) {
		v.Say("tidemark: warning: %s", NoAudit)
	}
}

// measure returns what is to be known of the database and of the certificate.
func (v *running) measure() []server.Measure {
	all := v.stores.Measure()
	if c := v.certificate; c != nil {
		all = append(all, server.One("tidemark_certificate_expires_seconds", "gauge", "When the certificate in force runs out, since 1970.", float64(c.expires().Unix())))
	}
	return all
}

// server wires the server. end ends its traces.
func (v *running) server(ctx context.Context) (s *server.Server, end func(), err error) {
	end = func() {}
	t := v.stores
	o := server.Options{Open: t.Store, Backend: t.Backend, Holder: v.Holder, Ready: t.Ready, Export: v.download, Formats: transfer.Formats(),
		Acts: t.Acts, Together: t.db != nil || t.single, NoAudit: !open.HasAudit(v.Store), Import: v.upload, Version: v.Version, Hosts: v.Hosts, Log: v.Log, Limits: v.Limits, Measure: v.measure,
		Inspect: t.Inspect, Watched: t.Watched, MCP: v.MCP}
	if len(v.Replicas) > 0 {
		o.Reading = t.Reading
	}
	if o.AuditKeep, o.Forward, err = v.auditPlaces(v.Version); err != nil {
		return nil, end, err
	}
	if o.Hosts == nil && v.Auth == AuthLocal {
		o.Hosts = []string{}
	}
	users, err := t.Operator(ctx)
	if err != nil {
		return nil, end, err
	}
	o.Offboarding = t.Offboarding(users, v.Holder)
	if o.Auth, err = v.authenticator(ctx, users); err != nil {
		return nil, end, err
	}
	switch {
	case v.access.local != nil:
		o.SignIn, o.Chat, o.Folder, o.Commands = v.access.local, v.chat, v.Folder, v.Commands
	case v.access.browsers != nil:
		o.SignIn = v.access.browsers
	}
	if o.CursorKey, err = users.ServerKey(ctx, "cursor"); err != nil {
		return nil, end, err
	}
	if v.TraceEndpoint != "" {
		var flush func(context.Context) error
		o.Tracer, flush = server.Tracing(v.TraceEndpoint, v.Version, nil)
		end = func() {
			late, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer stop()
			flush(late)
		}
	}
	if o.Hooks, err = v.hooks(ctx, func() *server.Server { return s }); err != nil {
		return nil, end, err
	}
	s, err = server.New(o)
	return s, end, err
}

// chat opens a conversation. Its tools run on this machine as this user, so it
// is for the owner of the machine, not for everybody with a token.
func (v *running) chat(ctx context.Context, s *store.Store, c routes.ChatOptions) (routes.Conversation, error) {
	if !request.CallerOf(ctx).OwnsServer() {
		return nil, tidemark.ErrDenied
	}
	return v.Chat(ctx, s, c)
}

// download writes a session for a client.
func (v *running) download(ctx context.Context, s *store.Store, at store.Point, format string) (string, func(io.Writer) error, error) {
	return transfer.Download(ctx, s, at, format, v.Environ)
}

// upload imports what a client sent, behind what people wait for.
func (v *running) upload(ctx context.Context, s *store.Store, name string, content io.Reader) (in []routes.Imported, err error) {
	how := v.Opening(open.Write)
	how.SecretsMet = nil // they are somebody else's
	results, err := transfer.Upload(postgres.Background(ctx), s, name, content, process.Self("serve"), how)
	for _, r := range results {
		if r.Session != "" {
			in = append(in, routes.Imported{ID: r.Session, Title: r.Title, Entries: int64(r.Entries), Known: r.State == "known", Lost: r.Lost})
		}
	}
	return in, err
}

// hooks serves the webhooks of a fleet file; nil when there is none.
func (v *running) hooks(ctx context.Context, by func() *server.Server) (http.Handler, error) {
	if v.fleet == nil {
		return nil, nil
	}
	p, err := v.stores.Principal()
	if err != nil {
		return nil, err
	}
	p = tidemark.Principal{Tenant: p.Tenant, User: p.Tenant}
	s, err := v.stores.Store(ctx, p)
	if err != nil {
		return nil, err
	}
	s = s.With(func(ctx context.Context, b *tidemark.Batch) (func(error), error) {
		if also := by().AuditHook(p); also != nil {
			return also(ctx, b)
		}
		return func(error) {}, nil // there is no audit log
	})
	d := daemon.New(daemon.Options{Store: fleet.Over(s), File: v.fleet, Secret: v.getenv,
		Tell: func(name, text string) { v.Say("%s", agent.WithWorker(name, text)) }})
	return d.Handler(v.getenv), nil
}
