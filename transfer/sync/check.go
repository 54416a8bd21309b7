package sync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// Checked is what a check of a remote found.
type Checked struct {
	Remote   string    `json:"remote"`
	Machines int       `json:"machines"`
	Sessions int       `json:"sessions"`
	Blobs    int       `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Removed  int       `json:"removed"` // blobs of this machine that nothing needs
	Problems []Problem `json:"problems,omitempty"`
}

// Check reads everything at a remote, opens it, and names what is missing or was
// changed. Blobs of this machine that its head does not name, such as an interrupted
// push leaves, are removed. What of this machine is damaged there is pushed again by
// the next run.
func Check(ctx context.Context, s *store.Store, name string, o Options) (c Checked, err error) {
	o.check = &c
	report, err := Run(ctx, s, name, o)
	c.Remote, c.Problems = report.Remote, append(report.Problems, c.Problems...)
	return c, err
}

// check reads what the heads name.
func (y *syncer) check(ctx context.Context, own *head, heads map[string]*head) error {
	c, seen := y.o.check, make(map[tidemark.SessionID]bool)
	heads = maps.Clone(heads)
	if own.Generation > 0 && !y.anew {
		heads[y.me.ID] = own
	}
	needed := make(map[string]bool)
	for _, machine := range slices.Sorted(maps.Keys(heads)) {
		h := heads[machine]
		c.Machines++
		for _, n := range slices.Sorted(maps.Keys(h.Shards)) {
			needed[blobName(machine, h.Shards[n])] = true
			list, err := y.getShard(ctx, machine, n, h.Shards[n])
			if err != nil {
				if err := y.found(ctx, machine, h, "", err); err != nil {
					return err
				}
				continue
			}
			c.Blobs++
			for _, k := range list.Sessions {
				if seen[k.ID] = true; len(seen) > c.Sessions { // several machines keep the same one
					c.Sessions++
				}
				for _, hash := range k.blobs() {
					needed[blobName(machine, hash)] = true
				}
				if err := y.checkSession(ctx, machine, k); err != nil {
					if err := y.found(ctx, machine, h, k.ID, err); err != nil {
						return err
					}
				}
				y.o.Progress(c.Sessions, "sessions read")
			}
		}
	}
	if own.Generation == 0 || y.anew || len(c.Problems) > 0 {
		return nil
	}
	return y.sweep(ctx, needed)
}

// found notes what is wrong with a session or shard of a machine. The next push of
// this machine repairs its own.
func (y *syncer) found(ctx context.Context, machine string, h *head, id tidemark.SessionID, err error) error {
	if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
		return err
	}
	y.o.check.Problems = append(y.o.check.Problems, Problem{Session: id, Machine: h.Name, What: err.Error()})
	if machine == y.me.ID {
		y.c.Again = true
	}
	return nil
}

// checkSession reads what a machine keeps of a session.
func (y *syncer) checkSession(ctx context.Context, machine string, k *kept) error {
	c := y.o.check
	if k.About != nil {
		if _, err := y.getAbout(ctx, source{machine: machine, kept: k}); err != nil {
			return err
		}
		c.Blobs++
	}
	for i := range k.Logs {
		st := &stream{y: y, machine: machine, kept: k, log: &k.Logs[i], next: 1}
		for _, g := range k.Logs[i].Segments {
			st.next, st.items = g.From, nil
			if _, err := st.peek(ctx); err != nil {
				return err
			}
			c.Blobs++
			c.Bytes += g.Bytes
		}
	}
	return nil
}

// sweep removes the blobs of this machine that its head does not name.
func (y *syncer) sweep(ctx context.Context, needed map[string]bool) error {
	var unneeded []string
	for name, err := range y.blobs.List(ctx, "m/"+y.me.ID+"/b/") {
		if err != nil {
			return err
		}
		if !needed[name] && strings.HasPrefix(name, "m/"+y.me.ID+"/b/") {
			unneeded = append(unneeded, name)
		}
	}
	for _, name := range unneeded {
		if err := y.blobs.Delete(ctx, name); err != nil {
			return err
		}
		y.o.check.Removed++
	}
	return nil
}

// Each runs with the remote that is named, or with all of them where none is, one
// after the other, and calls tell with each report. One that fails keeps none of the
// others from being met. ErrNotFound: there is none.
func Each(ctx context.Context, s *store.Store, name string, o Options, tell func(Report, error)) error {
	names, err := Of(s.Records(), o.Host, o.Places).names(ctx, name)
	if err != nil {
		return err
	}
	for _, name := range names {
		r, err := Run(ctx, s, name, o)
		if tell(r, err); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Watch calls Each again and again until ctx ends, and tells of each run that did
// something or failed. A remote that is away is tried again.
func Watch(ctx context.Context, s *store.Store, name string, o Options, every time.Duration, tell func(Report, error)) error {
	last := make(map[string]string)
	for {
		err := Each(ctx, s, name, o, func(r Report, err error) {
			now := ""
			if err != nil {
				now = err.Error()
			}
			if ctx.Err() == nil && (now != last[r.Remote] || r.Pushed.Sessions+r.Pulled.Sessions+r.Purged+r.Faults() > 0) {
				tell(r, err)
			}
			last[r.Remote] = now
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
