package transfer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// soonDeleted is how far ahead a person is warned.
const soonDeleted = 7 * 24 * time.Hour

// CheckRetention adds to a checkup what the tools in a home folder will delete by
// themselves, when, whether it is kept in a store, and how a person changes that. It
// changes nothing.
func CheckRetention(ctx context.Context, c *open.Checkup, s *store.Store, home string, now time.Time) {
	for _, t := range Tools() {
		for _, at := range t.Homes {
			path := filepath.Join(home, filepath.FromSlash(at))
			if t.Retention == nil || !(&Importer{}).isOf(ctx, t, path) {
				continue
			}
			what := "sessions of " + t.Title
			x, err := expiryOf(ctx, s, store.Source{Machine: machineOf(c.Holder), Tool: t.Name, Path: path}, t, now)
			switch {
			case err != nil:
				c.Add(what, open.Warning, "%s: %v", path, err)
			case x.days == 0:
				c.Add(what, open.Healthy, "%s: none is deleted by itself", path)
			case x.sessions == 0:
				c.Add(what, open.Healthy, "%s: each will be deleted %d days after its last change; there is none", path, x.days)
			case x.soon == 0:
				d := c.Add(what, open.Healthy, "%s: each is deleted %d days after its last change, the next on %s", path, x.days, x.next.Format(time.DateOnly))
				d.Fix = "change it with: " + x.change
			default:
				state, fix := open.Healthy, "change it with: "+x.change
				if x.kept < x.soon {
					state, fix = open.Warning, fmt.Sprintf("keep them with: tidemark import %s; or %s", path, fix)
				}
				d := c.Add(what, state, "%s: %d of %d will be deleted within a week (%d days after their last change), the next on %s; %d of them are kept here as they are",
					path, x.soon, x.sessions, x.days, x.next.Format(time.DateOnly), x.kept)
				d.Fix = fix
			}
		}
	}
}

// expiry is what a tool will delete.
type expiry struct {
	days           int
	change         string
	sessions, soon int
	kept           int // of those that will be deleted soon
	next           time.Time
}

// expiryOf looks at the files of a tool.
func expiryOf(ctx context.Context, s *store.Store, from store.Source, t convert.Tool, now time.Time) (x expiry, err error) {
	p, done, err := openSource(from.Path, nil)
	if err != nil {
		return x, err
	}
	defer done()
	r := t.Retention(p)
	x.days, x.change = r.Days, r.Change
	if r.Days == 0 || t.Files == nil {
		return x, nil
	}
	files := make(map[string][]convert.SourceFile)
	for f, err := range t.Files(ctx, p) {
		if err != nil {
			return x, err
		}
		if !slices.Contains(r.Spares, f.Unit) {
			files[f.Unit] = append(files[f.Unit], f)
		}
	}
	for unit, all := range files {
		stamps, err := stampsOf(p.FS, unit, all)
		if err != nil {
			continue // it was deleted meanwhile
		}
		due := stamps.newest.AddDate(0, 0, r.Days)
		if due.Before(now) {
			due = now // when the tool is started next
		}
		if x.sessions++; x.next.IsZero() || due.Before(x.next) {
			x.next = due
		}
		if due.Sub(now) >= soonDeleted {
			continue
		}
		x.soon++
		if u, err := s.SourceUnit(ctx, from, unit); err == nil && u.Stamp == stamps.text(now) {
			x.kept++
		}
	}
	return x, nil
}
