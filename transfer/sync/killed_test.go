package sync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// killing is a sync by a process of its own, which kills itself: the system ends it as
// it stands, and closes its connections.
type killing struct {
	Calls, Commits int    // at which call of the place or commit; below 0: at none
	Moment         string // before that, during it, or after
	Token          string // for a server

	Path, Host string
	Ahead      time.Duration
	Environ    []string
}

// killingVariable has the killing that a process of these tests is.
const killingVariable = "TIDEMARK_TEST_KILLING"

// storageFailed is the exit code of a process whose place failed.
const storageFailed = 3

func TestMain(m *testing.M) {
	if text := os.Getenv(killingVariable); text != "" {
		os.Exit(beKilled(text))
	}
	os.Exit(placetest.Main(m, os.Args, os.Stdin, os.Stdout))
}

// beKilled is the process.
func beKilled(text string) int {
	var k killing
	err := json.Unmarshal([]byte(text), &k)
	var b tidemark.Backend
	if err == nil {
		b, err = sqlite.Open(context.Background(), k.Path, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h := &home{name: k.Host, places: &remote.Options{Environ: k.Environ}}
	h.ahead.Store(int64(k.Ahead))
	if k.Token != "" {
		h.places.Token = placetest.Token(k.Token)
	}
	o := Options{Holder: h.holder(), Host: h.name, Places: h.places, Push: true, Pull: true}
	o.open = func(ctx context.Context, url string) (remote.Blobs, error) {
		p, err := remote.Open(ctx, url, h.places)
		return &aroundRemote{p, k.dieAt(k.Calls)}, err
	}
	_, err = Run(context.Background(), h.over(&aroundBackend{b, k.dieAt(k.Commits)}), "r", o)
	switch {
	case errors.Is(err, tidemark.ErrStorage):
		return storageFailed
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dieAt kills this process at a call.
func (k killing) dieAt(call int) func(func() error) error {
	die := func() {
		if me, err := os.FindProcess(os.Getpid()); err == nil {
			me.Kill()
		}
		select {}
	}
	return func(do func() error) error {
		if call--; call != 0 {
			return do()
		}
		switch k.Moment {
		case "during":
			began := make(chan struct{})
			go func() { close(began); do() }()
			<-began
		case "after":
			do()
		}
		die()
		return nil
	}
}

// moveToNewStore gives a home an empty store: in memory, or in a new file.
func (h *home) moveToNewStore(onDisk bool) {
	h.t.Helper()
	if h.b, h.file = memory.New(), ""; onDisk {
		h.file = filepath.Join(h.t.TempDir(), "tidemark.db")
		b, err := sqlite.Open(context.Background(), h.file, &sqlite.Options{Create: true})
		h.must(err)
		h.t.Cleanup(func() { b.Close() })
		h.b = b
	}
	h.s = h.over(h.b)
}

// runKilled has another process sync, which is killed. The next one waits for nobody.
func (h *home) runKilled(k killing) (killed bool) {
	h.t.Helper()
	k.Path, k.Host, k.Ahead = h.file, h.name, time.Duration(h.ahead.Load())
	if h.places != nil {
		k.Environ = h.places.Environ
	}
	text, err := json.Marshal(k)
	h.must(err)
	cmd := exec.Command(placetest.Program(h.t))
	cmd.Env = append(os.Environ(), killingVariable+"="+string(text))
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.ExitCode() == storageFailed:
		return false
	case errors.As(err, &exit) && !exit.Exited(), errors.As(err, &exit) && exit.ExitCode() == 1 && said.Len() == 0: // Windows
		return true
	}
	h.t.Errorf("%s: a sync that is killed: %v\n%s", h.name, err, said.Bytes())
	return false
}
