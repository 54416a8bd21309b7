package main

import (
	"context"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
)

// openFlags are the flags of open.
type openFlags struct {
	*app
	addr      string
	tokenFile string
	only      bool // print the link
}

func openCommand(a *app) *cobra.Command {
	o := &openFlags{app: a}
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the pages of the local server in a browser",
		Long: `Asks the server that tidemark serve runs on this machine for a link that signs a
browser in, and opens it. The link works once, and for two minutes.`,
		Example: `  tidemark open
  tidemark open --print`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.addr, "addr", "127.0.0.1:7433", "`ADDRESS` that the server listens at; with https:// in front when it has a certificate")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token of the local user (default server.token beside the store)")
	f.BoolVar(&o.only, "print", false, "print the link, and open nothing")
	return cmd
}

func (o *openFlags) run(ctx context.Context) error {
	base, err := serverURL(o.addr)
	if err != nil {
		return err
	}
	store, _, err := o.location()
	if err != nil {
		return err
	}
	path, err := open.TokenBeside(store, os.Environ(), o.tokenFile)
	if err != nil {
		return err
	}
	token, err := open.ReadToken(path)
	if clients, dirErr := open.TokenPath(os.Environ(), ""); token == "" && err == nil && o.tokenFile == "" && dirErr == nil {
		token, err = open.ReadToken(clients)
	}
	if err != nil {
		return err
	}
	if token == "" {
		return hint.With(tidemark.NotFoundf("%s: no token is there, so no server was started here yet", path), "start one with: tidemark serve")
	}
	link, err := remote.RequestSignInLink(ctx, base, token)
	if err != nil {
		return err
	}
	if !o.only && !o.wantsJSON() {
		err := process.Browse(ctx, link.URL)
		if err == nil {
			o.say("Opened %s in the browser.", base)
			return nil
		}
		o.say("No browser could be started (%v). Open this link, within two minutes:", err)
	}
	return o.printf(link, "%s\n", link.URL)
}

// serverURL returns the URL of a server that listens at an address.
func serverURL(addr string) (string, error) {
	scheme := "http"
	if rest, ok := strings.CutPrefix(addr, "https://"); ok {
		scheme, addr = "https", rest
	}
	addr = strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", tidemark.Invalidf("--addr %q: want HOST:PORT", addr)
	}
	ip := net.ParseIP(host)
	if host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if ip = net.ParseIP(host); scheme == "http" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", hint.With(tidemark.Invalidf("--addr %s: the token would go over the wire for all to read", addr), "put https:// in front, or name an address of this machine")
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}
