package durable

import "os"

// Scratch is a folder for temporary files that only this user enters. It goes
// with all that is in it when it is closed.
type Scratch struct{ dir string }

// NewScratch makes a folder where the system keeps temporary files.
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
