package open

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
)

// upgradable is a Backend on this machine, which may be of an older format.
type upgradable interface {
	// PendingUpgrade returns both formats, equal ones where there is nothing to
	// upgrade, and about how many bytes on its disk the upgrade takes.
	PendingUpgrade(ctx context.Context) (from, to, bytes int64, err error)
}

// CatchUp indexes what a reader had to read because it was not indexed, for the next
// one. It opens the store of o, which is at url, a second time to write to it, asks
// nobody for a passphrase, and calls progress as it goes. ErrUnsupported: the store
// has no index, or is of an older format, which a reader does not upgrade.
func (o *Opened) CatchUp(ctx context.Context, url string, how *Options, progress func(lines int64)) error {
	if b, ok := o.bare().(upgradable); ok {
		from, to, _, err := b.PendingUpgrade(ctx)
		if err != nil {
			return err
		}
		if from < to {
			return tidemark.Unsupportedf("store %s: has format %d; the next command that writes upgrades it to %d", url, from, to)
		}
	}
	writing := *how
	writing.Access, writing.Ask = Write, nil
	s, err := Store(ctx, url, &writing)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.CatchUp(ctx, progress)
	return err
}
