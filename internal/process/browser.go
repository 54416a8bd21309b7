package process

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// browserTimeout is how long a system may take to find its browser.
const browserTimeout = 10 * time.Second

// Browse opens a link in the browser of the user.
func Browse(ctx context.Context, link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	ctx, stop := context.WithTimeout(ctx, browserTimeout)
	defer stop()
	return exec.CommandContext(ctx, name, args...).Run()
}
