package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Change is what a call would do to a file in its present state.
type Change struct {
	Path     string // a description of where it is
	Old, New []byte
	Made     bool // the file does not exist yet
}

// Hash identifies exactly this change of exactly this file.
func (c Change) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %t %d %d ", c.Path, c.Made, len(c.Old), len(c.New))
	h.Write(c.Old)
	h.Write(c.New)
	return hex.EncodeToString(h.Sum(nil))
}

// Seen is what was approved about a call before it runs.
type Seen struct {
	Scope  string // as returned by Asks
	Change string // the Hash of the change that a person was shown, "" if none was
	// Widens is what a person allowed this call beyond the sandbox.
	Widens sandbox.Widening
}

type seenKey struct{}

// WithSeen binds a call to what was approved: if its scope or its change
// differs by then, Run does nothing and says so.
func WithSeen(ctx context.Context, s Seen) context.Context {
	return context.WithValue(ctx, seenKey{}, s)
}

// stillScoped reports whether a call still has the approved scope.
func stillScoped(ctx context.Context, scope string) bool {
	seen, ok := ctx.Value(seenKey{}).(Seen)
	return !ok || seen.Scope == scope
}

func stillChange(ctx context.Context, c Change) bool {
	seen, ok := ctx.Value(seenKey{}).(Seen)
	return !ok || seen.Change == "" || seen.Change == c.Hash()
}

// errChanged means that the change would differ from the one that a person saw.
var errChanged = errors.New("it changed after it was shown to the user, and nothing was written; look at it and call again")

// writeChange is what a call of write would do.
func (b *Box) writeChange(ctx context.Context, p place, content string) (Change, error) {
	c := Change{Path: p.where(), New: []byte(content)}
	old, err := b.whole(ctx, p, maxEdit)
	if errors.Is(err, fs.ErrNotExist) {
		c.Made = true
		return c, nil
	}
	c.Old = old
	return c, err
}

// editChange is what a call of edit would do.
func (b *Box) editChange(ctx context.Context, p place, a editArguments) (c Change, err error) {
	c = Change{Path: p.where()}
	if c.Old, err = b.whole(ctx, p, maxEdit); err != nil {
		return c, err
	}
	c.New, _, err = replaceText(c.Old, a)
	return c, err
}

// changeOf reads the arguments of a tool that changes a file, and returns the
// change; an error when there is none, or when it cannot be shown as text.
func changeOf[A any](b *Box, path func(A) string, make func(context.Context, place, A) (Change, error)) func(context.Context, json.RawMessage) (Change, error) {
	return func(ctx context.Context, input json.RawMessage) (Change, error) {
		var a A
		if err := readArgs(input, &a); err != nil {
			return Change{}, err
		}
		p, err := b.locateFile(path(a))
		if err != nil {
			return Change{}, err
		}
		c, err := make(ctx, p, a)
		if err == nil && (looksBinary(c.Old) || looksBinary(c.New)) {
			err = errors.New("it is binary")
		}
		return c, err
	}
}
