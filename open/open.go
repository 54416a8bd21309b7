// Package open opens a store by its URL, with the keys of whoever it belongs
// to, and makes it where it is not there yet: what the tidemark program does
// before every command, for every other Go program.
//
// An empty URL is the user's own store: where $TIDEMARK_STORE, their
// configuration or else the default says. A store that is made is encrypted,
// unless Options say otherwise, and the key is durable before the store is.
//
// It never asks, prints or reads the environment of its process: what a person
// has to be asked or told is a function in Options, and the environment comes in
// as a value. Some errors know a way out, for people: see Hint.
//
//	s, err := open.Store(ctx, "", &open.Options{Environ: os.Environ(), Access: open.Create})
package open

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// Access is what a store is opened for.
type Access int

const (
	// Read changes nothing, not even to repair.
	Read Access = iota
	// Write needs a store that is there.
	Write
	// Create makes the store where it is not there.
	Create
)

// Options say how a store is opened. Nil, and each zero field, is the default.
type Options struct {
	// Access is what the store is for; the default is Read.
	Access Access
	// Environ is the environment of the person whose store it is, as os.Environ
	// returns it: where their folders, keys and tokens are. Without it only what
	// the URL and the other options name is found.
	Environ []string
	// Plain makes a new store without encryption. A store that is encrypted is
	// refused then.
	Plain bool
	// Key is where the key comes from. The default is what Environ names, else
	// what lies in the folder of keys.
	Key Key
	// Ask asks a person for a passphrase. It returns nil where there is nobody to
	// ask; so does the default.
	Ask func(ctx context.Context, prompt string) ([]byte, error)
	// KeyCommandErrors gets what a key command says beside the key.
	KeyCommandErrors io.Writer

	// Redact is what happens to secrets that are about to be written. The default
	// is store.RedactWarn. RedactRules are rules beside those that are built in.
	Redact      store.Redaction
	RedactRules []redact.Rule
	// Prices is a YAML file that says what models cost, beside the table that is
	// built in; "": that table alone.
	Prices string

	// Upgrading is told, before it happens, that an older store gets another
	// format, and where a copy of what it was is kept.
	Upgrading func(from, to int64, backup string)
	// Damaged is told of damage that the store can be used in spite of.
	Damaged func(what string)
	// KeyMade is told where the key file of a new store was made.
	KeyMade func(file string)
	// SecretsMet is told of secrets that are written, or masked, before they are,
	// and of the id of what they are in.
	SecretsMet func(owner string, secrets []store.Secret)
}

// Opened is an open store, and what it is made of.
type Opened struct {
	Store *store.Store
	// Backend is what Store works on, and Inner the same below the encryption:
	// as it is kept. They are one where the store is plain.
	Backend, Inner tidemark.Backend

	stopIndexing func() error
}

// Sealed returns the encryption of the store, nil when it is plain.
func (o *Opened) Sealed() *seal.Backend {
	b, _ := o.Backend.(*seal.Backend)
	return b
}

// Store opens the store at a URL; "" is the user's own. Closing it closes
// everything. What is written is indexed by Store.CatchUp or Store.KeepIndexed,
// and found before that by reading; Open does it by itself.
//
// ErrNoStore: nothing is there, and Access is not Create. ErrSealed: the key is
// wrong or missing. ErrInvalid: the URL, a key or a rule is none.
func Store(ctx context.Context, url string, o *Options) (*store.Store, error) {
	opened, err := open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return opened.Store, nil
}

// Open is Store for who needs the parts as well. Unless Access is Read, the
// search index is kept up with what this process writes, until Close.
func Open(ctx context.Context, url string, o *Options) (*Opened, error) {
	opened, err := open(ctx, url, o)
	if err == nil && o != nil && o.Access != Read {
		opened.keepIndexed(ctx)
	}
	return opened, err
}

func open(ctx context.Context, url string, o *Options) (*Opened, error) {
	k := newOpener(o)
	var err error
	if url == "" {
		if url, err = k.own(); err != nil {
			return nil, err
		}
	}
	k.url = url
	if k.Access == Create {
		if err := k.readyToMake(ctx); err != nil {
			return nil, err
		}
	}
	inner, err := Backend(ctx, url, &k.Options)
	if err != nil {
		return nil, err
	}
	b, err := k.unseal(ctx, inner)
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	opened, err := Over(b, inner, &k.Options)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return opened, nil
}

// Over returns the store over a Backend that was opened, and unsealed where it
// is encrypted, already; inner is the same below the encryption. Closing what is
// returned closes the Backend.
func Over(b, inner tidemark.Backend, o *Options) (*Opened, error) {
	rules, err := Rules(b, o)
	if err != nil {
		return nil, err
	}
	return &Opened{Store: store.New(b, rules), Backend: b, Inner: inner}, nil
}

