package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/hook"
	"github.com/tidemark-sessions/tidemark/agent/mcpclient"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
)

// serverFiles returns the files with MCP servers for the agent: those that the user
// named, and their own. That of the project comes with a conversation.
func (a *app) serverFiles(named ...string) mcpclient.Files {
	f := mcpclient.Files{Named: named}
	if dir, err := configDir(); err == nil {
		f.Own = filepath.Join(dir, "mcp.json")
	}
	return f
}

// conversationHooks makes the hooks of a conversation, the user's own among them.
func conversationHooks() func(agent.Programs) chat.Hooks {
	own := ""
	if dir, err := configDir(); err == nil {
		own = filepath.Join(dir, hook.OwnFile)
	}
	return hook.Source(own, claudeFolder())
}

// conversationServers returns the servers of a conversation that starts here; nil
// when there are none.
func (a *app) conversationServers() (*mcpclient.Clients, []mcpclient.Server, error) {
	grants := a.grants().For(a.project())
	p := a.setup(a.config).ProgramsFor(agent.Options{Project: a.project(), Grants: grants})
	f := a.serverFiles()
	clients, _ := f.Source(version)(p).(*mcpclient.Clients)
	if clients != nil {
		clients.Guard(mcpclient.Approved{Grants: grants, Tell: func(text string) { a.say("%s", text) }})
	}
	if p.IsProject {
		f.Project = p.Project
	}
	servers, err := f.Read()
	return clients, servers, err
}

func serverAdd(a *app) *cobra.Command {
	var s mcpclient.Server
	var env, headers []string
	cmd := &cobra.Command{
		Use: "add NAME URL | NAME -- COMMAND [ARG]…", Short: "Add a server for the agent of tidemark chat",
		Long: `Adds an MCP server to your own file, for all projects: a program that is started
when its tools are first needed, or an address. The program runs in the sandbox of
the project; what it needs beyond it is said here. ${NAME} in a value of --env or
--header is replaced by your variable of that name when the server starts, so that
no secret has to stand in the file.`,
		Example: `  tidemark mcp add files --no-sandbox -- npx -y @modelcontextprotocol/server-filesystem .
  tidemark mcp add tracker https://mcp.example.org/mcp --header 'Authorization=Bearer ${TRACKER_TOKEN}'
  tidemark mcp add docs --allow-host docs.example.org -- docs-server --stdio`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Name = args[0]
			if len(args) == 2 && strings.Contains(args[1], "://") {
				s.Type, s.URL = "http", args[1]
			} else {
				s.Command, s.Args = args[1], args[2:]
			}
			var err error
			if s.Env, err = pairs("--env", env); err == nil {
				s.Headers, err = pairs("--header", headers)
			}
			if err != nil {
				return err
			}
			if s.Sandbox != nil && !s.Sandbox.Off && len(s.Sandbox.Hosts)+len(s.Sandbox.Write) == 0 {
				s.Sandbox = nil
			}
			if err := mcpclient.Add(cmd.Context(), a.serverFiles().Own, s); err != nil {
				return err
			}
			a.say("Added. Try it: tidemark mcp test %s", s.Name)
			return nil
		},
	}
	s.Sandbox = &mcpclient.Sandbox{}
	fl := cmd.Flags()
	fl.StringArrayVar(&env, "env", nil, "a variable of the program, `NAME=VALUE`; again for more")
	fl.StringArrayVar(&headers, "header", nil, "a header of each request, `NAME=VALUE`; again for more")
	fl.StringSliceVar(&s.Sandbox.Hosts, "allow-host", nil, "a `HOST` that the program may reach; again for more")
	fl.StringSliceVar(&s.Sandbox.Write, "allow-write", nil, "a `FOLDER` outside of the project that the program may read and write; again for more")
	fl.BoolVar(&s.Sandbox.Off, "no-sandbox", false, "the program may do all that you may")
	return cmd
}

// pairs splits values of the form NAME=VALUE.
func pairs(flag string, values []string) (map[string]string, error) {
	all := make(map[string]string)
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, tidemark.Invalidf("%s %.80q: want NAME=VALUE", flag, v)
		}
		all[name] = value
	}
	return all, nil
}

func serverList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the servers for the agent of tidemark chat",
		Long: `Lists the MCP servers that a chat in this folder has: your own, and those in the
.mcp.json of the project. A server of the project is started only after you approved
its exact definition in a chat; when it changes, you are asked again.`,
		Example: "  tidemark mcp ls\n  tidemark mcp ls --json=name,state",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, servers, err := a.conversationServers()
			if err != nil {
				return err
			}
			rows := mcpclient.Rows(servers, a.project(), a.grants().For(a.project()))
			return printTable(a, rows, []string{"NAME", "STATE", "WHAT", "FILE"}, func(r mcpclient.Row) []string {
				return []string{r.Name, r.State, render.Phrase(r.What), r.File}
			})
		},
	}
}

func serverRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a server of your own",
		Example: "  tidemark mcp rm files",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := mcpclient.Remove(cmd.Context(), a.serverFiles().Own, args[0])
			return hint.With(err, "see them with: tidemark mcp ls; those of a project stand in its %s", mcpclient.ProjectFile)
		},
	}
}

func serverTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Start a server, and show what it offers",
		Long: `Starts an MCP server as a chat in this folder would, in the same sandbox, shows its
tools, prompts and resources, and ends it.`,
		Example: "  tidemark mcp test files\n  tidemark mcp test files --json",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			clients, _, err := a.conversationServers()
			if clients == nil {
				if err == nil {
					err = tidemark.NotFoundf("there is no MCP server %.60q", args[0])
				}
				return hint.With(err, "add one with: tidemark mcp add NAME -- COMMAND")
			}
			defer clients.Close()
			return a.testServer(cmd.Context(), clients, args[0])
		},
	}
}

func (a *app) testServer(ctx context.Context, clients *mcpclient.Clients, name string) error {
	if err := clients.Restart(ctx, name); err != nil {
		return err
	}
	for _, s := range clients.Status() {
		if s.Name != name {
			continue
		}
		return a.print(s, func(w io.Writer) error {
			for _, line := range s.Offers() {
				fmt.Fprintln(w, render.CleanLine(line))
			}
			return nil
		})
	}
	return nil
}
