package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/seal"
)

// maxKeyBytes keeps a wrong file, or a wrong command, from being read whole.
const maxKeyBytes = 1 << 20

// keySource is where the key of a store comes from: the first that is given,
// and nothing else. So a wrong key is an error, however many right ones lie
// about.
type keySource struct {
	file       string // a key file
	command    string // prints the contents of a key file
	passphrase string // a file that holds a passphrase
	origin     string
}

// keySource returns what was given, a zero one when the default is to be used.
func (a *app) keySource() keySource {
	switch {
	case a.keyFile != "":
		return keySource{file: a.keyFile, origin: "flag --key-file"}
	case os.Getenv("TIDEMARK_KEY_FILE") != "":
		return keySource{file: os.Getenv("TIDEMARK_KEY_FILE"), origin: "environment TIDEMARK_KEY_FILE"}
	case os.Getenv("TIDEMARK_KEY_COMMAND") != "":
		return keySource{command: os.Getenv("TIDEMARK_KEY_COMMAND"), origin: "environment TIDEMARK_KEY_COMMAND"}
	case os.Getenv("TIDEMARK_PASSPHRASE_FILE") != "" && !a.newPassphraseOnly:
		return keySource{passphrase: os.Getenv("TIDEMARK_PASSPHRASE_FILE"), origin: "environment TIDEMARK_PASSPHRASE_FILE"}
	}
	return keySource{}
}

// unseal opens what is sealed, seals what is new, and leaves alone what is
// plain.
func (a *app) unseal(ctx context.Context, inner tidemark.Backend, how access) (tidemark.Backend, error) {
	if _, ok := inner.(*memory.Backend); ok {
		return inner, nil // it never leaves this process
	}
	sealed, err := seal.IsSealed(ctx, inner)
	if err != nil {
		return nil, err
	}
	switch {
	case sealed && a.noEncrypt:
		url, _, _ := a.location()
		return nil, withHint(tidemark.Invalidf("the store %s is encrypted, and stays so", url),
			"copy it into a plain one with: tidemark migrate --to sqlite:PATH --no-encrypt")
	case sealed:
		return a.openSealed(ctx, inner)
	}
	fresh, err := isEmpty(ctx, inner)
	if err == nil && !fresh {
		// Another process may have sealed it between the two looks. A store is
		// sealed before anything is in it, so this one tells.
		if sealed, err = seal.IsSealed(ctx, inner); sealed {
			return a.unseal(ctx, inner, how)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case fresh && how == creates && !a.noEncrypt:
		return a.seal(ctx, inner)
	case fresh && how == creates:
		err := seal.KeepPlain(ctx, inner)
		if errors.Is(err, tidemark.ErrExists) {
			return a.unseal(ctx, inner, how) // another process was quicker
		}
		return inner, err
	case !fresh && a.keySource() != (keySource{}):
		return nil, withHint(tidemark.Invalidf("%s: the store is not encrypted", a.keySource().origin),
			"copy it into an encrypted one with: tidemark migrate --to sqlite:PATH")
	}
	return inner, nil
}

// isEmpty reports whether nothing at all is kept.
func isEmpty(ctx context.Context, b tidemark.Backend) (bool, error) {
	for _, err := range b.Walk(ctx, tidemark.Key{}) {
		return false, err
	}
	return true, nil
}

// openSealed opens a sealed store with the key that was given, or with what
// lies where keys are kept.
func (a *app) openSealed(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	header, err := seal.Inspect(ctx, inner)
	if err != nil {
		return nil, err
	}
	unlockers, err := a.unlockers(ctx, header)
	if err != nil {
		return nil, err
	}
	b, err := seal.Open(ctx, inner, unlockers...)
	if err != nil {
		return nil, a.sealedHint(err, header)
	}
	return b, nil
}

// sealedHint says which key is missing.
func (a *app) sealedHint(err error, h seal.Header) error {
	if !errors.Is(err, tidemark.ErrSealed) {
		return err
	}
	if dir, dirErr := keyDir(); dirErr == nil && a.keySource() == (keySource{}) {
		for _, s := range h.Slots {
			if s.Type == seal.TypeFile {
				return withHint(err, "put its key file at %s, or name it with --key-file", filepath.Join(dir, s.ID+".key"))
			}
		}
	}
	return withHint(err, "name another one with --key-file, $TIDEMARK_KEY_COMMAND or $TIDEMARK_PASSPHRASE_FILE; a recovery key in a file is a key file")
}

// unlockers returns what may open the store.
func (a *app) unlockers(ctx context.Context, h seal.Header) ([]seal.Unlocker, error) {
	src := a.keySource()
	if src != (keySource{}) {
		u, err := src.unlocker(ctx)
		return []seal.Unlocker{u}, err
	}
	var all []seal.Unlocker
	asks := false
	dir, err := keyDir()
	if err != nil {
		return nil, err
	}
	// The newest first: a rotation that was cut off goes on with its new key.
	for _, s := range slices.Backward(h.Slots) {
		asks = asks || s.Type == seal.TypePassphrase
		if s.Type != seal.TypeFile {
			continue
		}
		contents, err := readKey(ctx, filepath.Join(dir, s.ID+".key"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		u, err := seal.KeyFile(contents)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, s.ID+".key"), err)
		}
		all = append(all, u)
	}
	if len(all) == 0 && asks {
		p, err := a.askPassphrase(ctx, "Passphrase: ")
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, seal.Passphrase(p))
		}
	}
	return all, nil
}

