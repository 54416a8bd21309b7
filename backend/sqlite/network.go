package sqlite

import (
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
)

// refuseNetwork keeps stores off file systems that are on another machine. There
// the memory that SQLite shares between processes is not shared, and locks are
// often not enforced: two writers would damage the store.
func refuseNetwork(path string, set setting) error {
	dir := filepath.Dir(path)
	for { // a directory that does not exist yet will be on the file system of its parent
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	name, network, err := set.fileSystem(dir)
	if err != nil {
		return tidemark.Storagef("store %s: %w", path, err)
	}
	if network {
		return unsupported(path, "lies on a network file system (%s), where SQLite would lose data; use files: or postgres:", name)
	}
	return nil
}
