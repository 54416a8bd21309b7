// Package open opens a store by its URL, with the keys of its owner, and
// creates it if it does not exist: what the tidemark program does before
// every command, for every other Go program.
//
// An empty URL is the user's own store, as set by $TIDEMARK_STORE, their
// configuration or the default. A new store is encrypted, unless Options say
// otherwise, and the key is durable before the store is.
//
// It never prompts, prints or reads the environment of its process: prompts and
// messages are functions in Options, and the environment is passed as a value.
// Some errors carry advice for people: see Hint.
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
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/internal/records"
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
	// Write needs an existing store.
	Write
	// Create creates the store if it does not exist.
	Create
)

// Options say how a store is opened. Nil, and each zero field, is the default.
type Options struct {
	// Access is what the store is for; the default is Read.
	Access Access
	// Environ is the environment of the store's owner, as os.Environ returns it:
	// it says where their folders, keys and tokens are. Without it, only those are
	// found that the URL and the other options name.
	Environ []string
	// Plain creates a new store without encryption. An encrypted store is then
	// refused.
	Plain bool
	// Key is where the key comes from. The default is what Environ names, else
	// the files in the key folder.
	Key Key
	// Ask asks a person for a passphrase. It returns nil where nobody can be
	// asked; so does the default.
	Ask func(ctx context.Context, prompt string) ([]byte, error)
	// KeyCommandErrors receives the standard error of a key command.
	KeyCommandErrors io.Writer

	// Redact is what happens to secrets that are about to be written. The default
	// is store.RedactWarn. RedactRules are added to the built-in rules.
	Redact      store.Redaction
	RedactRules []redact.Rule
	// Prices is a YAML file with prices of models that are added to the built-in
	// table; "": only that table.
	Prices string

	// Cold is the URL of the place that MoveQuiet moves older lines to. The default
	// is what Environ names as ColdVariable. Lines that were moved are read without it.
	Cold string
	// ColdPlace opens the place at a URL, file: or s3:, such as remote.Open of
	// transfer/remote does. Without it, lines that were moved cannot be read.
	ColdPlace func(ctx context.Context, url string) (cold.Place, error)

	// Upgrading is called before an older store is converted to another
	// format, with where a copy of the old one is kept.
	Upgrading func(from, to int64, backup string)
	// Damaged is called for damage that does not prevent using the store.
	Damaged func(what string)
	// KeyMade is called with the path of the key file of a new store.
	KeyMade func(file string)
	// Escrowed is called when the policy of the machine lets an organisation open a
	// new store, too.
	Escrowed func(organisation string)
	// SecretsMet is called before secrets are written or masked, with the id of
	// the session, job or other owner that they belong to.
	SecretsMet func(owner string, secrets []store.Secret)
}

// Opened is an open store with its backends.
type Opened struct {
	Store *store.Store
	// Backend is what Store works on, and Inner the one below the encryption. They
	// are equal if the store is plain.
	Backend, Inner tidemark.Backend

	scopes       *store.Scopes
	stopIndexing func() error
}

// Sealed returns the encryption of the store, nil when it is plain.
func (o *Opened) Sealed() *seal.Backend {
	b, _ := o.Backend.(*seal.Backend)
	return b
}

// Store opens the store at a URL; "" is the user's own. Closing it closes
// everything. New entries are indexed only when the caller calls Store.CatchUp or
// Store.KeepIndexed, and until then found by reading; Open takes care of that.
//
// ErrNoStore: there is no store, and Access is not Create. ErrSealed: the key
// is wrong or missing. ErrInvalid: the URL, a key or a rule is invalid.
func Store(ctx context.Context, url string, o *Options) (*store.Store, error) {
	opened, err := open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return opened.Store, nil
}

