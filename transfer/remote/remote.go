// Package remote keeps blobs for the machines of one person in a place that none of
// them has to trust: a folder on a stick, one that Syncthing or NFS carries around,
// one on a machine that ssh reaches, storage that speaks S3, a Tidemark server.
// A place is five calls. It knows nothing of sessions; what is in a blob, and
// whether it is what its writer put there, is up to package sync, which seals it.
//
//	place, err := remote.Open(ctx, "file:/media/stick/tidemark", nil)
//	err = place.PutNew(ctx, "m/3f2a/head", data)
package remote

import (
	"context"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// MaxBytes bounds one blob: a line of the largest size that a store keeps, and what
// it takes to seal it.
const MaxBytes = tidemark.MaxBodyBytes + 16<<20

// Blobs is a place for blobs. Each has a name; see CheckName. All methods may be
// called concurrently. Every error but those named here means that the place cannot
// be used now, and answers to ErrStorage.
type Blobs interface {
	// Get returns a blob: ErrNotFound. What it returns may be half there, or
	// anything that whoever keeps the place put there.
	Get(ctx context.Context, name string) ([]byte, error)
	// PutNew makes a blob, which is durable when it returns nil. It does nothing
	// when a blob of the same content is there. ErrExists: another one is.
	PutNew(ctx context.Context, name string, data []byte) error
	// Replace puts a blob in place of another one or of none. Readers get the old
	// one or the new one. Only the writer that owns the name may call it.
	Replace(ctx context.Context, name string, data []byte) error
	// List yields the names that begin with a prefix, which is empty or ends with a
	// slash, in no order.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes a blob. A missing one is no error.
	Delete(ctx context.Context, name string) error
	Close() error
}

// Clock is a place that has a clock, by which machines can tell each other what happens
// now: a Tidemark server.
type Clock interface {
	Now() time.Time
}

// Options are what a place may need beside its URL. Nil means none of it.
type Options struct {
	// Environ is where SSHVariable and the keys of storage are looked for, and what
	// ssh is started with.
	Environ []string
	// Token returns what finds the token for the server at an address. Nil: none is
	// sent.
	Token func(address string) func(context.Context) (string, error)
	// Ask says that somebody is there whom ssh may ask for a passphrase.
	Ask bool
}

func (o *Options) getenv(name string) string {
	for _, v := range o.Environ {
		if value, is := strings.CutPrefix(v, name+"="); is {
			return value
		}
	}
	return ""
}

// Open opens the place at a URL. ErrInvalid: it is no URL of a place. ErrNotFound:
// there is no such folder. ErrDenied: this machine is not let in.
func Open(ctx context.Context, url string, o *Options) (Blobs, error) {
	if o == nil {
		o = &Options{}
	}
	kind, rest, ok := strings.Cut(url, ":")
	switch {
	case ok && kind == "file":
		return openFolder(strings.TrimPrefix(rest, "//"))
	case ok && kind == "ssh":
		return openSSH(ctx, url, o)
	case ok && kind == "s3":
		return openS3(url, o)
	case ok && (kind == "https" || kind == "http"):
		return openServer(ctx, url, o)
	}
	return nil, hint.With(tidemark.Invalidf("%.100q is no URL of a remote", url), "name a folder: file:/media/stick/tidemark, one on another machine: ssh://HOST/PATH, storage: s3://BUCKET/PREFIX, or a Tidemark server: https://HOST")
}

// Clean returns a URL as it is kept: the path of a folder is absolute.
func Clean(url, dir string) string {
	rest, ok := strings.CutPrefix(url, "file:")
	if !ok {
		return url
	}
	if rest = strings.TrimPrefix(rest, "//"); !filepath.IsAbs(rest) {
		rest = filepath.Join(dir, rest)
	}
	return "file:" + filepath.Clean(rest)
}

// CheckName returns ErrInvalid unless a name consists of parts of lower-case letters,
// digits and dashes, with slashes between them.
func CheckName(name string) error {
	ok := len(name) <= 200
	for part := range strings.SplitSeq(name, "/") {
		ok = ok && part != "" && strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	}
	if !ok {
		return tidemark.Invalidf("%.40q: no name of a blob", name)
	}
	return nil
}
