package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/mcp"
	"github.com/tidemark-sessions/tidemark/open"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
)

// mcpFlags are the flags of mcp. Over HTTP it is a server like that of serve, with
// one path.
type mcpFlags struct {
	serveFlags
	write  bool
	folder string // of the project

	openMutex sync.Mutex
}

func mcpCommand(a *app) *cobra.Command {
	m := &mcpFlags{serveFlags: serveFlags{app: a, Config: &serve.Config{LogFormat: "text"}}}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Show past sessions to other agents, over the Model Context Protocol",
		Long: `Answers an agent or editor that starts it, on stdin and stdout: the agent can
search past sessions, read one around an entry, list recent ones, and read what
was learned in the project. It changes nothing, unless --allow-write lets it
write down what was learned, forget it, hand sessions over, and have you answer
in its own window what a job of the fleet asks.

With --http it answers at http://ADDRESS/mcp instead, to who sends the token that
is in a file which only you can read. tidemark serve answers at /mcp, too, to all
its users, each with what is theirs.

It ends when stdin does, at Ctrl-C and at SIGTERM.

The other way round, add, ls, rm and test are about servers whose tools the agent of
tidemark chat may use.`,
		Example: `  claude mcp add tidemark -- tidemark mcp
  tidemark mcp --allow-write
  tidemark mcp --http 127.0.0.1:7434`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	cmd.AddCommand(serverAdd(a), serverList(a), serverRemove(a), serverTest(a))
	f := cmd.Flags()
	f.BoolVar(&m.write, "allow-write", false, "let agents write memory, hand sessions over, and have you answer what jobs ask")
	f.StringVar(&m.folder, "project", "", "this project is the one in `DIR` (default the current folder's)")
	f.StringVar(&m.Addr, "http", "", "answer over HTTP, at this `ADDRESS`, instead of stdin and stdout")
	f.StringSliceVar(&m.Hosts, "host", nil, "with --http: a `NAME` that this server is called by, besides localhost; again for more")
	f.StringVar(&m.CertFile, "tls-cert", "", "with --http: `FILE` with the certificate")
	f.StringVar(&m.KeyFile, "tls-key", "", "with --http: `FILE` with the key of the certificate")
	f.StringVar(&m.TokenFile, "token-file", "", "with --http: `FILE` with the token (default mcp.token in the folder of the default store)")
	return cmd
}

func (m *mcpFlags) run(cmd *cobra.Command) error {
	m.noInput = true // stdin carries the protocol
	if m.Addr == "" {
		for _, name := range []string{"host", "tls-cert", "tls-key", "token-file"} {
			if cmd.Flags().Changed(name) {
				return tidemark.Invalidf("--%s goes with --http", name)
			}
		}
	} else if err := m.CheckListener("--http", true); err != nil {
		return err
	}
	folder := m.project()
	if m.folder != "" {
		abs, err := filepath.Abs(m.folder)
		if err != nil {
			return tidemark.Invalidf("--project %s: %w", m.folder, err)
		}
		folder = project.WorkTree(abs, homeDir())
	}
	ctx := cmd.Context()
	switch _, err := m.openWhenThere(ctx); {
	case errors.Is(err, tidemark.ErrNoStore):
		m.say("There is no store yet: whoever asks is told so, until there is one.")
	case err != nil:
		return err
	}
	if m.Addr != "" {
		return m.overHTTP(cmd, folder)
	}
	o := m.mcpOptions(routes.MCP{Write: m.write, Open: m.openWhenThere, Holder: func(context.Context) tidemark.Holder { return m.holder(cmd) }}, folder)
	if m.verbose {
		o.Log = slog.New(slog.NewTextHandler(m.err, nil))
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		m.say("This waits for messages of an agent or editor, which starts it by itself; Ctrl-C ends it. See: tidemark mcp --help")
	}
	return mcp.Serve(ctx, o, m.in, m.out)
}

// openWhenThere opens the store at the first call at which there is one: an agent
// may start this program before the store is created.
func (m *mcpFlags) openWhenThere(ctx context.Context) (*store.Store, error) {
	m.openMutex.Lock()
	defer m.openMutex.Unlock()
	how := open.Read
	if m.write {
		how = open.Create
	}
	return m.open(context.WithoutCancel(ctx), how)
}

// overHTTP serves one path until the command ends.
func (m *mcpFlags) overHTTP(cmd *cobra.Command, folder string) error {
	p := m.program(cmd)
	p.MCP = func(c routes.MCP) http.Handler {
		c.Write = c.Write && m.write
		return mcp.Handler(m.mcpOptions(c, folder))
	}
	return serve.RunMCP(cmd.Context(), *m.Config, m.openWhenThere, p)
}

// mcpOptions returns the options of a server for agents.
func (a *app) mcpOptions(c routes.MCP, folder string) mcp.Options {
	return mcp.Options{Open: c.Open, Fleet: c.Fleet, Write: c.Write, Holder: c.Holder, Doing: c.Doing, Wrote: c.Wrote, Tell: c.Tell, Project: folder, Version: version,
		Since: func(text string) (time.Time, error) { return store.ParseSince(text, time.Now()) }, Hint: agentHint}
}

// agentHint returns the hint for an error as an agent needs it, which has tools
// instead of commands.
func agentHint(err error) string {
	switch {
	case errors.Is(err, fleet.ErrNoInbox):
		return "add - {name: inbox, type: chat} to its schedules in the fleet file, or hand over without agent"
	case errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrTrashed):
		return "list_sessions with everywhere, or list_memory, shows what is there"
	}
	return agent.Hint(err)
}
