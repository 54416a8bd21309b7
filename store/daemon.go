package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Daemon is a process that runs a fleet on this store.
type Daemon struct {
	Holder    tidemark.Holder `json:"holder"`
	File      string          `json:"file,omitempty"` // the fleet file, on its host
	StartedAt time.Time       `json:"started_at"`

	Dead bool `json:"-"` // it is proven dead
}

func daemonKey(h tidemark.Holder) tidemark.Key {
	return tidemark.Key{Kind: kindDaemon, ID: fmt.Sprintf("%s-%d", safeName(h.Host), h.PID)}
}

// safeName makes the name of a host fit for an id.
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

// AddDaemon says that a process runs the fleet.
func (s *Store) AddDaemon(ctx context.Context, d Daemon) error {
	d.StartedAt = s.now()
	_, err := s.replace(ctx, daemonKey(d.Holder), d, nil)
	return err
}

// RemoveDaemon says that it does not any more.
func (s *Store) RemoveDaemon(ctx context.Context, h tidemark.Holder) error {
	return retry(func() error {
		r, err := s.backend.Get(ctx, daemonKey(h))
		if errors.Is(err, tidemark.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = s.commit(ctx, tidemark.Batch{Deletes: []tidemark.Need{{Key: r.Key, Version: r.Version}}})
		return err
	})
}

// Daemons lists the processes that said that they run the fleet.
func (s *Store) Daemons(ctx context.Context) ([]Daemon, error) {
	var all []Daemon
	for d, err := range listed[Daemon](ctx, s, tidemark.Query{Kind: kindDaemon, Order: tidemark.ByID}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return all, err
		}
		d.Dead = s.o.Dead(d.Holder)
		all = append(all, d)
	}
	return all, nil
}
