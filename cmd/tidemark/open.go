package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
)

// opening is what open was asked for.
type opening struct {
	*app
	addr      string
	tokenFile string
	only      bool // print the link
}

// opened is the link that open made.
type opened struct {
	URL  string    `json:"url"`
	Till time.Time `json:"till"`
}

func openCommand(a *app) *cobra.Command {
	o := &opening{app: a}
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

func (o *opening) run(ctx context.Context) error {
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
		return withHint(tidemark.NotFoundf("%s: no token is there, so no server was started here yet", path), "start one with: tidemark serve")
	}
	link, err := askLink(ctx, base, token)
	if err != nil {
		return err
	}
	if !o.only && !o.wantsJSON() {
		err := browse(ctx, link.URL)
		if err == nil {
			o.say("Opened %s in the browser.", base)
			return nil
		}
		o.say("No browser could be started (%v). Open this link, within two minutes:", err)
	}
	return o.print(link, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, link.URL)
		return err
	})
}

// serverURL is where a server that listens at an address is reached.
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
		return "", withHint(tidemark.Invalidf("--addr %s: the token would go over the wire for all to read", addr), "put https:// in front, or name an address of this machine")
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// openTimeout is how long the server may take to make a link.
const openTimeout = 10 * time.Second

// askLink asks the server for a link.
func askLink(ctx context.Context, base, token string) (opened, error) {
	ctx, stop := context.WithTimeout(ctx, openTimeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/signin-code", nil)
	if err != nil {
		return opened{}, tidemark.Invalidf("%w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	// The token is for the server that was named, and for no other; no proxy
	// has a part in that either.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op
		}
		return opened{}, withHint(tidemark.Storagef("no server answers at %s: %w", base, err), "start one with: tidemark serve, or name its address with --addr")
	}
	defer res.Body.Close()
	var said struct {
		Path   string    `json:"path"`
		Till   time.Time `json:"till"`
		Detail string    `json:"detail"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&said)
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return opened{}, withHint(fmt.Errorf("the server at %s does not take the token: %w", base, tidemark.ErrDenied), "it may be another one's server, or have another --token-file")
	case res.StatusCode != http.StatusCreated || err != nil || !strings.HasPrefix(said.Path, "/signin?"):
		return opened{}, tidemark.Unsupportedf("the server at %s makes no link: %s", base, strings.TrimSpace(res.Status+" "+said.Detail))
	}
	return opened{URL: base + said.Path, Till: said.Till}, nil
}

// browse opens a link in the browser of the user.
func browse(ctx context.Context, link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	ctx, stop := context.WithTimeout(ctx, openTimeout)
	defer stop()
	return exec.CommandContext(ctx, name, args...).Run()
}
