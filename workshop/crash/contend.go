package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

// contender is one of many processes that want to write to the same few
// sessions. It reports to its parent, in lines:
//
//	held SESSION               it was refused
//	got SESSION TENURE         it may write; a tenure is one such time
//	ack SESSION TENURE SEQ N   its Nth entry is kept
//	lost SESSION TENURE        it was refused in the middle of a tenure
//	free SESSION TENURE        it let go
type contender struct {
	s        *store.Store
	out      io.Writer
	r        *rand.Rand
	name     string
	sessions []tidemark.SessionID
	tenures  int
}

// contend is the helper command of a contender. It ends when its input does.
func contend(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("contend", flag.ContinueOnError)
	backend := f.String("backend", "", "")
	dir := f.String("dir", "", "")
	term := f.Duration("lease", 0, "")
	name := f.String("name", "", "")
	seed := f.Uint64("seed", 0, "")
	sessions := f.String("sessions", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	s, err := openStore(ctx, *backend, *dir, *term)
	if err != nil {
		return err
	}
	defer s.Close()
	c := contender{s: s, out: out, r: rand.New(rand.NewPCG(*seed, 2)), name: *name}
	for id := range strings.SplitSeq(*sessions, ",") {
		c.sessions = append(c.sessions, tidemark.SessionID(id))
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()
	for ctx.Err() == nil {
		if err := c.attempt(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// openStore opens, or creates, the real store with a lease of our choice.
func openStore(ctx context.Context, backend, dir string, term time.Duration) (*store.Store, error) {
	var b tidemark.Backend
	var err error
	if backend == "files" {
		b, err = files.Open(ctx, filepath.Join(dir, "store"), &files.Options{Create: true})
	} else {
		b, err = sqlite.Open(ctx, filepath.Join(dir, "store.db"), &sqlite.Options{Create: true})
	}
	if err != nil {
		return nil, err
	}
	return store.New(b, &store.Options{Lease: term}), nil
}

// attempt tries to attach to one session and, if that succeeds, writes a little.
func (c *contender) attempt(ctx context.Context) error {
	id := c.sessions[c.r.IntN(len(c.sessions))]
	w, err := c.s.Attach(ctx, id, process.Self("crash "+c.name))
	if errors.Is(err, tidemark.ErrHeld) {
		fmt.Fprintf(c.out, "held %s\n", id)
		time.Sleep(time.Duration(200+c.r.IntN(3000)) * time.Microsecond)
		return nil
	}
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	c.tenures++
	tenure := fmt.Sprintf("%s.%d", c.name, c.tenures)
	fmt.Fprintf(c.out, "got %s %s\n", id, tenure)
	alive, stop := context.WithCancel(ctx)
	defer stop()
	go w.KeepAlive(alive, nil) // a lost lease shows at the next append
	for n := range 1 + c.r.IntN(6) {
		seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, fmt.Sprintf("%s %d", tenure, n)))
		if errors.Is(err, tidemark.ErrConflict) {
			fmt.Fprintf(c.out, "lost %s %s\n", id, tenure)
			return nil
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		fmt.Fprintf(c.out, "ack %s %s %d %d\n", id, tenure, seqs[0], n)
		time.Sleep(time.Duration(c.r.IntN(3000)) * time.Microsecond)
	}
	if err := w.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	fmt.Fprintf(c.out, "free %s %s\n", id, tenure)
	return nil
}

// idle is the helper command that does nothing but occupy a pid.
func idle(_ context.Context, _ []string, in io.Reader, out io.Writer) error {
	fmt.Fprintln(out, "here")
	_, err := bufio.NewReader(in).ReadString('\n')
	if err == io.EOF {
		return nil
	}
	return err
}
