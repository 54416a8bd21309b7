package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/backend/remote"
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
	base, err := remote.LocalURL(o.addr)
	if err != nil {
		return err
	}
	store, _, err := o.location()
	if err != nil {
		return err
	}
	token, err := open.LocalToken(store, os.Environ(), o.tokenFile)
	if err != nil {
		return err
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