// unlocker reads the key from where it was said to be.
func (s keySource) unlocker(ctx context.Context) (seal.Unlocker, error) {
	contents, err := s.read(ctx)
	if err != nil {
		return seal.Unlocker{}, err
	}
	if s.passphrase != "" {
		return seal.Passphrase(contents), nil
	}
	u, err := seal.KeyFile(contents)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.origin, err)
	}
	return u, err
}

func (s keySource) read(ctx context.Context) ([]byte, error) {
	if s.command != "" {
		return runKeyCommand(ctx, s.command)
	}
	contents, err := readKey(ctx, s.file+s.passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", tidemark.ErrSealed, err)
	}
	if s.passphrase != "" {
		contents = bytes.TrimRight(contents, "\r\n")
	}
	return contents, err
}

// readKey reads a file that nobody else may read. A pipe may keep it waiting,
// but not past the end of ctx.
func readKey(ctx context.Context, name string) ([]byte, error) {
	type result struct {
		contents []byte
		err      error
	}
	done := make(chan result, 1)
	go func() {
		contents, err := readKeyFile(name)
		done <- result{contents, err}
	}()
	select {
	case r := <-done:
		return r.contents, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readKeyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", tidemark.ErrSealed, err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tidemark.ErrSealed, err)
	}
	if i.IsDir() {
		return nil, fmt.Errorf("%s: %w: is a folder", name, tidemark.ErrSealed)
	}
	if wide := i.Mode().Perm() & 0o077; wide != 0 && i.Mode().IsRegular() && runtime.GOOS != "windows" {
		return nil, withHint(fmt.Errorf("%s: %w: others can read it (mode %#o)", name, tidemark.ErrSealed, i.Mode().Perm()), "chmod 600 %s", name)
	}
	return io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
}

// runKeyCommand runs what prints the key: a password manager, a hardware
// token. It may ask on the terminal, and says what it has to say there.
func runKeyCommand(ctx context.Context, command string) ([]byte, error) {
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = keyCommandGrace
	out := &bounded{left: maxKeyBytes}
	cmd.Stdout = out
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if out.left < 0 {
		err = errors.New("it printed more than a key")
	}
	if err != nil {
		return nil, fmt.Errorf("TIDEMARK_KEY_COMMAND: %w: %w", tidemark.ErrSealed, err)
	}
	return out.kept.Bytes(), nil
}

// keyCommandGrace is how long what a key command started may keep its output
// open after it was stopped.
const keyCommandGrace = time.Second

// bounded keeps what is written to it up to a bound, and refuses more.
type bounded struct {
	kept bytes.Buffer // not embedded: it would read past the bound by itself
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}

// askPassphrase asks on the terminal, and returns nothing where there is none
// or nothing may be asked.
func (a *app) askPassphrase(ctx context.Context, prompt string) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	if a.noInput || !term.IsTerminal(fd) {
		return nil, nil
	}
	fmt.Fprint(a.err, prompt)
	defer fmt.Fprintln(a.err)
	before, err := term.GetState(fd)
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	type typed struct {
		text []byte
		err  error
	}
	answer := make(chan typed, 1)
	go func() {
		p, err := term.ReadPassword(fd)
		answer <- typed{p, err}
	}()
	select {
	case p := <-answer:
		if p.err != nil {
			return nil, fmt.Errorf("passphrase: %w", p.err)
		}
		return p.text, nil
	case <-ctx.Done():
		term.Restore(fd, before) // the one who reads waits on, and the terminal would stay silent
		return nil, context.Cause(ctx)
	}
}

// keyDir is where the key files of this user's stores are kept, each under
// the id of the slot that it opens.
func keyDir() (string, error) {
	dir, err := configDir()
	return filepath.Join(dir, "keys"), err
}

// seal makes a new store an encrypted one.
func (a *app) seal(ctx context.Context, inner tidemark.Backend) (tidemark.Backend, error) {
	key, err := a.newKey(ctx)
	if err != nil {
		return nil, err
	}
	b, err := seal.Create(ctx, inner, key.slot)
	if err == nil {
		a.tellKey(key)
		return b, nil
	}
	key.undo(ctx, inner)
	if errors.Is(err, tidemark.ErrExists) {
		return a.openSealed(ctx, inner) // another process was quicker
	}
	return nil, err
}

