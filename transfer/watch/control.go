package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Settings are what a user told the watcher of one machine.
type Settings struct {
	Added   []Added  `json:"added,omitempty"`
	Ignored []string `json:"ignored,omitempty"` // folders: of tools, or of projects
	// PausedUntil is when the watcher goes on; zero: it is not paused.
	PausedUntil time.Time `json:"paused_until,omitzero"`
	// Asked counts how often somebody wanted the sessions of a tool at once, or of
	// all, "".
	Asked map[string]int64 `json:"asked,omitempty"`

	version int64
}

// Added is a folder that no tool keeps its sessions in by default.
type Added struct {
	Tool string `json:"tool"`
	Path string `json:"path"`
}

// Control is the watching of one user of one machine in a store: what the user
// wants, who does it, and what that one reports. It may be used concurrently.
type Control struct {
	k   *records.Kernel
	key tidemark.Key
}

// ControlOf returns the Control of the User on the machine of the Holder.
func ControlOf(o Options) *Control {
	k := o.Opened.Store.Records()
	return &Control{k: k, key: tidemark.Key{Kind: records.KindWatch, ID: k.Hash("watch", o.Holder.Host, o.Holder.Machine, o.User)}}
}

// Settings returns what the user told the watcher.
func (c *Control) Settings(ctx context.Context) (s Settings, err error) {
	r, err := c.k.Get(ctx, c.key, &s)
	s.version = r.Version
	return s, err
}

// change replaces the settings by what with makes of them.
func (c *Control) change(ctx context.Context, with func(*Settings) error) error {
	return records.Retry(ctx, func() error {
		s, err := c.Settings(ctx)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err := with(&s); err != nil {
			return err
		}
		r, err := records.Put(c.key, s.version, s)
		if err != nil {
			return err
		}
		_, err = c.k.Commit(ctx, tidemark.Batch{At: c.k.Clock(), Puts: []tidemark.Record{r}})
		return err
	})
}

// Add adds a folder to those that are followed. Whose it is says the Importer, or
// what is in it. ErrExists: it is one already. ErrInvalid: no tool writes this.
func (c *Control) Add(ctx context.Context, i *transfer.Importer, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	p := transfer.Place{Path: path}
	if i.Tool != "" {
		p.Tool, err = transfer.ToolNamed(i.Tool)
	} else {
		p, err = i.Detect(ctx, path)
		switch {
		case errors.Is(err, tidemark.ErrNotFound):
			err = fmt.Errorf("%s: %w", path, err)
		case err != nil:
			err = hint.With(err, "name the tool with --from; see which are known: tidemark import --help")
		}
	}
	if err != nil {
		return err
	}
	return c.change(ctx, func(s *Settings) error {
		if slices.ContainsFunc(s.Added, func(a Added) bool { return a.Path == path }) {
			return tidemark.Existsf("%s is followed already", path)
		}
		s.Added = append(s.Added, Added{Tool: p.Tool.Name, Path: path})
		return nil
	})
}

// Remove takes back what Add or Ignore said about a folder: ErrNotFound.
func (c *Control) Remove(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	return c.change(ctx, func(s *Settings) error {
		n := len(s.Added) + len(s.Ignored)
		s.Added = slices.DeleteFunc(s.Added, func(a Added) bool { return a.Path == path })
		s.Ignored = slices.DeleteFunc(s.Ignored, func(p string) bool { return p == path })
		if len(s.Added)+len(s.Ignored) == n {
			return hint.With(tidemark.NotFoundf("%s was neither added nor ignored", path), "leave out the folder of a tool or a project with: tidemark watch ignore PATH")
		}
		return nil
	})
}

// Ignore leaves out a folder of a tool, or the sessions of a project. What was
// imported stays.
func (c *Control) Ignore(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	return c.change(ctx, func(s *Settings) error {
		if slices.Contains(s.Ignored, path) {
			return tidemark.Existsf("%s is ignored already", path)
		}
		s.Ignored = append(s.Ignored, path)
		return nil
	})
}

