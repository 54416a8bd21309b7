package files

import (
	"os"
	"sync"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// removals closes files whose names were removed. Only then is their room freed, which
// takes some disks longer than a sync does, and for which nobody has to wait.
type removals struct {
	begin sync.Once
	files chan durable.File
	done  sync.WaitGroup
}

// maxRemovals is how many files wait to be closed.
const maxRemovals = 128

func (r *removals) add(f durable.File) {
	r.begin.Do(func() {
		r.files = make(chan durable.File, maxRemovals)
		r.done.Go(func() {
			for f := range r.files {
				f.Close()
			}
		})
	})
	select {
	case r.files <- f:
	default:
		f.Close()
	}
}

// close waits until everything is closed. Nothing is added any more.
func (r *removals) close() {
	if r.files != nil {
		close(r.files)
		r.done.Wait()
	}
}

// remove removes the name of a file. Its room is freed when that keeps nobody waiting.
func (b *Backend) remove(name string) error {
	f, err := b.fs.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	if err := b.fs.Remove(name); err != nil {
		f.Close()
		return err
	}
	b.removals.add(f)
	return nil
}

// takeName gives a staged file its name. The file that had it is exchanged for it and
// removed, where the system can do that.
func (b *Backend) takeName(s staged) error {
	exchanged, err := durable.Exchange(b.fs, s.tmp, s.name)
	if err != nil {
		return err
	}
	if !exchanged {
		return b.fs.Rename(s.tmp, s.name)
	}
	b.remove(s.tmp) // what is left in tmp/ is removed by whoever finds it
	return nil
}