// newKey is what opens a store that is about to be made.
type newKey struct {
	slot seal.NewSlot
	made string // the key file that was made for it, "": none was
}

// undo takes a key file that was made away again, when nothing can need it: it
// has a name that nobody else knows, and the store has no slot for it.
func (k newKey) undo(ctx context.Context, inner tidemark.Backend) {
	if k.made == "" || !strings.HasSuffix(k.made, k.slot.ID()+".key") {
		return
	}
	h, err := seal.Inspect(ctx, inner)
	if err == nil && !slices.ContainsFunc(h.Slots, func(s seal.Slot) bool { return s.ID == k.slot.ID() }) {
		removeKey(k.made)
	}
}

// tellKey says once where the key is.
func (a *app) tellKey(k newKey) {
	if k.made != "" {
		a.say("The store is encrypted. Its key is in %s: without it nothing can be read.\nKeep a recovery key elsewhere: tidemark key export-recovery", k.made)
	}
}

// newKey returns the slot for the key that was given, or makes a key file. The
// file is durable before the store knows of it: a store whose key was lost in a
// power cut would be lost, too.
func (a *app) newKey(ctx context.Context) (k newKey, err error) {
	src := a.keySource()
	if src == (keySource{}) {
		return a.newKeyFile("")
	}
	if a.given != nil {
		return *a.given, nil
	}
	if src.file != "" {
		// Of several processes one makes the file, and the others read it whole.
		unlock, err := a.lockKeys(ctx)
		if err != nil {
			return k, err
		}
		defer unlock()
	}
	contents, err := src.read(ctx)
	if errors.Is(err, fs.ErrNotExist) && src.file != "" {
		return a.newKeyFile(src.file)
	}
	if err == nil {
		k.slot, err = src.slot(contents)
	}
	return k, err
}

// slot is what the key that was given makes of a new store.
func (s keySource) slot(contents []byte) (seal.NewSlot, error) {
	if s.passphrase != "" {
		return seal.PassphraseSlot("", contents, nil)
	}
	return seal.FileSlot("", contents)
}

// readGivenKey reads the key that was given for a new store, before that is
// made. A key file that is not there is made with the store.
func (a *app) readGivenKey(ctx context.Context) error {
	src := a.keySource()
	if src == (keySource{}) {
		return nil
	}
	contents, err := src.read(ctx)
	if errors.Is(err, fs.ErrNotExist) && src.file != "" {
		return nil
	}
	if src.file != "" && err == nil && len(contents) == 0 {
		return nil // another process is making it: newKey waits for that
	}
	var k newKey
	if err == nil {
		k.slot, err = src.slot(contents)
	}
	if err == nil && src.file == "" {
		a.given = &k // who was asked for it once is not asked again
	}
	return err
}

// newKeyFile makes a key file; an empty name means the place for it.
func (a *app) newKeyFile(name string) (k newKey, err error) {
	contents := seal.NewKeyFile()
	if k.slot, err = seal.FileSlot("", contents); err != nil {
		return k, err
	}
	if name == "" {
		dir, err := keyDir()
		if err != nil {
			return k, err
		}
		name = filepath.Join(dir, k.slot.ID()+".key")
	}
	k.made = name
	return k, writeKey(name, contents)
}

// writeKey makes a key file that was not there, durable when it returns.
func writeKey(name string, contents []byte) error {
	return inKeyDir(name, func(dir durable.FS, base string) error {
		if err := durable.Create(dir, base, contents); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

func removeKey(name string) error {
	return inKeyDir(name, func(dir durable.FS, base string) error {
		if err := dir.Remove(base); err != nil {
			return err
		}
		return durable.SyncDir(dir, ".")
	})
}

func inKeyDir(name string, work func(durable.FS, string) error) error {
	full, err := filepath.Abs(name)
	if err != nil {
		return tidemark.Invalidf("key file %s: %w", name, err)
	}
	// A folder that is there may be shared with other things, and stays as
	// it is.
	if _, err := os.Stat(filepath.Dir(full)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MakeDir(filepath.Dir(full)); err != nil {
			return tidemark.Storagef("key file %s: %w", name, err)
		}
	}
	dir, err := durable.OpenDir(filepath.Dir(full))
	if err != nil {
		return tidemark.Storagef("key file %s: %w", name, err)
	}
	defer dir.Close()
	switch err := work(dir, filepath.Base(full)); {
	case errors.Is(err, fs.ErrExist):
		return tidemark.Invalidf("key file %s: is there already", name)
	case err != nil:
		return tidemark.Storagef("key file %s: %w", name, err)
	}
	return nil
}
