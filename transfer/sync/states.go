package sync

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// shardState is what this store remembers of the sessions of a shard, so that it
// knows which have changed without asking the remote.
type shardState struct {
	Sessions map[tidemark.SessionID]*state `json:"sessions"`

	version int64
	changed bool
}

// state is what was last seen of a session.
type state struct {
	Version int64             `json:"version,omitempty"` // of its record here
	Lines   int64             `json:"lines,omitempty"`
	Notes   int64             `json:"notes,omitempty"`
	Workers int64             `json:"workers,omitempty"` // lines of all its workers
	Purged  bool              `json:"purged,omitempty"`
	Told    bool              `json:"told,omitempty"`  // that it was purged is kept at the remote
	Held    bool              `json:"held,omitempty"`  // another machine purged it, and a hold keeps it here
	Known   string            `json:"known,omitempty"` // the sum of the registers that somebody keeps at the remote
	Peers   map[string]string `json:"peers,omitempty"` // the sum of what each machine was seen to keep of it
}

func (y *syncer) stateKey(n int) tidemark.Key {
	key := y.remotes.key(y.c.Name)
	key.ID += fmt.Sprintf(".%02x", n)
	return key
}

func (y *syncer) shardState(ctx context.Context, n int) (*shardState, error) {
	if st := y.states[n]; st != nil {
		return st, nil
	}
	st := &shardState{}
	r, err := y.k.Get(ctx, y.stateKey(n), st)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return nil, err
	}
	if st.version = r.Version; st.Sessions == nil {
		st.Sessions = make(map[tidemark.SessionID]*state)
	}
	y.states[n] = st
	return st, nil
}

func (y *syncer) state(ctx context.Context, id tidemark.SessionID) (*state, *shardState, error) {
	all, err := y.shardState(ctx, shardOf(id))
	if err != nil {
		return nil, nil, err
	}
	st := all.Sessions[id]
	if st == nil {
		st = &state{}
		all.Sessions[id] = st
	}
	if st.Peers == nil {
		st.Peers = make(map[string]string)
	}
	return st, all, nil
}

// saveStates keeps what changed of the states.
func (y *syncer) saveStates(ctx context.Context) error {
	if y.o.DryRun {
		return nil
	}
	for n, st := range y.states {
		if !st.changed {
			continue
		}
		r, err := records.Put(y.stateKey(n), st.version, st)
		if err == nil {
			_, err = y.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		}
		if err != nil {
			return err
		}
		st.version, st.changed = st.version+1, false
	}
	return nil
}
