package serve

import (
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/tidemark-sessions/tidemark/open"
)

// A server keeps little and throws much away: with a small heap a fifth of its
// time went into collecting it. servedHeap is from where on memory counts more.
const (
	servedGarbage = 400 // percent of what is kept
	servedHeap    = 1 << 30
)

// CollectLess lets more garbage gather in this process, unless its environment
// says how much. It is for programs that do nothing but serve.
func CollectLess(environ []string) {
	if open.Getenv(environ, "GOGC") == "" && open.Getenv(environ, "GOMEMLIMIT") == "" {
		debug.SetGCPercent(servedGarbage)
		debug.SetMemoryLimit(servedHeap)
	}
}

// Logger writes the log in the format that is configured.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
