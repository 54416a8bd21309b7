package sync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// Who is let in to a remote has a slot in its keyring: a machine under its id, a code
// until it is used, an age recipient under its own name, a recovery key on paper.

// pairLabel begins the label of the slot of a code, before the time when it ends.
const pairLabel = "pair until "

// letIn lets a slot into a keyring that a code opens. The code is used up.
func letIn(ctx context.Context, body []byte, code string, slot seal.NewSlot) (*seal.Ring, error) {
	u, err := seal.KeyFile([]byte(code))
	if err != nil {
		return nil, hint.With(err, "give the words that tidemark remote pair printed, and nothing else, or an age identity")
	}
	ring, err := seal.OpenRing(ctx, body, u)
	if errors.Is(err, tidemark.ErrSealed) {
		return nil, hint.With(tidemark.Errorf(tidemark.ErrSealed, "what was given does not open it: a code lets one machine in, once, while it is good"),
			"on a machine that is in, get another one: tidemark remote pair")
	}
	if err != nil {
		return nil, err
	}
	if ring, err = ring.Add(slot); err != nil {
		return nil, err
	}
	for _, s := range ring.Header().Slots {
		until, is := strings.CutPrefix(s.Label, pairLabel)
		if !is || !s.Opened {
			continue
		}
		if at, err := time.Parse(time.RFC3339, until); err != nil || time.Now().After(at) {
			return nil, hint.With(tidemark.Errorf(tidemark.ErrSealed, "the code ended at %s", until), "make another one: tidemark remote pair")
		}
		if ring, err = ring.Remove(s.ID); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// ringName is the name of a version of the keyring.
func ringName(version int64) string { return fmt.Sprintf("ring/%010d", version) }

// newestRing returns the newest keyring of a place, version 0 when there is none.
func newestRing(ctx context.Context, blobs remote.Blobs) (version int64, body []byte, err error) {
	for name, err := range blobs.List(ctx, "ring/") {
		if err != nil {
			return 0, nil, err
		}
		var n int64
		if _, err := fmt.Sscanf(name, "ring/%d", &n); err == nil && ringName(n) == name {
			version = max(version, n)
		}
	}
	if version == 0 {
		return 0, nil, nil
	}
	body, err = blobs.Get(ctx, ringName(version))
	return version, body, err
}

func putRing(ctx context.Context, blobs remote.Blobs, version int64, ring *seal.Ring) error {
	body, err := ring.Encode()
	if err != nil {
		return err
	}
	err = blobs.PutNew(ctx, ringName(version), body)
	if errors.Is(err, tidemark.ErrExists) {
		err = tidemark.Conflictf("another machine changed the keyring of the remote at the same moment; try again")
	}
	return err
}

// Pair returns a code that lets one machine in, once, until a time.
func (r *Remotes) Pair(ctx context.Context, name string, until time.Time) (code string, err error) {
	err = r.changeRing(ctx, name, func(_ *settings, ring *seal.Ring) (*seal.Ring, error) {
		text, slot, err := seal.NewWords(pairLabel + until.UTC().Format(time.RFC3339))
		if err != nil {
			return nil, err
		}
		code = text
		return ring.Add(slot)
	})
	return code, err
}

// LetIn lets whoever has the identity of an age recipient add the remote, any number of
// times, until Forget.
func (r *Remotes) LetIn(ctx context.Context, name, recipient string) error {
	slot, err := seal.AgeSlot(recipient, recipient)
	if err != nil {
		return err
	}
	return r.changeRing(ctx, name, func(_ *settings, ring *seal.Ring) (*seal.Ring, error) { return ring.Add(slot) })
}

// Recovery returns a key for paper, which lets a machine in when all others are lost.
func (r *Remotes) Recovery(ctx context.Context, name string) (key string, err error) {
	key, slot, err := seal.NewRecovery()
	if err != nil {
		return "", err
	}
	return key, r.changeRing(ctx, name, func(_ *settings, ring *seal.Ring) (*seal.Ring, error) { return ring.Add(slot) })
}

// Forget lets a machine out, an age recipient or the recovery key: it cannot open what
// is written from then on. What it wrote stays, and what it has read it has. ErrNotFound.
func (r *Remotes) Forget(ctx context.Context, name, machine string) error {
	return r.changeRing(ctx, name, func(c *settings, ring *seal.Ring) (*seal.Ring, error) {
		var found []seal.Slot
		for _, s := range ring.Header().Slots {
			p := c.Peers[s.Label]
			if !strings.HasPrefix(s.Label, pairLabel) && (p != nil && p.Name == machine || len(machine) >= 4 && strings.HasPrefix(s.Label, machine)) {
				found = append(found, s)
			}
		}
		switch {
		case len(found) == 0:
			return nil, hint.With(tidemark.NotFoundf("no machine %.40q is let in", machine), "see which there are: tidemark remote ls")
		case len(found) > 1:
			return nil, tidemark.Invalidf("%q is %d machines; name one by its id", machine, len(found))
		case found[0].Opened:
			return nil, hint.With(tidemark.Invalidf("%q is this machine", machine), "to leave the remote: tidemark remote rm; another machine lets this one out")
		}
		ring, err := ring.Remove(found[0].ID)
		if err != nil {
			return nil, err
		}
		return ring.NewKey()
	})
}

// changeRing replaces the keyring of a remote.
func (r *Remotes) changeRing(ctx context.Context, name string, change func(*settings, *seal.Ring) (*seal.Ring, error)) error {
	c, err := r.load(ctx, name)
	if err != nil {
		return err
	}
	blobs, err := remote.Open(ctx, c.URL, r.places)
	if err != nil {
		return c.named(err)
	}
	blobs = c.naming(blobs)
	defer blobs.Close()
	ring, err := c.openRing(ctx, blobs)
	if err != nil {
		return err
	}
	if ring, err = dropExpired(ring); err != nil {
		return err
	}
	if ring, err = change(c, ring); err != nil {
		return err
	}
	if err := putRing(ctx, blobs, c.Ring+1, ring); err != nil {
		return err
	}
	c.Ring++
	return r.save(ctx, c)
}

// dropExpired takes out the slots of codes that nobody used in time.
func dropExpired(ring *seal.Ring) (*seal.Ring, error) {
	for _, s := range ring.Header().Slots {
		until, is := strings.CutPrefix(s.Label, pairLabel)
		if at, err := time.Parse(time.RFC3339, until); !is || err == nil && time.Now().Before(at) {
			continue
		}
		var err error
		if ring, err = ring.Remove(s.ID); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// openRing opens the newest keyring of a remote, and notes its version.
func (c *settings) openRing(ctx context.Context, blobs remote.Blobs) (*seal.Ring, error) {
	version, body, err := newestRing(ctx, blobs)
	switch {
	case err != nil:
		return nil, err
	case version == 0:
		return nil, hint.With(tidemark.NotFoundf("%s holds no remote any more", c.URL), "is the right disk there? To begin anew: tidemark remote rm %s, then add it again", c.Name)
	case version < c.Ring:
		return nil, tidemark.Errorf(tidemark.ErrCorrupt, "%s shows an older state than this machine has seen: keyring %d, not %d", c.URL, version, c.Ring)
	}
	u, err := seal.KeyFile([]byte(c.Identity))
	if err != nil {
		return nil, err
	}
	ring, err := seal.OpenRing(ctx, body, u)
	if errors.Is(err, tidemark.ErrSealed) {
		return nil, hint.With(tidemark.Errorf(tidemark.ErrSealed, "%s: this machine was let out of the remote", c.URL), "to be let in again: tidemark remote rm %s, then add it with a code of tidemark remote pair", c.Name)
	}
	if err != nil {
		return nil, err
	}
	if ring.Header().Store != c.Store {
		return nil, tidemark.Errorf(tidemark.ErrCorrupt, "%s is another remote than the one that was added as %s", c.URL, c.Name)
	}
	c.Ring = version
	return ring, nil
}
