package file

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// DefaultName is the default name of a fleet file.
const DefaultName = "fleet.yaml"

// Read reads a fleet file from disk. Errors: ErrNotFound; ErrInvalid as for
// Parse.
func Read(name string) (*File, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, hint.With(tidemark.NotFoundf("%w", err), "write one with: tidemark fleet init")
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, tidemark.Storagef("%s: %w", name, err)
	}
	return ParseAt(name, data)
}

// ParseAt is Parse for a text that is, or will be, at a path: prompts are read
// from the folder of the path, and folders are relative to it.
func ParseAt(name string, data []byte) (*File, error) {
	folder, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	return Parse(name, data, &Options{Files: os.DirFS(folder), Dir: func(written string) (string, error) {
		if !filepath.IsAbs(written) {
			written = filepath.Join(folder, written)
		}
		return filepath.Clean(written), nil
	}})
}

// Write writes the text of a fleet file, all or nothing.
func Write(name string, text []byte) error {
	dir, err := durable.OpenDir(filepath.Dir(name))
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	defer dir.Close()
	base := filepath.Base(name)
	err = durable.Stream(dir, base+".tmp", base, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return tidemark.Storagef("%s: %w", name, err)
	}
	return nil
}

// Has reports whether the file has an agent of this name.
func (f *File) Has(agent string) bool {
	return slices.ContainsFunc(f.Agents, func(a Agent) bool { return a.Name == agent })
}

// ScheduleCount is how many schedules all agents have together.
func (f *File) ScheduleCount() (n int) {
	for _, a := range f.Agents {
		n += len(a.Schedules)
	}
	return n
}
