package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// builtPath is where the tests of this package build the program that they share.
func builtPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("tidemark-load-test-%d", os.Getpid()))
}

var built = sync.OnceValues(func() (string, error) {
	path := builtPath()
	out, err := exec.Command("go", "build", "-o", path, "github.com/tidemark-sessions/tidemark/cmd/tidemark").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return path, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.Remove(builtPath())
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"-bin", program(t), "-followers", "12", "-writers", "6", "-entries", "12", "-drains", "0", "-kills", "0", "-cuts", "1", "-failover"}, &out, &log)
	if reason, ok := strings.CutPrefix(out.String(), "skipped: "); ok {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s, and CI=true", reason)
		}
		t.Skip(reason)
	}
	if code != 0 {
		t.Errorf("exit %d\n%s%s", code, log.String(), out.String())
	}
}

// heard is what a follower was told.
type heard struct {
	t      *testing.T
	events chan nodes.Event
}

// follow follows a session from an event on, and reconnects when it is cut off,
// as a browser does.
func follow(t *testing.T, c *nodes.Client, node string, id tidemark.SessionID, after string) *heard {
	h := &heard{t, make(chan nodes.Event, 100)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.Follow(ctx, node, id, after, func(e nodes.Event) error {
				if e.Name == "reset" || e.Name == "" && e.Data != nil {
					after = e.ID
					h.events <- e
				}
				return nil
			})
			away(ctx, firstPause)
		}
	}()
	return h
}

// hears waits for the texts of entries, or the names of other events.
func (h *heard) hears(want ...string) (last nodes.Event) {
	h.t.Helper()
	for _, w := range want {
		select {
		case last = <-h.events:
		case <-time.After(entryTimeout):
			h.t.Fatalf("nothing came where %q belongs", w)
		}
		got := last.Name
		if got == "" {
			var e api.LogEntry
			if err := json.Unmarshal(last.Data, &e); err != nil {
				h.t.Fatal(err)
			}
			got = e.Text()
		}
		if got != w {
			h.t.Fatalf("heard %q, want %q", got, w)
		}
	}
	return last
}

// A standby that is behind takes over: what only the primary had is lost, though it
// was acknowledged. Nobody may be left to believe that it is there.
func TestFollowersAreToldWhenAFailoverLosesWhatWasAcknowledged(t *testing.T) {
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	standby := pgtest.NewStandby(t, primary, false)
	tr := &trial{o: options{bin: program(t), log: t.Output(), nodes: 1, writers: 1, followers: 4}, book: &book{}, cluster: primary, standby: standby}
	done, err := tr.prepare(t.Context())
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	node := tr.nodes[0].URL
	id, err := tr.client.Create(t.Context(), node, "tides")
	if err != nil {
		t.Fatal(err)
	}
	var book []string // what was acknowledged
	say := func(text string) {
		t.Helper()
		for began, pause := time.Now(), firstPause; ; {
			_, err := tr.client.Append(t.Context(), node, id, "", api.NewEntry{Role: tidemark.User, Content: text, Key: text})
			if err == nil {
				book = append(book, text)
				return
			}
			if time.Since(began) > entryTimeout {
				t.Fatalf("%s: %v", text, err)
			}
			if pause, err = away(t.Context(), pause); err != nil {
				t.Fatal(err)
			}
		}
	}
	say("one")
	say("two")
	there := follow(t, tr.streams, node, id, "")
	there.hears("one", "two")
	if err := primary.CaughtUp(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Hold(); err != nil {
		t.Fatal(err)
	}
	say("three")
	say("four")
	last := there.hears("three", "four").ID
	if err := tr.failOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It is told without anybody writing, and has what is left.
	there.hears("reset", "one", "two")
	// The numbers of what was lost are given again.
	say("three, after the storm")
	say("four, after the storm")
	there.hears("three, after the storm", "four, after the storm")
	// Who was away meanwhile comes with the id of what was lost.
	follow(t, tr.streams, node, id, last).hears("reset", "one", "two", "three, after the storm", "four, after the storm")

	kept, err := tr.client.Log(t.Context(), node, id)
	if err != nil {
		t.Fatal(err)
	}
	lost := len(book)
	for _, e := range kept {
		for _, text := range book {
			if e.Text() == text {
				lost--
			}
		}
	}
	if lost != 2 {
		t.Errorf("%d acknowledged entries are lost, want the 2 that the standby did not have", lost)
	}
	if err := tr.client.Follow(t.Context(), node, id, "nonsense", func(nodes.Event) error { return nil }); err == nil {
		t.Error("a stream from nonsense on")
	} else if r := new(nodes.Refusal); errors.As(err, &r) && r.Status != 400 && r.Status != 422 {
		t.Errorf("a stream from nonsense on: %v", err)
	}
}
