package transfer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
)

// soonDeleted is how far ahead a person is warned.
const soonDeleted = 7 * 24 * time.Hour

// CheckRetention adds to a checkup what the tools in a home folder will delete by
// themselves, when, and how a person changes that. It changes nothing.
func CheckRetention(ctx context.Context, c *open.Checkup, home string, now time.Time) {
	for _, t := range Tools() {
		for _, at := range t.Homes {
			path := filepath.Join(home, filepath.FromSlash(at))
			if t.Retention == nil || !(&Importer{}).isOf(ctx, t, path) {
				continue
			}
			what := "sessions of " + t.Title
			x, err := expiryOf(ctx, t, path, now)
			switch {
			case err != nil:
				c.Add(what, open.Warning, "%s: %v", path, err)
			case x.days == 0:
				c.Add(what, open.Healthy, "%s: none is deleted by itself", path)
			case x.sessions == 0:
				c.Add(what, open.Healthy, "%s: each will be deleted %d days after its last change; there is none", path, x.days)
			case x.soon == 0:
				c.Add(what, open.Healthy, "%s: each is deleted %d days after its last change, the next on %s", path, x.days, x.next.Format(time.DateOnly))
			default:
				d := c.Add(what, open.Warning, "%s: %d of %d will be deleted within a week (%d days after their last change), the next on %s", path, x.soon, x.sessions, x.days, x.next.Format(time.DateOnly))
				d.Fix = fmt.Sprintf("keep them with: tidemark import %s; or change it with: %s", path, x.change)
			}
		}
	}
}

// expiry is what a tool will delete.
type expiry struct {
	days           int
	change         string
	sessions, soon int
	next           time.Time
}

// expiryOf looks at the files of a tool.
func expiryOf(ctx context.Context, t convert.Tool, path string, now time.Time) (x expiry, err error) {
	p, done, err := openSource(path, nil)
	if err != nil {
		return x, err
	}
	defer done()
	r := t.Retention(p)
	x.days, x.change = r.Days, r.Change
	if r.Days == 0 || t.Files == nil {
		return x, nil
	}
	changed := make(map[string]time.Time)
	for f, err := range t.Files(ctx, p) {
		if err != nil {
			return x, err
		}
		info, err := infoOf(p.FS, f)
		if err == nil && !slices.Contains(r.Spares, f.Unit) && info.ModTime().After(changed[f.Unit]) {
			changed[f.Unit] = info.ModTime()
		}
	}
	for _, at := range changed {
		due := at.AddDate(0, 0, r.Days)
		if due.Before(now) {
			due = now // when the tool is started next
		}
		if x.sessions++; x.next.IsZero() || due.Before(x.next) {
			x.next = due
		}
		if due.Sub(now) < soonDeleted {
			x.soon++
		}
	}
	return x, nil
}
