package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

// app is what all commands share: the global flags, the streams, and the
// store once one was opened.
type app struct {
	in       io.Reader
	out, err io.Writer

	storeURL   string
	configFile string
	keyFile    string
	noEncrypt  bool
	json       string // fields, "*" for all, "" when not asked for
	jq         string
	template   string
	noInput    bool
	quiet      bool
	verbose    bool
	noColor    bool

	terminal bool // stdout is one
	columns  int
	color    bool
	config   settings
	store    *store.Store

	progressAt time.Time // when progress was last shown
}

func newApp() *app {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	if columns, err := strconv.Atoi(os.Getenv("TIDEMARK_FORCE_TTY")); err == nil && columns > 0 {
		a.terminal, a.columns = true, columns
	} else if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		a.terminal, a.columns = true, 80
		if w, _, err := term.GetSize(fd); err == nil && w > 0 {
			a.columns = w
		}
	}
	return a
}

// flags adds the global flags.
func (a *app) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.storeURL, "store", "", "where sessions are kept: sqlite:PATH, files:DIR, memory: ($TIDEMARK_STORE)")
	f.StringVar(&a.configFile, "config", "", "configuration `FILE`")
	f.StringVar(&a.keyFile, "key-file", "", "`PATH` of the store's key ($TIDEMARK_KEY_FILE)")
	f.BoolVar(&a.noEncrypt, "no-encrypt", false, "create a plain store")
	f.StringVar(&a.json, "json", "", "print JSON; with =`FIELDS` only these, separated by commas")
	f.Lookup("json").NoOptDefVal = "*"
	f.StringVar(&a.jq, "jq", "", "filter the JSON with a jq `EXPRESSION`")
	f.StringVar(&a.template, "template", "", "format the JSON with a Go `TEMPLATE`")
	f.BoolVar(&a.noInput, "no-input", false, "never ask")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "say only what was asked for")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more")
	f.BoolVar(&a.noColor, "no-color", false, "no colour ($NO_COLOR)")
}

// prepare reads the configuration, before every command.
func (a *app) prepare() error {
	var err error
	if a.config, err = loadSettings(a.configFile, a.project()); err != nil {
		return err
	}
	a.color = a.terminal && !a.noColor && wantsColor(a.config)
	if a.keyFile != "" {
		return tidemark.Invalidf("--key-file: this version keeps plain stores only")
	}
	if a.jq != "" && a.template != "" {
		return tidemark.Invalidf("--jq and --template exclude each other")
	}
	return nil
}

// wantsColor follows the conventions of NO_COLOR, CLICOLOR and dumb terminals.
func wantsColor(c settings) bool {
	switch {
	case os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("CLICOLOR_FORCE") != "" && os.Getenv("CLICOLOR_FORCE") != "0":
		return true
	case os.Getenv("CLICOLOR") == "0" || os.Getenv("TERM") == "dumb":
		return false
	}
	return c.Color == nil || *c.Color
}

// project is the folder that sessions made here belong to: the root of the
// work tree, or else the current folder.
func (a *app) project() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return here
		}
	}
}

// holder is this process as the holder of a lease.
func (a *app) holder(cmd *cobra.Command) tidemark.Holder {
	return process.Self(cmd.CommandPath())
}

// access is what a command does to the store.
type access int

const (
	reads access = iota
	writes
	creates
)

// open returns the store, opened as far as the command needs.
func (a *app) open(ctx context.Context, how access) (*store.Store, error) {
	if a.store != nil {
		return a.store, nil
	}
	b, err := a.openBackend(ctx, how)
	if err != nil {
		return nil, err
	}
	a.store = store.New(b, nil)
	return a.store, nil
}

func (a *app) close() error {
	if a.store == nil {
		return nil
	}
	return a.store.Close()
}

// resolve opens the store and finds what a reference means.
func (a *app) resolve(ctx context.Context, how access, ref string) (*store.Store, store.Point, error) {
	s, err := a.open(ctx, how)
	if err != nil {
		return nil, store.Point{}, err
	}
	p, err := s.Resolve(ctx, ref, a.project())
	if err != nil && p.View != nil {
		err = withHint(err, "see its nodes with: tidemark tree %.8s", p.ID)
	}
	if err != nil {
		return nil, store.Point{}, err
	}
	return s, p, nil
}

// attached runs work with the writer of a session and lets go of it at the
// end, also when the work was interrupted.
func (a *app) attached(cmd *cobra.Command, s *store.Store, id tidemark.SessionID, work func(*store.Writer) error) error {
	w, err := s.Attach(cmd.Context(), id, a.holder(cmd))
	if err != nil {
		return err
	}
	return errors.Join(work(w), w.Close(context.WithoutCancel(cmd.Context())))
}

// parseSince reads a point in time: RFC 3339, a date, or an age like 36h, 7d.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	age := s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			age = strconv.Itoa(n*24) + "h"
		}
	}
	if d, err := time.ParseDuration(age); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, tidemark.Invalidf("time %q: want a date like 2026-11-15, RFC 3339, or an age like 36h or 7d", s)
}
