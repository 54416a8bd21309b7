package main

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/store"
)

// mediaTypes are those of the formats that are one file.
var mediaTypes = map[string]string{"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "json": "application/json", "ndjson": "application/x-ndjson"}

// serveExport writes a session for a client of the server. A tool that keeps a
// session in several files gets them as a zip.
func serveExport(ctx context.Context, s *store.Store, at store.Point, format string) (string, func(io.Writer) error, error) {
	if media, ok := mediaTypes[format]; ok {
		var x exporting
		entries, err := x.entries(ctx, at.View, at.Seq)
		if err != nil {
			return "", nil, err
		}
		labels, err := at.View.Labels(ctx)
		if err != nil {
			return "", nil, err
		}
		return media, func(w io.Writer) error {
			return x.write(ctx, s, w, format, at, labels, string(at.ID), entries)
		}, nil
	}
	tool, err := toolNamed(format)
	if err != nil {
		return "", nil, err
	}
	if tool.Export == nil {
		return "", nil, tidemark.Unsupportedf("format %q: %s keeps no conversations", tool.Name, tool.Title)
	}
	dir, remove, err := throwAway()
	if err != nil {
		return "", nil, err
	}
	e := &exportInto{tool: tool, s: s}
	if e.out, err = openOut(dir); err == nil {
		err = errors.Join(e.session(ctx, at), e.out.Close())
	}
	var files []string
	if err == nil {
		files, err = filesIn(dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	if len(files) == 1 && filepath.Ext(files[0]) == ".json" {
		return "application/json", func(w io.Writer) error {
			return errors.Join(copyOut(w, dir, files[0]), remove())
		}, nil
	}
	return "application/zip", func(w io.Writer) error { return errors.Join(zipOut(w, dir, files), remove()) }, nil
}

// filesIn lists the files below a folder, as paths in it.
func filesIn(dir string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func copyOut(w io.Writer, dir, name string) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func zipOut(w io.Writer, dir string, files []string) error {
	z := zip.NewWriter(w)
	for _, name := range files {
		part, err := z.Create(name)
		if err != nil {
			return err
		}
		if err := copyOut(part, dir, name); err != nil {
			return err
		}
	}
	return z.Close()
}

// serveImport brings in what a client of the server sent: a session of any
// known tool in one file, or an archive.
func (a *app) serveImport(ctx context.Context, s *store.Store, name string, content io.Reader) (in []server.Imported, err error) {
	dir, remove, err := throwAway()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if name = filepath.Base(filepath.Clean("/" + name)); name == "/" || name == "." {
		name = "import"
	}
	d, err := durable.OpenDir(dir)
	if err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	begin := make([]byte, archive.SniffBytes)
	n, _ := io.ReadFull(content, begin)
	if is, sealed := archive.Sniff(begin[:n]); is && sealed {
		d.Close()
		return nil, tidemark.Unsupportedf("the archive is of an encrypted store; bring it in with: tidemark --store https://… import FILE")
	}
	err = durable.Stream(d, name+".tmp", name, func(w io.Writer) error {
		if _, err := w.Write(begin[:n]); err != nil {
			return err
		}
		_, err := io.Copy(w, content)
		return err
	})
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	cmd := &cobra.Command{Use: "serve"}
	cmd.SetContext(ctx)
	one := *a
	one.opened, one.out, one.err, one.quiet = &open.Opened{Store: s, Backend: s.Backend(), Inner: s.Backend()}, io.Discard, io.Discard, true
	i := &importer{app: &one, cmd: cmd, rows: []brought{}, upload: true}
	if err := i.path(filepath.Join(dir, name)); err != nil {
		return nil, err
	}
	for _, row := range i.rows {
		if row.Session != "" {
			in = append(in, server.Imported{ID: row.Session, Title: row.Title, Entries: int64(row.Entries), Known: row.State == "known", Lost: row.Lost})
		}
	}
	return in, i.index()
}
