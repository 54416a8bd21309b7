package converttest

import (
	"bytes"
	"context"
	"io/fs"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Out is a folder in memory to export into. It has no databases.
type Out struct{ Files fstest.MapFS }

// NewOut returns an empty one.
func NewOut() *Out { return &Out{fstest.MapFS{}} }

type file struct {
	bytes.Buffer
	out  *Out
	name string
}

func (f *file) Close() error {
	f.out.Files[f.name] = &fstest.MapFile{Data: f.Bytes(), Mode: 0o600}
	return nil
}

// CloseWithError leaves nothing behind.
func (f *file) CloseWithError(err error) error { return err }

// Create implements convert.Out; an invalid file name is ErrInvalid.
func (o *Out) Create(name string) (convert.File, error) {
	if !fs.ValidPath(name) {
		return nil, tidemark.Invalidf("name %q: leads out of the folder", name)
	}
	return &file{out: o, name: name}, nil
}

// SQL is ErrUnsupported.
func (o *Out) SQL(context.Context, string) (convert.Database, error) {
	return nil, tidemark.ErrUnsupported
}

// There is empty.
func (o *Out) There() fs.FS { return nil }

// Getenv has no variables.
func (o *Out) Getenv(string) string { return "" }

// Source returns what was written, for reading.
func (o *Out) Source() convert.Source { return convert.Source{FS: o.Files, Path: "."} }