// Open is Store for callers that need the parts as well. Unless Access is
// Read, it keeps the search index up to date with what this process writes,
// until Close.
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
		if url, err = k.ownURL(); err != nil {
			return nil, err
		}
	}
	k.url = url
	if k.Access == Create {
		if err := k.checkBeforeCreate(ctx); err != nil {
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

// Over returns the store over a Backend that is already open, and unsealed if it
// is encrypted; inner is the one below the encryption. Closing the result closes
// the Backend.
func Over(b, inner tidemark.Backend, o *Options) (*Opened, error) {
	rules, err := Rules(b, o)
	if err != nil {
		return nil, err
	}
	if _, ok := cold.Under(b).(*postgres.Backend); ok {
		rules.Scopes = store.NewScopes(rules)
	}
	return &Opened{Store: store.New(b, rules), Backend: b, Inner: inner, scopes: rules.Scopes}, nil
}

// Around wraps a store that was opened elsewhere. Its Inner is the Backend itself,
// since nothing is known about what is below.
func Around(s *store.Store) *Opened {
	b := s.Records().Backend()
	return &Opened{Store: s, Backend: b, Inner: b}
}

// Fleet is the fleet of the store.
func (o *Opened) Fleet() *fleet.Store { return fleet.Over(o.Store) }

// Refile returns a record of another store with the key that it has in this one;
// see Store.Refile. The zero Record means that the record is not to be copied.
func (o *Opened) Refile(r tidemark.Record) (tidemark.Record, error) {
	r, err := o.Store.Refile(r)
	if err != nil {
		return r, err
	}
	return o.Fleet().Refile(r)
}

// Rules returns the options of a store over b, with functions from other packages:
// for words, secrets, prices and projects.
func Rules(b tidemark.Backend, o *Options) (*store.Options, error) {
	k := newOpener(o)
	if _, sealed := b.(*seal.Backend); !sealed && k.Redact == store.RedactVault {
		return nil, errPlainVault()
	}
	find, findJSON := redact.Find, redact.FindJSON
	if len(k.RedactRules) > 0 {
		r, err := redact.New(k.RedactRules)
		if err != nil {
			return nil, err
		}
		find, findJSON = r.Find, r.FindJSON
	}
	price, err := k.price()
	if err != nil {
		return nil, err
	}
	environ := k.Environ
	rules := &store.Options{
		Price:   price,
		Places:  search.EachWord,
		Secrets: secretsIn(find, findJSON),
		Redact:  k.Redact,
		Marks:   func(ctx context.Context, folder string) ([]string, error) { return project.Marks(ctx, folder, environ) },
		There:   project.Exists,
		Warn:    k.SecretsMet,
	}
	return rules, nil
}

// secretsIn finds the secrets of an entry, in the form that the store needs.
func secretsIn(find, findJSON func(string) []redact.Secret) func(tidemark.Entry) []store.Secret {
	return func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, raw bool) string {
			find := find
			if raw {
				find = findJSON
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

// keepIndexed keeps the search index up to date with what this process writes.
func (o *Opened) keepIndexed(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	var sharing sync.WaitGroup
	sharing.Go(func() { o.scopes.Keep(ctx) })
	go func() { ended <- o.Store.KeepIndexed(ctx) }()
	o.stopIndexing = func() error {
		stop()
		sharing.Wait()
		return <-ended
	}
}

// lastIndexing bounds how long Close may index. What is left is indexed by the next
// program that opens the store, and found by reading until then.
const lastIndexing = time.Second

// Close indexes what is left, for a second at most, and closes the store.
func (o *Opened) Close() error {
	if o.stopIndexing != nil {
		// Errors are ignored: they show in the next search, and what was written
		// is safe without the index.
		if err := o.stopIndexing(); err == nil && o.Store.Pending() {
			ctx, stop := context.WithTimeout(context.Background(), lastIndexing)
			o.Store.IndexWritten(ctx)
			stop()
		}
	}
	return o.Store.Close()
}

// opener opens one store. It has the options with their defaults, and what was
// found out so far.
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
	if k.Escrowed == nil {
		k.Escrowed = func(string) {}
	}
	return k
}

// checkBeforeCreate returns an error, before a new store is created, for settings
// or a key that would make it unusable.
func (k *opener) checkBeforeCreate(ctx context.Context) error {
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
	if _, err := PolicyOf(k.Environ); err != nil {
		return err
	}
	return k.readGivenKey(ctx)
}

// IsAbsent reports whether a store on this machine does not exist.
func IsAbsent(url string) bool {
	kind, path, _ := strings.Cut(url, ":")
	if kind != "sqlite" && kind != "files" {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// IsEmpty reports whether a store contains nothing but blobs of remotes.
func IsEmpty(ctx context.Context, b tidemark.Backend) (bool, error) {
	for k, err := range b.Walk(ctx, tidemark.Key{}) {
		if err != nil || !records.IsBlob(k.Kind) {
			return false, err
		}
	}
	return true, nil
}

// Hint returns advice on an error, in terms of the command line of the
// tidemark program; "" when there is none.
func Hint(err error) string { return hint.Of(err) }

// Without returns an environment without some variables.
func Without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}
