package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/open"
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
	// newPassphraseOnly means that a passphrase in the environment is to be
	// added, not used to open the store.
	newPassphraseOnly bool
	json              string // fields, "*" for all, "" without --json
	jq                string
	template          string
	noInput           bool
	quiet             bool
	verbose           bool
	noColor           bool

	terminal bool // stdout is a terminal
	columns  int
	color    bool
	config   config.Config
	coldTo   string       // where cold move was told to move to
	opened   *open.Opened // the store, once it was opened

	signals  chan os.Signal
	onSignal *atomic.Pointer[func(os.Signal)] // set by a command that handles signals itself

	progressAt time.Time // when progress was last shown

	// confine puts a command into a sandbox; nil: sandbox.Confine.
	confine func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error)
}

func newApp() *app {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, signals: make(chan os.Signal, 4), onSignal: new(atomic.Pointer[func(os.Signal)])}
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
	f.StringVar(&a.storeURL, "store", "", "where sessions are kept: sqlite:PATH, files:DIR, memory:, postgres://…, https://HOST ($TIDEMARK_STORE)")
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
	if err := agent.CheckSandboxMode(config.SandboxVariable, os.Getenv(config.SandboxVariable)); err != nil {
		return err
	}
	if a.jq != "" && a.template != "" {
		return tidemark.Invalidf("--jq and --template exclude each other")
	}
	return nil
}

// wantsColor follows the conventions of NO_COLOR, CLICOLOR and dumb terminals.
func wantsColor(c config.Config) bool {
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

// holder returns this process as the holder of a lease.
func (a *app) holder(cmd *cobra.Command) tidemark.Holder {
	return process.Self(cmd.CommandPath())
}

// open returns the store, opened with the access that the command needs.
func (a *app) open(ctx context.Context, how open.Access) (*store.Store, error) {
	if a.opened != nil {
		return a.opened.Store, nil
	}
	url, _, err := a.location()
	if err != nil {
		return nil, err
	}
	if a.opened, err = open.Open(ctx, url, a.openOptions(how)); err != nil {
		a.opened = nil
		return nil, err
	}
	return a.opened.Store, nil
}

// location returns the URL of the store, and which setting it comes from.
func (a *app) location() (url, origin string, err error) {
	switch env := os.Getenv("TIDEMARK_STORE"); {
	case a.storeURL != "":
		return a.storeURL, "flag --store", nil
	case env != "":
		return env, "environment TIDEMARK_STORE", nil
	case a.config.Store != "":
		return a.config.Store, a.config.Origin("store"), nil
	}
	url, err = open.DefaultURL(os.Environ())
	return url, "default", err
}

// openOptions returns how this command opens stores.
func (a *app) openOptions(how open.Access) *open.Options {
	o := &open.Options{
		Access: how, Environ: os.Environ(), Plain: a.noEncrypt, Ask: a.askPassphrase, KeyCommandErrors: os.Stderr,
		Redact: a.config.Redaction(), RedactRules: a.config.RedactRules,
		Upgrading: func(from, to int64, backup string) {
			a.say("tidemark: the store has format %d and is upgraded to format %d; what it is now is kept as %s", from, to, backup)
		},
		Damaged: func(what string) {
			a.say("tidemark: the store is damaged, and its sessions are still there: %s. Repair it with: tidemark doctor --fix", what)
		},
		KeyMade: func(file string) {
			a.say("The store is encrypted. Its key is in %s: without it nothing can be read.\nKeep a recovery key elsewhere: tidemark key export-recovery", file)
		},
		Escrowed: func(organisation string) {
			a.say("%s can open it, too: the policy of this machine says so (tidemark key show)", organisation)
		},
		SecretsMet: a.warnOfSecrets,
		ColdPlace:  coldPlaces(os.Environ()),
	}
	if a.keyFile != "" {
		o.Key = open.Key{File: a.keyFile, Origin: "flag --key-file"}
	}
	if a.newPassphraseOnly {
		o.Environ = open.Without(o.Environ, open.PassphraseVariable)
	}
	if o.Cold = a.coldTo; o.Cold == "" && os.Getenv(open.ColdVariable) == "" {
		o.Cold = a.config.Cold
	}
	if name := a.config.Prices; name != "" {
		o.Prices = open.Beside(o.Environ, a.config.Origin("prices"), name)
	}
	return o
}

// warnOfSecrets prints which kinds of secrets were found, never the secrets.
func (a *app) warnOfSecrets(owner string, found []store.Secret) {
	mode := a.config.Redaction()
	for _, s := range found {
		_, notSession := tidemark.ParseSessionID(owner)
		if mode == store.RedactWarn && notSession != nil {
			a.say("tidemark: this looks like a secret (%s) and is kept as it is in %s; with redact: mask in the configuration, the next one is masked", s.Rule, owner)
		} else if mode == store.RedactWarn {
			a.say("tidemark: this looks like a secret (%s) and is kept as it is; mask it with: tidemark scan %.8s --mask", s.Rule, owner)
		} else if a.verbose {
			a.say("tidemark: masked a secret (%s)", s.Rule)
		}
	}
}

func (a *app) close() error {
	if a.opened == nil {
		return nil
	}
	return a.opened.Close()
}

// resolve opens the store and finds what a reference means. It returns the store
// as the owner of that session sees it.
func (a *app) resolve(ctx context.Context, how open.Access, ref string) (*store.Store, store.Point, error) {
	s, err := a.open(ctx, how)
	if err != nil {
		return nil, store.Point{}, err
	}
	p, err := s.Resolve(ctx, ref, a.project())
	if err != nil && p.View != nil {
		err = hint.With(err, "see its nodes with: tidemark tree %.8s", p.ID)
	}
	if err != nil {
		return nil, store.Point{}, err
	}
	return p.Store(), p, nil
}

// withWriter calls run with a writer of a session, and closes the writer
// afterwards, also when run was interrupted.
func (a *app) withWriter(cmd *cobra.Command, s *store.Store, id tidemark.SessionID, run func(*store.Writer) error) error {
	w, err := s.Attach(cmd.Context(), id, a.holder(cmd))
	if err != nil {
		return err
	}
	return errors.Join(run(w), w.Close(context.WithoutCancel(cmd.Context())))
}

// host returns the name of this machine, as in jobs and leases.
func (a *app) host() string { return process.Self("").Host }