// forever is until when a watcher is paused of which nobody said how long.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Pause has nothing imported for a duration, such as 2h; without one, until it is
// told off.
func (c *Control) Pause(ctx context.Context, how ...string) error {
	until := forever
	if len(how) > 0 && how[0] == "off" {
		until = time.Time{}
	} else if len(how) > 0 {
		d, err := time.ParseDuration(how[0])
		if err != nil || d <= 0 {
			return tidemark.Invalidf("pause %q: want a duration like 30m or 2h, or off", how[0])
		}
		until = records.Keepable(time.Now().Add(d))
	}
	return c.change(ctx, func(s *Settings) error {
		s.PausedUntil = until
		return nil
	})
}

// askEvery is how often somebody who asked looks for the answer.
const askEvery = 50 * time.Millisecond

// Now has the watcher import what a tool wrote, "": what any did, and returns the homes
// when that is done. It is false if nobody watches, or does not any more.
func (c *Control) Now(ctx context.Context, tool string) (homes []Event, told bool, err error) {
	if _, _, is, err := c.Watching(ctx); err != nil || !is {
		return nil, false, err
	}
	n := int64(0)
	err = c.change(ctx, func(s *Settings) error {
		s.Asked = maps.Clone(s.Asked)
		if s.Asked == nil {
			s.Asked = make(map[string]int64)
		}
		s.Asked[tool]++
		n = s.Asked[tool]
		return nil
	})
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for err == nil {
		var r Report
		if r, err = c.Report(ctx); err == nil && r.Answered[tool] >= n {
			return slices.DeleteFunc(r.Homes, func(e Event) bool { return tool != "" && e.Tool != tool }), true, nil
		}
		if _, _, is, leaseErr := c.Watching(ctx); leaseErr != nil || !is {
			return nil, false, errors.Join(err, leaseErr)
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-ticker.C:
		}
	}
	return nil, false, err
}

// ignores reports whether a path is, or is inside of, a folder that is ignored.
func (s Settings) ignores(path string) bool {
	return path != "" && slices.ContainsFunc(s.Ignored, func(outer string) bool { return inside(outer, path) })
}

// inside reports whether a path is a folder or below it.
func inside(folder, path string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// Watching returns who watches, if somebody does.
func (c *Control) Watching(ctx context.Context) (who tidemark.Holder, since time.Time, is bool, err error) {
	l, err := c.k.Lease(ctx, c.key)
	return l.Holder, l.Since, err == nil && l.Living(), err
}

// take makes who the one watcher: ErrHeld, if there is another one.
func (c *Control) take(ctx context.Context, who tidemark.Holder) (*records.Holding, error) {
	l, b, err := c.k.Take(ctx, c.key, who)
	if err == nil {
		_, err = c.k.Commit(ctx, b)
	}
	var held *records.HeldError
	switch {
	case errors.As(err, &held):
		return nil, hint.With(tidemark.Errorf(tidemark.ErrHeld, "%s watches already, since %s", held.Lease.Holder, held.Lease.Since.Local().Format(time.DateTime)), "see what it does with: tidemark watch status")
	case errors.Is(err, tidemark.ErrConflict):
		return nil, tidemark.Errorf(tidemark.ErrHeld, "another watcher began at the same moment")
	case err != nil:
		return nil, err
	}
	return c.k.Hold(l), nil
}

// free ends a watch.
func (c *Control) free(ctx context.Context, h *records.Holding) error {
	h.Lock()
	defer h.Unlock()
	h.End()
	if !h.Holds(ctx) {
		return nil
	}
	return c.k.Free(ctx, h.Lease())
}

func (c *Control) reportKey() tidemark.Key {
	return tidemark.Key{Kind: c.key.Kind, ID: c.key.ID + ".report"}
}

// Report returns what the watcher last reported.
func (c *Control) Report(ctx context.Context) (r Report, err error) {
	_, err = c.k.Get(ctx, c.reportKey(), &r)
	return r, err
}

// keepReport keeps a report. Nothing depends on it.
func (c *Control) keepReport(ctx context.Context, report Report) error {
	old, err := c.k.Get(ctx, c.reportKey(), &Report{})
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	r, err := records.Put(c.reportKey(), old.Version, report)
	if err != nil {
		return err
	}
	_, err = c.k.Commit(ctx, tidemark.Batch{At: c.k.Clock(), Puts: []tidemark.Record{r}})
	return err
}
