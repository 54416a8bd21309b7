package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxLineBytes bounds one line of input: an entry's body and what is around it.
const maxLineBytes = tidemark.MaxBodyBytes + 1<<20

// maxDepth bounds how deep JSON from outside may nest. Parsers give up at
// 10,000; what is kept is wrapped a few levels more, and no message needs it.
const maxDepth = 1000

func appendCommand(a *app) *cobra.Command {
	var worker, meta string
	cmd := &cobra.Command{
		Use:   "append SESSION|new",
		Short: "Append entries, read as NDJSON from stdin",
		Long: `Reads entries as NDJSON and, after each one is durable, prints "ID SEQ".

An entry needs a role (system, user, assistant, tool) and content (a string) or
blocks; parent, at, key, model, usage, kind and extra are optional. "new"
creates a session at the first line. An entry whose key was seen before in that
log is not appended again: its old SEQ is printed. A line that cannot be kept is
named on stderr and skipped; the exit code is then 3.`,
		Example: `  echo '{"role":"user","content":"hello"}' | tidemark append new
  agent --stream | tidemark append last
  tidemark append new --session-meta '{"title":"nightly","model":"m1"}' < entries.ndjson`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if worker != "" {
				if err := store.CheckWorker(worker); err != nil {
					return err
				}
			}
			w, err := a.writer(cmd, args[0], meta)
			if err != nil {
				return err
			}
			f := &feed{app: a, w: w, worker: worker}
			err = f.run(cmd.Context())
			return errors.Join(err, w.Close(context.WithoutCancel(cmd.Context())))
		},
	}
	cmd.Flags().StringVar(&worker, "worker", "", "append to the log of this worker of the session")
	cmd.Flags().StringVar(&meta, "session-meta", "", "what a new session is to say of itself: `JSON` with title, agent, model, mode, project, tags, foreign_id, extra")
	return cmd
}

// writer attaches to the session that ref means, or prepares a new one.
func (a *app) writer(cmd *cobra.Command, ref, meta string) (*store.Writer, error) {
	if ref == "new" {
		sess, err := a.newSession(meta)
		if err != nil {
			return nil, err
		}
		s, err := a.open(cmd.Context(), creates)
		if err != nil {
			return nil, err
		}
		return s.Create(sess, a.holder(cmd)), nil
	}
	if meta != "" {
		return nil, tidemark.Invalidf("--session-meta goes with new")
	}
	s, p, err := a.resolve(cmd.Context(), writes, ref)
	if err != nil {
		return nil, err
	}
	if p.Seq != 0 {
		return nil, withHint(tidemark.Invalidf("%q names a point: entries are appended at the head", ref), "tidemark branch %s", ref)
	}
	return s.Attach(cmd.Context(), p.ID, a.holder(cmd))
}

func (a *app) newSession(meta string) (tidemark.Session, error) {
	var sess tidemark.Session
	if meta != "" {
		if err := strictJSON([]byte(meta), &sess); err != nil {
			return sess, tidemark.Invalidf("--session-meta: %w", err)
		}
	}
	if sess.ID != "" || sess.Base != nil {
		return sess, tidemark.Invalidf("--session-meta: id and base are not for a new session to choose")
	}
	if sess.Mode != "" && sess.Mode != tidemark.ModeLocal && sess.Mode != tidemark.ModeRemote {
		return sess, tidemark.Invalidf("--session-meta: mode %q: want %s or %s", sess.Mode, tidemark.ModeLocal, tidemark.ModeRemote)
	}
	if sess.Project == "" {
		sess.Project = a.project()
	}
	return sess, nil
}

// feed carries lines from stdin to a session.
type feed struct {
	*app
	w       *store.Writer
	worker  string
	line    int
	skipped int
}

func (f *feed) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		err := f.w.KeepAlive(ctx, func(ask store.HandoverRequest) {
			stop(withHint(fmt.Errorf("%w: handed over to %s", tidemark.ErrHeld, ask.From), "go on later with: tidemark append %.8s", f.w.ID()))
		})
		if err != nil {
			stop(err)
		}
	}()
	lines := make(chan input)
	go read(ctx, f.in, lines)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case in, more := <-lines:
			if !more {
				if f.skipped > 0 {
					return &partly{f.skipped}
				}
				return nil
			}
			if err := f.take(ctx, in); err != nil {
				return err
			}
		}
	}
}

