package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/mcp"
	"github.com/tidemark-sessions/tidemark/open"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	*app
	*serve.Config
	file  string
	check bool
}

func serveCommand(a *app) *cobra.Command {
	v := &serveFlags{app: a, Config: serve.Default()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions and the fleet over HTTP",
		Long: `Answers programs and browsers over HTTP: the API of /openapi.json, the web pages,
/healthz, /readyz and /metrics. A token is always needed, on this machine too.

With --auth local there is one user, whose token is in a file that only they can
read. With --auth oidc people come with a token of an issuer, services with one
of tidemark token create, and each tenant sees its own. That needs a store on
PostgreSQL, unless --require-database=false says otherwise.

Everything can be set in serve.yaml, too, beside config.yaml or named with --file:
each flag is a key, with _ for -. Flags and variables come first. Secrets are in
files of their own, which it names. --check says what is set, and leaves.

A certificate is read again when its files change, and at SIGHUP. SIGTERM and
Ctrl-C end the server: requests under way are answered first, for 20 seconds at
most, and streams are told to come back.`,
		Example: `  tidemark serve
  tidemark serve --addr 127.0.0.1:8080
  tidemark serve --file team.yaml --check
  tidemark --store "postgres://tidemark@db/tidemark" serve --addr :7433 --host tides.example.com \
      --auth oidc --oidc-issuer https://id.example.com --oidc-audience tidemark`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.complete(cmd); err != nil {
				return err
			}
			if v.check {
				return errors.Join(v.printSettings(), serve.Check(cmd.Context(), *v.Config, v.program(cmd)))
			}
			serve.CollectLess(os.Environ())
			return serve.Run(cmd.Context(), *v.Config, v.program(cmd))
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.file, "file", "", "`FILE` with settings ($"+serve.FileVariable+"; default serve.yaml beside config.yaml)")
	f.BoolVar(&v.check, "check", false, "say what is set and by what, look whether the server could start, and leave")
	for _, s := range v.Settings() {
		if !s.Everywhere && !s.Secret && !s.FileOnly {
			f.Var(s, s.Name, s.Usage())
			if s.Type() == "bool" {
				f.Lookup(s.Name).NoOptDefVal = "true"
			}
		}
	}
	return cmd
}

// complete takes what no flag sets from the environment and the file.
func (v *serveFlags) complete(cmd *cobra.Command) error {
	dir, err := configDir()
	if err != nil {
		return err
	}
	from := serve.Sources{Environ: os.Environ(), File: v.file, Usual: filepath.Join(dir, "serve.yaml"), Flag: func(name string) (string, bool) {
		f := cmd.Flag(name)
		return f.Value.String(), f.Changed
	}}
	if from.Store, from.StoreOrigin, err = v.location(); err != nil {
		return err
	}
	return v.Complete(from)
}

// printSettings prints what is set, and by what.
func (v *serveFlags) printSettings() error {
	var rows []setting
	t := v.table("NAME", "VALUE", "ORIGIN")
	for _, s := range v.Settings() {
		rows = append(rows, setting{s.Key(), s.Shown(), s.Origin})
		t.Row(s.Key(), s.Shown(), s.Origin)
	}
	return v.print(rows, t.Print)
}

// program returns what a server needs of this program. With a certificate SIGHUP
// reloads that; else it ends the program, as when a terminal closes.
func (v *serveFlags) program(cmd *cobra.Command) serve.Program {
	reload := make(chan os.Signal, 1)
	if v.CertFile != "" {
		signal.Notify(reload, syscall.SIGHUP)
	}
	environ := v.Variables(os.Environ())
	opening := func(how open.Access) *open.Options {
		o := v.openOptions(how)
		o.ColdPlace = coldPlaces(environ)
		return o
	}
	return serve.Program{Version: version, Holder: v.holder(cmd), Environ: environ, Opening: opening, ToFile: v.toFile, Reload: reload,
		Chat: func(ctx context.Context, s *store.Store, c routes.ChatOptions) (routes.Conversation, error) {
			return v.conversation(ctx, s, c, nil)
		},
		Folder: func(s tidemark.Session) string { return v.setup(v.config).FolderFor(s, currentFolder()) },
		Commands: func(s tidemark.Session) []slash.Command {
			return slash.PageCommands(v.setup(v.config), projectAt(v.setup(v.config).FolderFor(s, currentFolder())))
		},
		MCP: func(c routes.MCP) http.Handler { return mcp.Handler(v.mcpOptions(c, "")) },
		Log: v.logger(), Errors: v.err, Say: v.say, Complain: v.complain}
}

func (v *serveFlags) logger() *slog.Logger {
	if v.quiet {
		return nil
	}
	return v.Logger(v.err)
}

// conversation opens a conversation for a client of the server: a new session, or
// one to continue. Its tools work in the folder that the server was started in; a
// person at this machine has what they would have in a terminal. If model is not
// nil, it is used instead of the configured one.
func (a *app) conversation(ctx context.Context, s *store.Store, o routes.ChatOptions, model *agent.Model) (routes.Conversation, error) {
	folder := currentFolder()
	of := tidemark.Session{Project: o.Project}
	if i, err := s.Session(ctx, o.Session); err == nil {
		of = i.Session
	}
	if o.Person {
		folder = a.setup(a.config).FolderFor(of, folder)
	}
	set := (&chatFlags{choice: agent.Choice{Model: o.Model}}).options(a, s, projectAt(folder), folder)
	if !o.Person {
		set.Grants, set.Source, set.Hooks = nil, nil, nil
	}
	set.Holder, set.Session, set.Model = process.Self("tidemark serve, for "+request.CallerOf(ctx).Name), o.Session, model
	if o.ForceNew {
		set.FreshInterpreter = "asked for with force_new_session"
	}
	if o.Person {
		return slash.OpenRemote(ctx, a.setup(a.config), set, o.Emit)
	}
	return a.setup(a.config).OpenRemote(ctx, set, o.Emit)
}
