package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Daemon is a process that runs a fleet on this store.
type Daemon struct {
	Holder    tidemark.Holder `json:"holder"`
	File      string          `json:"file,omitempty"` // the fleet file, on its host
	Agents    []string        `json:"agents"`         // of that file; nil: not known yet, or the daemon is of an earlier release
	StartedAt time.Time       `json:"started_at"`
	ReadyAt   time.Time       `json:"ready_at,omitzero"` // when it had handled everything that was due at its start
	SeenAt    time.Time       `json:"seen_at"`

	Dead bool `json:"-"` // proven dead, or silent for longer than daemonSilence
}

// A daemon renews its SeenAt every daemonBeat. Whether a process of another
// machine is dead cannot be proven, so after daemonSilence it counts as dead.
const (
	daemonBeat    = 30 * time.Second
	daemonSilence = 2 * time.Minute
)

func daemonKey(h tidemark.Holder) tidemark.Key {
	return tidemark.Key{Kind: kindDaemon, ID: fmt.Sprintf("%s-%d", safeName(h.Host), h.PID)}
}

// safeName turns a host name into a valid part of an id.
func safeName(host string) string {
	b := []byte(host)
	for i, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "host"
	}
	return string(b[:min(len(b), 64)])
}

// AddDaemon records that a process runs the fleet.
func (s *Store) AddDaemon(ctx context.Context, d Daemon) error {
	d.StartedAt = s.k.Now()
	d.SeenAt = d.StartedAt
	key := daemonKey(d.Holder)
	_, err := s.replace(ctx, key, func(version int64) (tidemark.Record, error) { return records.Put(key, version, d) })
	return err
}

// DaemonReady records that a daemon knows its agents and has handled what was
// due when it started: ErrNotFound when AddDaemon was not called for it.
func (s *Store) DaemonReady(ctx context.Context, h tidemark.Holder) error {
	return s.changeDaemon(ctx, h, func(d *Daemon) bool {
		d.ReadyAt = s.k.Now()
		return true
	})
}

// DaemonAgents records which agents are in the fleet file of a daemon:
// ErrNotFound when AddDaemon was not called for it.
func (s *Store) DaemonAgents(ctx context.Context, h tidemark.Holder, agents []string) error {
	return s.changeDaemon(ctx, h, func(d *Daemon) bool {
		changed := d.Agents == nil || !slices.Equal(d.Agents, agents)
		d.Agents = append([]string{}, agents...)
		return changed
	})
}

// DaemonAlive records that a daemon still runs. It writes at most once every
// daemonBeat, so callers may call it as often as they like.
func (s *Store) DaemonAlive(ctx context.Context, h tidemark.Holder) error {
	return s.changeDaemon(ctx, h, func(d *Daemon) bool {
		old := s.k.Now().Sub(d.SeenAt) >= daemonBeat
		d.SeenAt = s.k.Now()
		return old
	})
}

// changeDaemon applies change to the record of a daemon, and writes it if change
// returns true.
func (s *Store) changeDaemon(ctx context.Context, h tidemark.Holder, change func(*Daemon) bool) error {
	return records.Retry(ctx, func() error {
		var d Daemon
		r, err := s.k.Get(ctx, daemonKey(h), &d)
		if err != nil {
			return err
		}
		if r.Version == 0 {
			return tidemark.NotFoundf("daemon %s: not found", h)
		}
		if !change(&d) {
			return nil
		}
		p, err := records.Put(r.Key, r.Version, d)
		if err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
}

// RemoveDaemon records that a process no longer runs the fleet.
func (s *Store) RemoveDaemon(ctx context.Context, h tidemark.Holder) error {
	return records.Retry(ctx, func() error {
		r, err := s.k.Backend().Get(ctx, daemonKey(h))
		if errors.Is(err, tidemark.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}})
		return err
	})
}

// Daemons lists the processes that run the fleet, including those that died
// without calling RemoveDaemon.
func (s *Store) Daemons(ctx context.Context) ([]Daemon, error) {
	var all []Daemon
	for d, err := range records.List[Daemon](ctx, s.k, tidemark.Query{Kind: kindDaemon, Order: tidemark.ByID}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return all, err
		}
		d.Dead = s.k.Dead(d.Holder) || !d.SeenAt.IsZero() && s.k.Now().Sub(d.SeenAt) > daemonSilence
		all = append(all, d)
	}
	return all, nil
}
