package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// A reload may come before the fleet has said that it starts; run with -race.
func TestAFleetIsReloadedWhileItStarts(t *testing.T) {
	name := filepath.Join(t.TempDir(), file.DefaultName)
	const one = "version: 1\nagents:\n  - {name: clock, runner: command, command: [\"true\"]}\n"
	read, err := file.ParseAt(name, []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	// The first signal may be answered while the second text is written.
	write := func(text string) {
		if err := errors.Join(os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name)); err != nil {
			t.Error(err)
		}
	}
	write(one)
	reload := make(chan os.Signal, 2)
	reload <- syscall.SIGHUP
	ctx, down := context.WithCancel(t.Context())
	defer down()
	var mu sync.Mutex
	var said []string
	none := func(string) string { return "" }
	err = Up(ctx, Options{Store: fleetOn(memory.New(), nil), Holder: process.Self("test"), File: read,
		Machine: &Machine{Setup: new(agent.Setup), LookupEnv: func(string) (string, bool) { return "", false }, File: name},
	}, Host{File: name, Reload: reload, Getenv: none, Complain: func(err error) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}, Say: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
		switch now := said[len(said)-1]; {
		case strings.Contains(now, "is up"):
			write(one + "  - {name: bell, runner: command, command: [\"true\"]}\n")
			reload <- syscall.SIGHUP
		case strings.Contains(now, "bell"):
			down()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(said, "\n"); strings.Count(all, "bell") != 1 || !strings.Contains(all, "starts: 1 agent") {
		t.Errorf("said, and the change once:\n%s", all)
	}
}
