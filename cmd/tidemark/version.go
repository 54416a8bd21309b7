package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is what this program is.
type versionView struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tidemark version --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := versionView{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			return a.print(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "tidemark %s %s\n", v.Version, v.Platform)
				return err
			})
		},
	}
}
