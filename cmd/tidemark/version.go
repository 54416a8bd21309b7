package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

// commit is the commit that the program was built from, and date its time as
// RFC 3339; both are set by the build.
var commit, date string

// versionView is what version prints.
type versionView struct {
	Version  string                      `json:"version"`
	Commit   string                      `json:"commit,omitempty"`
	Date     string                      `json:"date,omitempty"`
	Go       string                      `json:"go"`
	Platform string                      `json:"platform"`
	Formats  map[string]open.FormatRange `json:"formats"`
	Server   *remote.Server              `json:"server,omitempty"`
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
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: open.Formats()}
			if server != "" {
				s, err := remote.DescribeServer(cmd.Context(), strings.TrimRight(server, "/"))
				if err != nil {
					return hint.With(fmt.Errorf("server %s: %w", server, err), "what it says itself: %s/readyz", strings.TrimRight(server, "/"))
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

// stamped returns a build setting that Go recorded, for a program that was built
// without make.
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
