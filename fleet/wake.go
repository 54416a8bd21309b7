package fleet

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Wake is when a session of a fleet's agent is to be continued, because the agent
// asked for that while it ran. It is a record of its own, with a MAC that only the
// fleet can make, since a checkpoint may come from anywhere.
type Wake struct {
	Session tidemark.SessionID `json:"session_id"`
	Agent   string             `json:"agent"`
	At      time.Time          `json:"at"`
	MAC     string             `json:"mac"`
	version int64
}

func wakeKey(id tidemark.SessionID) tidemark.Key {
	return tidemark.Key{Kind: records.KindWake, ID: string(id)}
}

// SignWake returns a wake with its MAC.
func (k Key) SignWake(w Wake) Wake {
	w.At = w.At.UTC().Truncate(time.Second)
	w.MAC = k.MAC(wakeText(w)...)
	return w
}

// SignedWake reports whether the fleet with this key made a wake.
func (k Key) SignedWake(w Wake) bool { return k.Verify(w.MAC, wakeText(w)...) }

func wakeText(w Wake) []string {
	return []string{"tidemark wake 1", string(w.Session), w.Agent, w.At.UTC().Format(time.RFC3339Nano)}
}

// PutWake sets when a session is to be woken, replacing any earlier wake of it.
func (s *Store) PutWake(ctx context.Context, w Wake) error {
	key := wakeKey(w.Session)
	return records.Retry(ctx, func() error {
		old, err := s.k.Get(ctx, key, &Wake{})
		if err != nil && !(errors.Is(err, tidemark.ErrCorrupt) && old.Version > 0) {
			return err
		}
		r, err := records.Put(key, old.Version, w)
		if err != nil {
			return err
		}
		r.Group, r.Due = w.Agent, records.Keepable(w.At)
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
}

// DueWakes lists the wakes that are due, the longest overdue first. It does not
// check their MACs: use Key.SignedWake.
func (s *Store) DueWakes(ctx context.Context, now time.Time) ([]Wake, error) {
	var due []Wake
	for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: records.KindWake, DueBy: records.Keepable(now), Order: tidemark.ByDue}) {
		var w Wake
		if err == nil {
			err = records.Decode(r, &w)
		}
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return due, err
		}
		if id, _, _ := strings.Cut(r.ID, "."); id != string(w.Session) {
			continue // a wake under the key of another session
		}
		w.version = r.Version
		due = append(due, w)
	}
	return due, nil
}

// TakeWake turns a wake that DueWakes returned into a job, in one commit:
// ErrConflict when another process did. With an empty job it only removes the wake.
func (s *Store) TakeWake(ctx context.Context, w Wake, j tidemark.Job) (tidemark.Job, error) {
	b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: wakeKey(w.Session), Version: w.version}}}
	var err error
	if j.Agent != "" {
		if j, b.Puts, err = s.newJob(j); err != nil {
			return j, err
		}
	}
	_, err = s.k.Commit(ctx, b)
	return j, err
}
