package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
)

// commit is what the program was made of and date when that was committed, as
// RFC 3339; set by the build.
var commit, date string

// versionView is what this program is.
type versionView struct {
	Version  string                 `json:"version"`
	Commit   string                 `json:"commit,omitempty"`
	Date     string                 `json:"date,omitempty"`
	Go       string                 `json:"go"`
	Platform string                 `json:"platform"`
	Formats  map[string]formatRange `json:"formats"`
	Server   *serverView            `json:"server,omitempty"`
}

// formatRange is which numbers of a format the program takes as they are, and
// which it makes.
type formatRange struct {
	Reads  []int `json:"reads"`
	Writes int   `json:"writes"`
}

// serverView is what a server says of itself.
type serverView struct {
	URL     string `json:"url"`
	Version string `json:"version"`
}

// storeFormats are those that docs/formats describes, each by the name of its page.
// Tables of a database are brought up to date by their owner, never read as an
// older program left them; both sides of a wire speak the same number.
func storeFormats() map[string]formatRange {
	return map[string]formatRange{
		"sqlite":   upTo(sqlite.Format),
		"files":    upTo(files.Format),
		"postgres": {Reads: []int{postgres.Schema}, Writes: postgres.Schema},
		"archive":  upTo(archive.Format),
		"seal":     upTo(seal.Format),
		"wire":     {Reads: []int{api.BackendFormat}, Writes: api.BackendFormat},
	}
}

// upTo is a format whose older forms are read, too.
func upTo(newest int) formatRange {
	f := formatRange{Writes: newest}
	for n := 1; n <= newest; n++ {
		f.Reads = append(f.Reads, n)
	}
	return f
}

func versionCommand(a *app) *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version and the platform of this program. --json adds what it was made
of and, by the names of the pages in docs/formats, which numbers of each format
it reads and which it writes.

--server asks a server, too: which version it is, and whether it is ready to
answer. It needs no token, and fails when the server is not ready: the question
of a health check.`,
		Example: `  tidemark version
  tidemark version --jq .formats.sqlite
  tidemark version --server http://127.0.0.1:7433`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionView{Version: version, Commit: cmp.Or(commit, stamped("vcs.revision")), Date: cmp.Or(date, stamped("vcs.time")),
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: storeFormats()}
			if server != "" {
				s, err := askServer(cmd.Context(), strings.TrimRight(server, "/"))
				if err != nil {
					return withHint(fmt.Errorf("server %s: %w", server, err), "what it says itself: %s/readyz", strings.TrimRight(server, "/"))
				}
				v.Server = s
			}
			return a.print(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "tidemark %s %s\n", v.Version, v.Platform)
				if v.Server != nil && err == nil {
					_, err = fmt.Fprintf(w, "server %s %s ready\n", v.Server.Version, v.Server.URL)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "ask the server at this `URL`, too, and fail unless it is ready")
	return cmd
}

// stamped is what Go itself wrote into a program that was built without make.
func stamped(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// serverTimeout is how long a server has to say whether it is ready; one that
// takes longer is of no use to whoever asks.
const serverTimeout = 5 * time.Second

// askServer returns what the server at a URL is, if it is ready.
func askServer(ctx context.Context, at string) (*serverView, error) {
	ctx, stop := context.WithTimeout(ctx, serverTimeout)
	defer stop()
	var ready strings.Builder
	if err := fetch(ctx, at+"/readyz", func(body io.Reader) error {
		_, err := io.Copy(&ready, body)
		return err
	}); err != nil {
		return nil, err
	}
	if strings.TrimSpace(ready.String()) != "ready" {
		return nil, tidemark.Invalidf("is no Tidemark server")
	}
	var about struct{ Info struct{ Version string } }
	err := fetch(ctx, at+"/openapi.json", func(body io.Reader) error { return json.NewDecoder(body).Decode(&about) })
	return &serverView{URL: at, Version: about.Info.Version}, err
}

// maxAbout bounds what a stranger can make this program read.
const maxAbout = 8 << 20

func fetch(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return cmp.Or(errors.Unwrap(err), err) // without the address, which is said already
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("is not ready: it answers %s", resp.Status)
	}
	return read(io.LimitReader(resp.Body, maxAbout))
}
