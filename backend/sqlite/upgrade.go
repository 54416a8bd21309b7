package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Format is the version of the schema that this program writes.
const Format = 3

// An upgrade changes a store of one schema version into the next, inside a
// transaction that it neither begins nor ends.
type upgrade func(*conn) error

// upgrades lead from version 1 to Format, in order.
var upgrades = []upgrade{
	func(c *conn) error { return c.run(schema2) },
	func(c *conn) error { return c.run(schema3) },
}

// stepsTo returns what leads from the tables of version 1 to those of a version.
// Version 3 has them again, so a new store is not given what it would lose at once;
// a test sees that one that was upgraded is the same.
func (s setting) stepsTo(version int64) []upgrade {
	version = max(min(version, s.version()), 1)
	if version < Format {
		return s.upgrades[:version-1]
	}
	return s.upgrades[Format-1 : version-1]
}

// upgradeStore brings a store to the newest schema, all steps in one
// transaction, after a copy was made. The caller holds the lock file, so no
// other program of ours writes meanwhile.
func upgradeStore(ctx context.Context, c *conn, path string, have int64, o *Options, set setting) error {
	if have < 1 {
		return invalid(path, fmt.Sprintf("its schema has no version (%d)", have))
	}
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return tidemark.Storagef("store %s: %w", path, err)
	}
	defer dir.Close()
	name := durable.BackupName(dir, filepath.Base(path), have, set.now())
	if o.Upgrading != nil {
		o.Upgrading(have, set.version(), filepath.Join(filepath.Dir(path), name))
	}
	if err := backup(ctx, c, dir, path, name, have); err != nil {
		return fmt.Errorf("not upgraded from format %d to %d, because the copy to go back to could not be made: %w", have, set.version(), err)
	}
	if err := carryOut(c, have, set); err != nil {
		// The store is unchanged, so nobody will want the copy; if it were kept,
		// every further try would add another one.
		dir.Remove(name)
		return fmt.Errorf("upgrade from format %d to %d: %w", have, set.version(), err)
	}
	if err := c.run("COMMIT"); err != nil {
		c.run("ROLLBACK")
		return fmt.Errorf("upgrade from format %d to %d: %w", have, set.version(), err)
	}
	return nil
}

// PendingUpgrade returns from which format to which the next program that writes
// will upgrade the store, and about how many bytes on its disk that takes at most:
// the copy, and as much again in the -wal file, because what goes is overwritten.
// Both formats are the same where there is nothing to upgrade.
func (b *Backend) PendingUpgrade(ctx context.Context) (from, to, bytes int64, err error) {
	err = b.snapshot(ctx, func(c *conn) (err error) {
		from, err = schemaVersion(c)
		return err
	})
	return from, b.known, 2 * b.fileBytes(), err
}

// carryOut does all steps and leaves the transaction open, or undoes them.
func carryOut(c *conn, have int64, set setting) error {
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, step := range set.upgrades[have-1:] {
		if err := step(c); err != nil {
			c.run("ROLLBACK")
			return err
		}
	}
	err := c.run(fmt.Sprintf("PRAGMA user_version=%d", set.version()))
	if err != nil {
		c.run("ROLLBACK")
	}
	return err
}

// backup writes a complete, durable copy of the store beside it. The copy gets
// its name after it was verified and is on disk: any file with such a name is
// complete. It is created empty first, because SQLite would create it with the
// mode of the umask.
func backup(ctx context.Context, c *conn, dir *durable.Dir, path, name string, have int64) error {
	half := filepath.Base(path) + ".bak.new"
	err := removeDatabase(dir, half) // left by a program that died over it
	if err == nil {
		err = durable.Create(dir, half, nil)
	}
	if err == nil {
		err = copyInto(ctx, c, filepath.Join(filepath.Dir(path), half), have)
	}
	if err == nil {
		err = syncNamed(dir, half)
	}
	if err == nil {
		err = dir.Rename(half, name)
	}
	if err == nil {
		err = durable.SyncDir(dir, ".")
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case isCorrupt(err):
		err = fmt.Errorf("%w; %s", named(path, err), wayOut)
	case primary(err) != 0:
		err = named(path, err)
	default:
		err = tidemark.Storagef("store %s: %w", path, err)
	}
	removeDatabase(dir, half)
	return err
}

// copyInto copies the store into the empty file at path and verifies it.
func copyInto(ctx context.Context, c *conn, path string, have int64) error {
	stop := c.interruptOn(ctx)
	err := c.run("VACUUM INTO '" + strings.ReplaceAll(path, "'", "''") + "'")
	stop()
	if err != nil {
		return err
	}
	back, err := openConn(path, unchanging, reading...)
	if err != nil {
		return err
	}
	defer back.close()
	defer back.interruptOn(ctx)()
	said := ""
	if err := back.do("PRAGMA quick_check(1)", nil, func(s *stmt) { said = s.text(0) }); err != nil {
		return err
	}
	version, err := schemaVersion(back)
	if err == nil && (said != "ok" || version != have) {
		err = fmt.Errorf("read again, the copy is not what was written (%s, format %d)", said, version)
	}
	return err
}

// tooNew refuses a store that a newer program made or upgraded.
func tooNew(path string, have, known int64) error {
	if have <= known {
		return nil
	}
	return &tidemark.NewerError{What: "store " + path, Format: have, Known: known, Backup: durable.LastBackup(path, known)}
}
