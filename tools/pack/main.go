// Command pack puts a folder into an archive whose bytes depend on names and
// contents alone: entries are sorted, belong to root, bear one time, and may be
// run or not. So whoever builds the same files gets the same archive, whatever
// their clock, umask, user and versions of tar and zip.
//
//	pack -time 1750000000 tidemark_1.2_linux_amd64.tar.gz FOLDER
//
// The name decides what is made, .tar.gz or .zip. Everything in it is below a
// folder that is called like the archive.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	seconds := flag.Int64("time", 0, "seconds since 1970 that everything was last changed at")
	flag.Parse()
	err := errors.New("want an archive and a folder")
	if flag.NArg() == 2 {
		err = pack(flag.Arg(0), os.DirFS(flag.Arg(1)), time.Unix(*seconds, 0).UTC())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// entry adds one file, or a folder when content is nil.
type entry func(name string, runs bool, content []byte) error

// pack writes the archive that name says.
func pack(name string, folder fs.FS, at time.Time) (err error) {
	top, isTar := strings.CutSuffix(filepath.Base(name), ".tar.gz")
	top, isZip := strings.CutSuffix(top, ".zip")
	if isTar == isZip {
		return fmt.Errorf("%s: want a name that ends in .tar.gz or .zip", name)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if isZip {
		return zipped(f, folder, top, at)
	}
	return tarred(f, folder, top, at)
}

// walk hands out everything in a folder, in the order of names.
func walk(folder fs.FS, top string, add entry) error {
	return fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return add(path.Join(top, name)+"/", true, nil)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: neither a file nor a folder", name)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		return add(path.Join(top, name), info.Mode()&0o100 != 0, content)
	})
}

// mode is what remains of a file's rights.
func mode(runs bool) fs.FileMode {
	if runs {
		return 0o755
	}
	return 0o644
}

func tarred(out io.Writer, folder fs.FS, top string, at time.Time) error {
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	err := walk(folder, top, func(name string, runs bool, content []byte) error {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(mode(runs)), Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), z.Close())
}

func zipped(out io.Writer, folder fs.FS, top string, at time.Time) error {
	w := zip.NewWriter(out)
	err := walk(folder, top, func(name string, runs bool, content []byte) error {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		h.SetMode(mode(runs))
		if strings.HasSuffix(name, "/") {
			h.Method = zip.Store
			h.SetMode(mode(true) | fs.ModeDir)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