// Around is a store that was opened elsewhere, with its parts: below its Backend
// nothing is known.
func Around(s *store.Store) *Opened {
	return &Opened{Store: s, Backend: s.Backend(), Inner: s.Backend()}
}

// Fleet is the fleet of the store.
func (o *Opened) Fleet() *fleet.Store { return fleet.Over(o.Store) }

// Refile returns a record of another store as this one would file it, and a zero
// one for what is not to be taken over.
func (o *Opened) Refile(r tidemark.Record) (tidemark.Record, error) {
	r, err := o.Store.Refile(r)
	if err != nil {
		return r, err
	}
	return o.Fleet().Refile(r)
}

// Rules are what a store over b takes from other rooms: words, secrets, prices
// and projects.
func Rules(b tidemark.Backend, o *Options) (*store.Options, error) {
	k := newOpener(o)
	if _, sealed := b.(*seal.Backend); !sealed && k.Redact == store.RedactVault {
		return nil, errPlainVault()
	}
	finder, err := redact.New(k.RedactRules)
	if err != nil {
		return nil, err
	}
	price, err := k.price()
	if err != nil {
		return nil, err
	}
	environ := k.Environ
	return &store.Options{
		Price:   price,
		Words:   search.EntryWords,
		Secrets: secretsIn(finder),
		Redact:  k.Redact,
		Marks:   func(ctx context.Context, folder string) []string { return project.Marks(ctx, folder, environ) },
		There:   project.Exists,
		Warn:    k.SecretsMet,
	}, nil
}

// secretsIn finds the secrets of an entry, as the store wants them.
func secretsIn(r *redact.Redactor) func(tidemark.Entry) []store.Secret {
	return func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, raw bool) string {
			find := r.Find
			if raw {
				find = r.FindJSON
			}
			for _, s := range find(text) {
				found = append(found, store.Secret{Text: i, From: s.From, To: s.To, Rule: s.Rule})
			}
			return text
		})
		return found
	}
}

func errPlainVault() error {
	return hint.With(tidemark.Invalidf("redact: vault keeps secrets in a sealed record, and this store is not encrypted"), "set redact: mask")
}

// keepIndexed keeps the search index up with what this process writes.
func (o *Opened) keepIndexed(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- o.Store.KeepIndexed(ctx) }()
	o.stopIndexing = func() error {
		stop()
		return <-ended
	}
}

// lastIndexing bounds how long a program that is done stays to index: what is
// left is indexed by the next one, and found meanwhile by reading.
const lastIndexing = time.Second

// Close indexes what is left, for a second at most, and closes the store.
func (o *Opened) Close() error {
	if o.stopIndexing != nil {
		// What went wrong with the index shows when somebody searches; what
		// was written is kept all the same.
		if err := o.stopIndexing(); err == nil && o.Store.Pending() {
			ctx, stop := context.WithTimeout(context.Background(), lastIndexing)
			o.Store.CatchUp(ctx, nil)
			stop()
		}
	}
	return o.Store.Close()
}

// opener opens one store: the options with their defaults, and what was learned
// on the way.
type opener struct {
	Options
	url   string
	given *newKey // the key for a new store, once it was read
}

func newOpener(o *Options) *opener {
	k := &opener{}
	if o != nil {
		k.Options = *o
	}
	if k.Redact == "" {
		k.Redact = store.RedactWarn
	}
	if k.Ask == nil {
		k.Ask = func(context.Context, string) ([]byte, error) { return nil, nil }
	}
	if k.KeyMade == nil {
		k.KeyMade = func(string) {}
	}
	return k
}

// readyToMake refuses what would keep a store that is not there yet from being
// used, before it is made: settings that do not hold, a key that is no key.
func (k *opener) readyToMake(ctx context.Context) error {
	if !IsAbsent(k.url) {
		return nil
	}
	if k.Plain && k.Redact == store.RedactVault {
		return errPlainVault()
	}
	if _, err := k.price(); err != nil {
		return err
	}
	if _, err := redact.New(k.RedactRules); err != nil || k.Plain {
		return err
	}
	return k.readGivenKey(ctx)
}

// IsAbsent reports whether nothing lies where a store on this machine would.
func IsAbsent(url string) bool {
	kind, path, _ := strings.Cut(url, ":")
	if kind != "sqlite" && kind != "files" {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// IsEmpty reports whether nothing at all is kept.
func IsEmpty(ctx context.Context, b tidemark.Backend) (bool, error) {
	for _, err := range b.Walk(ctx, tidemark.Key{}) {
		return false, err
	}
	return true, nil
}

// Hint returns the way out of an error, as people can take it on the command
// line of the tidemark program; "" when there is none.
func Hint(err error) string { return hint.Of(err) }

// Without returns an environment without some variables.
func Without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}
