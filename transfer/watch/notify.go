package watch

import (
	"errors"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Change is a file or folder that was changed, as a Notifier tells it. One with
// Lost says that changes were lost: anything may have changed.
type Change struct {
	Path   string
	Folder bool // folders may have come or gone
	Lost   bool
}

// Notifier tells what changes directly in folders. It may tell late, twice, in
// another order, or not at all.
type Notifier interface {
	// Add follows a folder; one that is followed already is no error.
	Add(folder string) error
	Remove(folder string) error
	// Changes is closed by Close.
	Changes() <-chan Change
	Close() error
}

// systemNotifier is the Notifier of the operating system.
type systemNotifier struct {
	w       *fsnotify.Watcher
	changes chan Change
}

// SystemNotifier returns the Notifier of the operating system.
func SystemNotifier() (Notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &systemNotifier{w: w, changes: make(chan Change, 64)}
	go n.run()
	return n, nil
}

// run passes on what the system tells. Close ends it.
func (n *systemNotifier) run() {
	defer close(n.changes)
	for {
		select {
		case e, ok := <-n.w.Events:
			if !ok {
				return
			}
			if e.Op == fsnotify.Chmod {
				continue // also a changed time of access
			}
			n.changes <- Change{Path: e.Name, Folder: e.Op.Has(fsnotify.Create) || e.Op.Has(fsnotify.Rename) || e.Op.Has(fsnotify.Remove)}
		case _, ok := <-n.w.Errors:
			if !ok {
				return
			}
			n.changes <- Change{Lost: true} // the queue of the system was full, or could not be read
		}
	}
}

func (n *systemNotifier) Add(folder string) error    { return n.w.Add(folder) }
func (n *systemNotifier) Remove(folder string) error { return n.w.Remove(folder) }
func (n *systemNotifier) Changes() <-chan Change     { return n.changes }
func (n *systemNotifier) Close() error               { return n.w.Close() }

// exhausted reports whether the system has no more room for folders to follow.
func exhausted(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
