package fleet

import (
	"bytes"
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// The kinds of records and logs that a fleet has, beside records.KindWake.
const (
	kindFleet    = "fleet"    // record: the one fleet of the store
	kindDaemon   = "daemon"   // record: HOST-PID, a process that runs the fleet
	kindAgent    = "agent"    // record: NAME; log: what it logged
	kindSchedule = "schedule" // record: AGENT.HASH; log: its skips
	kindReview   = "review"   // record: JOB.HASH, grouped by its job: a call that waits for an answer
	kindLane     = "lane"     // record: AGENT.LANE, or -.LANE for the fleet, grouped by AGENT or -: the job that runs in it
	kindSlots    = "slots"    // record: AGENT, or - for the fleet: the jobs that processes of earlier releases run
	kindJob      = "job"      // record: one run; log: its output
)

// Store keeps what belongs to a fleet: its agents and their schedules, the jobs
// with their output, the reviews that wait for a person, and the processes that
// run the fleet. All of its state is in the Backend, so any number of daemons, on
// any number of machines, may work on one Place. Its methods may be called
// concurrently.
type Store struct {
	k     *records.Kernel
	vault *vault.Vault
}

// Place is where the records of a fleet are kept. A *store.Store is one: the
// fleet uses its clock and its leases, and secrets are masked as in sessions.
type Place interface {
	Vault() *vault.Vault
}

// Over returns the Store of the fleet in a place. It is cheap, and needs no Close:
// whoever opened the place closes it.
func Over(p Place) *Store {
	v := p.Vault()
	return &Store{k: v.Records(), vault: v}
}

// fleetID is the id of the one fleet record of a store.
const fleetID = "fleet"

func agentKey(name string) tidemark.Key { return tidemark.Key{Kind: kindAgent, ID: name} }

func (s *Store) scheduleKey(agent, name string) tidemark.Key {
	return tidemark.Key{Kind: kindSchedule, ID: agent + "." + s.k.Hash("schedule", name)}
}

func jobKey(id string) tidemark.Key { return tidemark.Key{Kind: kindJob, ID: id} }

// Fleet returns the fleet record; the zero Fleet if there is none.
func (s *Store) Fleet(ctx context.Context) (tidemark.Fleet, error) {
	var f tidemark.Fleet
	_, err := s.k.Get(ctx, tidemark.Key{Kind: kindFleet, ID: fleetID}, &f)
	return f, err
}

// PutFleet writes the fleet record.
func (s *Store) PutFleet(ctx context.Context, f tidemark.Fleet) error {
	key := tidemark.Key{Kind: kindFleet, ID: fleetID}
	_, err := s.replace(ctx, key, func(version int64) (tidemark.Record, error) { return records.Put(key, version, f) })
	return err
}

// Refile returns a record of another store under the key that it has in this one.
// Only the keys of schedules differ: they contain hashes, which every sealed
// store makes differently.
func (s *Store) Refile(r tidemark.Record) (tidemark.Record, error) {
	if r.Kind != kindSchedule {
		return r, nil
	}
	var d tidemark.Schedule
	if err := records.Decode(r, &d); err != nil {
		return r, err
	}
	r.Key = s.scheduleKey(d.Agent, d.Name)
	r.Sum = r.Checksum()
	return r, nil
}

// replace puts a record unless its body is the same already, and reports whether
// it did.
func (s *Store) replace(ctx context.Context, key tidemark.Key, record func(version int64) (tidemark.Record, error)) (bool, error) {
	changed := false
	err := records.Retry(ctx, func() error {
		old, err := s.k.Backend().Get(ctx, key)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		r, err := record(old.Version)
		if err != nil {
			return err
		}
		if changed = !bytes.Equal(r.Body, old.Body); !changed {
			return nil
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
	return changed, err
}
