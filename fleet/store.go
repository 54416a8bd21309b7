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
	kindSchedule = "schedule" // record: AGENT.HASH; log: what of it did not run
	kindReview   = "review"   // record: JOB.HASH, grouped by its job: a call that waits for an answer
	kindLane     = "lane"     // record: AGENT.LANE, or -.LANE for the fleet, grouped by whose it is: the job that runs in it
	kindSlots    = "slots"    // record: AGENT, or - for the fleet: the jobs that an earlier program runs
	kindJob      = "job"      // record: one run; log: its output
)

// Store keeps what belongs to a fleet: its agents, when each is due, the jobs
// that run or ran with what they put out, what waits for a person's answer, and
// which processes run the fleet. It holds no state of its own but what the
// Backend keeps, so any number of daemons, on any number of machines, may work on
// one place. Its methods may be called concurrently.
type Store struct {
	k     *records.Kernel
	vault *vault.Vault
}

// Place is where the records of a fleet are kept. A *store.Store is one: the
// fleet goes by its clock and its leases, and secrets are masked as they are in
// sessions.
type Place interface {
	Vault() *vault.Vault
}

// Over returns the Store of the fleet in a place. It costs nothing, and is not
// to be closed: whoever opened the place closes that.
func Over(p Place) *Store {
	v := p.Vault()
	return &Store{k: v.Records(), vault: v}
}

// fleetID is the id of the record of the fleet: a store has one.
const fleetID = "fleet"

func agentKey(name string) tidemark.Key { return tidemark.Key{Kind: kindAgent, ID: name} }

func (s *Store) scheduleKey(agent, name string) tidemark.Key {
	return tidemark.Key{Kind: kindSchedule, ID: agent + "." + s.k.Hash("schedule", name)}
}

func jobKey(id string) tidemark.Key { return tidemark.Key{Kind: kindJob, ID: id} }

// Fleet returns what is known of the fleet; the zero Fleet when nothing is.
func (s *Store) Fleet(ctx context.Context) (tidemark.Fleet, error) {
	var f tidemark.Fleet
	_, err := s.k.Get(ctx, tidemark.Key{Kind: kindFleet, ID: fleetID}, &f)
	return f, err
}

// PutFleet keeps what is known of the fleet.
func (s *Store) PutFleet(ctx context.Context, f tidemark.Fleet) error {
	key := tidemark.Key{Kind: kindFleet, ID: fleetID}
	_, err := s.replace(ctx, key, func(version int64) (tidemark.Record, error) { return records.Put(key, version, f) })
	return err
}

// Refile returns a record of another store as this one would file it: schedules
// are found by hashes, which are a sealed store's own. It returns other records
// as they are.
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

// replace puts a record, unless it says the same already.
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