// take keeps one line, or says why it cannot be kept.
func (f *feed) take(ctx context.Context, in input) error {
	f.line++
	if in.err != nil && !errors.Is(in.err, tidemark.ErrInvalid) {
		return in.err
	}
	if in.err == nil && len(bytes.TrimSpace(in.text)) == 0 {
		return nil
	}
	var e tidemark.Entry
	err := in.err
	if err == nil {
		e, err = parseEntry(in.text)
	}
	var seqs []int64
	switch {
	case err != nil:
	case f.worker == "":
		seqs, err = f.w.Append(ctx, e)
	default:
		seqs, err = f.w.AppendTo(ctx, f.worker, e)
	}
	if errors.Is(err, tidemark.ErrInvalid) {
		f.skipped++
		f.complain(fmt.Errorf("line %d: %w: skipped", f.line, err))
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f.out, "%s %d\n", f.w.ID(), seqs[0])
	return err
}

// input is one line, or why there is none.
type input struct {
	text []byte
	err  error
}

// read sends the lines of r until it ends. A line over maxLineBytes is passed
// over without being held in memory.
func read(ctx context.Context, r io.Reader, lines chan<- input) {
	defer close(lines)
	buf := bufio.NewReaderSize(r, 1<<16)
	for {
		in, last := readLine(buf)
		if len(in.text) == 0 && in.err == nil && last {
			return
		}
		select {
		case lines <- in:
		case <-ctx.Done():
			return
		}
		if last {
			return
		}
	}
}

func readLine(r *bufio.Reader) (in input, last bool) {
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		if size <= maxLineBytes {
			in.text = append(in.text, part...)
		} else {
			in.text = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > maxLineBytes {
			in.err = tidemark.Invalidf("%d bytes, at most %d are allowed", size, maxLineBytes)
		}
		if err != nil && err != io.EOF {
			in.err = err
		}
		return in, err != nil
	}
}

// given is an entry as people write it: content instead of blocks is enough.
// What only the store can know is accepted, so that the output of cat can be
// appended elsewhere, and not used.
type given struct {
	tidemark.Entry
	At      *time.Time `json:"at"`
	Content *string    `json:"content"`
	Seq     *int64     `json:"seq"`
	Depth   *int64     `json:"depth"`
	Nodes   *int64     `json:"nodes"`
	Turn    *int64     `json:"turn"`
}

func parseEntry(line []byte) (tidemark.Entry, error) {
	var g given
	if err := strictJSON(line, &g); err != nil {
		return g.Entry, tidemark.Invalidf("%w", err)
	}
	e := g.Entry
	e.Seq, e.Depth, e.Nodes, e.Turn = 0, 0, 0, 0
	if g.At != nil {
		e.At = *g.At
	}
	if e.At.Year() > 9999 || e.At.Year() < 1 {
		return e, tidemark.Invalidf("at: the year %d", e.At.Year())
	}
	switch {
	case g.Content != nil && e.Blocks != nil:
		return e, tidemark.Invalidf("has both content and blocks")
	case g.Content != nil:
		e.Blocks = []tidemark.Block{tidemark.Text(*g.Content)}
	case e.Blocks == nil && (e.Kind == "" || e.Kind == tidemark.KindMessage):
		return e, tidemark.Invalidf("has neither content nor blocks")
	}
	if e.Kind == tidemark.KindGap {
		return e, tidemark.Invalidf("kind %q is for the store to write", e.Kind)
	}
	return e, nil
}

// strictJSON decodes one JSON value and refuses what would be read differently
// by different programs: names given twice, invalid UTF-8, unknown fields,
// anything behind the value, nesting over maxDepth.
func strictJSON(b []byte, into any) error {
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		_, err := dec.ReadToken()
		if err == io.EOF {
			return errors.New("no JSON value")
		}
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
		}
		if dec.StackDepth() > maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("something stands behind the JSON value")
	}
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
