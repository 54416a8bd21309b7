package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// An upgrade changes a store of one schema version into the next, inside a
// transaction that it neither begins nor ends.
type upgrade func(*conn) error

// upgrades lead from version 1 to the newest, in order. A new store goes the
// same way, so that it never differs from one that was upgraded.
var upgrades = []upgrade{addIndex}

// addIndex leaves every log unindexed; whoever can read the lines indexes them
// when there is time.
func addIndex(c *conn) error { return c.run(schema2 + tableWord) }

// upgradeStore brings a store to the newest schema, all steps in one
// transaction, after a copy was made. The caller holds the lock file, so no
// other program of ours writes meanwhile.
func upgradeStore(c *conn, path string, have int64, set setting) error {
	if have < 1 {
		return invalid(path, fmt.Sprintf("its schema has no version (%d)", have))
	}
	if err := backup(c, path, have, set); err != nil {
		return err
	}
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := func() error {
		for _, step := range set.upgrades[have-1:] {
			if err := step(c); err != nil {
				return err
			}
		}
		return c.run(fmt.Sprintf("PRAGMA user_version=%d; COMMIT", set.version()))
	}()
	if err != nil {
		c.run("ROLLBACK")
		return fmt.Errorf("upgrade from schema version %d to %d: %w", have, set.version(), err)
	}
	return nil
}

// backup writes a whole, durable copy of the store beside it. The copy gets
// its name before its content, for SQLite would make it as wide as the umask
// lets.
func backup(c *conn, path string, have int64, set setting) error {
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return tidemark.Storagef("store %s: %w", path, err)
	}
	defer dir.Close()
	stem := fmt.Sprintf("%s.bak-v%d-%s", filepath.Base(path), have, set.now().UTC().Format("20060102T150405Z"))
	name := stem
	err = durable.Create(dir, name, nil)
	for n := 2; errors.Is(err, fs.ErrExist); n++ { // an attempt in the same second that went wrong later
		name = fmt.Sprintf("%s-%d", stem, n)
		err = durable.Create(dir, name, nil)
	}
	if err != nil {
		return tidemark.Storagef("store %s: backup: %w", path, err)
	}
	full := filepath.Join(filepath.Dir(path), name)
	err = c.run("VACUUM INTO '" + strings.ReplaceAll(full, "'", "''") + "'")
	if err == nil {
		err = syncNamed(dir, name)
	}
	if err == nil {
		err = durable.SyncDir(dir, ".")
	}
	if err != nil {
		dir.Remove(name)
		return tidemark.Storagef("store %s: backup: %w", path, err)
	}
	return nil
}
