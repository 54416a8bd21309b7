package open

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
)

// maxKeyBytes prevents reading a wrong file, or the output of a wrong command,
// as a whole.
const maxKeyBytes = 1 << 20

// Key is the source of a store's key. The first field that is set is used, and
// nothing else: a wrong key is an error, even if the right one could be found
// elsewhere.
type Key struct {
	File           string // a key file, or one with age identities or a recovery key
	Command        string // prints the contents of a key file
	PassphraseFile string // holds a passphrase
	Origin         string // who chose it, for errors
}

// KeyIn returns the key that an environment names, a zero one when it names none.
func KeyIn(environ []string) Key {
	for _, k := range []Key{
		{File: Getenv(environ, "TIDEMARK_KEY_FILE"), Origin: "environment TIDEMARK_KEY_FILE"},
		{Command: Getenv(environ, "TIDEMARK_KEY_COMMAND"), Origin: "environment TIDEMARK_KEY_COMMAND"},
		{PassphraseFile: Getenv(environ, PassphraseVariable), Origin: "environment " + PassphraseVariable},
	} {
		if k.given() {
			return k
		}
	}
	return Key{}
}

// PassphraseVariable is the environment variable that names a file with a
// passphrase.
const PassphraseVariable = "TIDEMARK_PASSPHRASE_FILE"

// given reports whether a key was named.
func (k Key) given() bool { return k.File != "" || k.Command != "" || k.PassphraseFile != "" }

// key is the key to use; a zero one means the files in the key folder.
func (k *opener) key() Key {
	if k.Key.given() {
		return k.Key
	}
	return KeyIn(k.Environ)
}

// unlocker reads the key from its source.
func (k *opener) unlocker(ctx context.Context, src Key) (seal.Unlocker, error) {
	contents, err := k.read(ctx, src)
	if err != nil {
		return seal.Unlocker{}, err
	}
	if src.PassphraseFile != "" {
		return seal.Passphrase(contents), nil
	}
	u, err := seal.KeyFile(contents)
	if err != nil {
		err = fmt.Errorf("%s: %w", src.Origin, err)
	}
	return u, err
}

func (k *opener) read(ctx context.Context, src Key) ([]byte, error) {
	switch {
	case src.Command != "":
		return k.runKeyCommand(ctx, src.Command)
	case src.PassphraseFile != "":
		return ReadPassphrase(ctx, src.PassphraseFile)
	}
	return readGiven(ctx, src.File)
}

// ReadPassphrase reads a passphrase from a file that nobody else may read.
func ReadPassphrase(ctx context.Context, file string) ([]byte, error) {
	contents, err := readGiven(ctx, file)
	return bytes.TrimRight(contents, "\r\n"), err
}

// readGiven reads a named file: if it does not exist, the key is missing.
func readGiven(ctx context.Context, file string) ([]byte, error) {
	contents, err := readKey(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", tidemark.ErrSealed, err)
	}
	return contents, err
}

// readKey reads a file that nobody else may read. If the file is a pipe, it waits
// for its contents until ctx ends.
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
		return nil, hint.With(fmt.Errorf("%s: %w: others can read it (mode %#o)", name, tidemark.ErrSealed, i.Mode().Perm()), "chmod 600 %s", name)
	}
	return io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
}

// runKeyCommand runs the command that prints the key: a password
// manager, a hardware token. It may prompt and print messages on the
// terminal.
func (k *opener) runKeyCommand(ctx context.Context, command string) ([]byte, error) {
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.Stderr = k.KeyCommandErrors
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

// keyCommandGrace is how long the children of a stopped key command may keep
// its output open.
const keyCommandGrace = time.Second

// bounded keeps what is written to it up to a bound, and refuses more.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom would ignore the bound
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}
