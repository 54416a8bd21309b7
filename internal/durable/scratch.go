package durable

import "os"

// Scratch is a folder for temporary files that only this user can enter. Closing
// it removes it with everything in it.
type Scratch struct{ dir string }

// NewScratch makes a folder in the system's folder for temporary files.
func NewScratch(name string) (*Scratch, error) {
	dir, err := os.MkdirTemp("", name+"-*")
	if err != nil {
		return nil, err
	}
	return &Scratch{dir}, nil
}

// Dir returns the path of the folder.
func (s *Scratch) Dir() string { return s.dir }

// Close removes the folder.
func (s *Scratch) Close() error { return os.RemoveAll(s.dir) }
