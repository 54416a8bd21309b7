package transfer

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// Download prepares a session for a client of a server: its media type, and a
// function that writes it. If a tool keeps a session in several files, they are
// sent as a zip. Environ is the environment for the tools.
func Download(ctx context.Context, s *store.Store, at store.Point, format string, environ []string) (media string, write func(io.Writer) error, err error) {
	if IsDocument(format) {
		x, err := NewExport(ctx, s, at, ExportOptions{Format: format})
		if err != nil {
			return "", nil, err
		}
		return documents[format], func(w io.Writer) error { return x.Write(ctx, w) }, nil
	}
	tool, err := ToolNamed(format)
	if err != nil {
		return "", nil, err
	}
	if tool.Export == nil {
		return "", nil, tidemark.Unsupportedf("format %q: %s keeps no conversations", tool.Name, tool.Title)
	}
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return "", nil, tidemark.Storagef("%w", err)
	}
	dir := scratch.Dir()
	e := &ToolExport{Tool: tool, Store: s}
	if e.Folder, err = OpenFolder(dir, environ); err == nil {
		err = errors.Join(e.Session(ctx, at), e.Folder.Close())
	}
	var files []string
	if err == nil {
		files, err = filesIn(dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, scratch.Close())
	}
	if len(files) == 1 && filepath.Ext(files[0]) == ".json" {
		return "application/json", func(w io.Writer) error {
			return errors.Join(copyOut(w, dir, files[0]), scratch.Close())
		}, nil
	}
	return "application/zip", func(w io.Writer) error { return errors.Join(zipOut(w, dir, files), scratch.Close()) }, nil
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

// Upload imports what a client of a server sent: a session of any known tool in
// one file, or an archive. how says how the store s is opened; nothing of the
// server's machine becomes part of the import.
func Upload(ctx context.Context, s *store.Store, name string, content io.Reader, who tidemark.Holder, how *open.Options) (in []Result, err error) {
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	if name = filepath.Base(filepath.Clean("/" + name)); name == "/" || name == "." {
		name = "import"
	}
	d, err := durable.OpenDir(scratch.Dir())
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
	return Import(ctx, s, filepath.Join(scratch.Dir(), name), &Importer{Open: how, Holder: who, Upload: true})
}
