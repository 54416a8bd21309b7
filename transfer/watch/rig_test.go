package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// fakeNotifier tells what the test says, and fails as the test wants.
type fakeNotifier struct {
	mu      sync.Mutex
	room    int // how many folders may be added
	folders map[string]bool
	changes chan Change
}

func newFake(room int) *fakeNotifier {
	return &fakeNotifier{room: room, folders: make(map[string]bool), changes: make(chan Change)}
}

func (n *fakeNotifier) Add(folder string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.folders[folder] && len(n.folders) >= n.room {
		return &os.SyscallError{Syscall: "inotify_add_watch", Err: syscall.ENOSPC}
	}
	n.folders[folder] = true
	return nil
}

func (n *fakeNotifier) Remove(folder string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.folders, folder)
	return nil
}

func (n *fakeNotifier) Changes() <-chan Change { return n.changes }
func (n *fakeNotifier) Close() error           { close(n.changes); return nil }

// rig is a home folder with a watcher.
type rig struct {
	t      *testing.T
	home   string
	s      *store.Store
	o      Options
	events chan Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, home: t.TempDir(), s: store.New(memory.New(), nil), events: make(chan Event, 10_000)}
	r.o = Options{Opened: open.Around(r.s), Holder: store.Self("watch"), User: "ada", Home: r.home, Tell: func(e Event) { r.events <- e },
		SweepAfter: 10 * time.Millisecond, SweepAtLeast: 20 * time.Millisecond}
	return r
}

// run runs a watcher until the end of the test, or until stop is called.
func (r *rig) run() (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	go func() { done <- New(r.o).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// until waits for an Event that fits.
func (r *rig) until(what string, fits func(Event) bool) Event {
	r.t.Helper()
	for {
		select {
		case e := <-r.events:
			if fits(e) {
				return e
			}
		case <-r.t.Context().Done():
			r.t.Fatalf("never: %s", what)
		}
	}
}

// say is the line of a transcript of Claude Code. Odd ones are answers.
func say(session string, n int, project string) string {
	parent, kind, message := "null", "user", fmt.Sprintf(`{"role":"user","content":"question %d of %s"}`, n, session[:4])
	if n > 0 {
		parent = fmt.Sprintf(`"%s-%d"`, session[:4], n-1)
	}
	if n%2 == 1 {
		kind = "assistant"
		message = fmt.Sprintf(`{"stop_reason":"end_turn","id":"m%d","type":"message","role":"assistant","model":"demo","content":[{"type":"text","text":"answer %d"}],"usage":{"input_tokens":3,"output_tokens":4}}`, n, n)
	}
	at := time.Date(2026, 11, 1, 10, 0, n, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf(`{"type":%q,"uuid":"%s-%d","parentUuid":%s,"sessionId":%q,"cwd":%q,"timestamp":%q,"version":"2.1.325","isSidechain":false,"userType":"external","message":%s}`+"\n",
		kind, session[:4], n, parent, session, project, at, message)
}

// sayQwen is the line of a transcript of Qwen Code. Odd ones are answers.
func sayQwen(session string, n int) string {
	parent, kind, more := "null", "user", ""
	if n > 0 {
		parent = fmt.Sprintf(`"%s-%d"`, session[:4], n-1)
	}
	if n%2 == 1 {
		kind, more = "assistant", `"model":"demo","usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4},`
	}
	at := time.Date(2026, 11, 1, 10, 0, n, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf(`{"type":%q,"uuid":"%s-%d","parentUuid":%s,"sessionId":%q,"cwd":"/tea","timestamp":%q,"version":"0.24.4",%s"message":{"role":"x","parts":[{"text":"line %d"}]}}`+"\n",
		kind, session[:4], n, parent, session, at, more, n)
}

func idOf(n int) string { return fmt.Sprintf("%04d1111-1111-4111-8111-111111111111", n) }

// transcript is the file of a session.
func (r *rig) transcript(folder string, n int) string {
	return filepath.Join(r.home, ".claude", "projects", folder, idOf(n)+".jsonl")
}

func (r *rig) append(file, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = cmpErr(err, f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// kept is what is kept of all sessions, by the ids of their tools.
func kept(t *testing.T, s *store.Store) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for i, err := range s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.ViewOf(i)
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{fmt.Sprintf("%s %q %q %s", i.Tool, i.Title, i.Model, i.Project)}
		with, err := v.WithDraft(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range with.Log(t.Context()) {
			line, encodeErr := json.Marshal(e)
			if err != nil || encodeErr != nil {
				t.Fatal(err, encodeErr)
			}
			lines = append(lines, string(line))
		}
		if all[i.ForeignID] != nil {
			t.Errorf("session %s is there twice", i.ForeignID)
		}
		all[i.ForeignID] = lines
	}
	return all
}

// atOnce is what an import of the home at once keeps.
func atOnce(t *testing.T, home string) map[string][]string {
	t.Helper()
	s := store.New(memory.New(), nil)
	i := &transfer.Importer{Opened: open.Around(s), Holder: store.Self("import")}
	if _, err := i.Homes(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	return kept(t, s)
}

// entries counts what is kept.
func entries(all map[string][]string) (n int) {
	for _, lines := range all {
		n += len(lines) - 1
	}
	return n
}

// control is what the user of the rig tells.
func (r *rig) control() *Control { return ControlOf(r.o) }

func (r *rig) status() Status {
	r.t.Helper()
	st, err := r.control().Status(r.t.Context(), r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

func took(n int) func(Event) bool { return func(e Event) bool { return e.Entries >= n } }

func in(state string) func(Event) bool { return func(e Event) bool { return e.State == state } }
