package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Handover is what another tool was given of a session: a session of its own, up
// to an entry here. It is kept before the tool can see the files. What the tool
// adds to them comes back under the same foreign id, and the Handover says which
// of its entries are from here.
type Handover struct {
	Session   tidemark.SessionID
	Tool      string
	ForeignID string // of the tool's session
	Tip       int64  // the seq of the entry up to which it was given
	At        time.Time

	entries map[idSum]int64
}

// idSum stands for the tool's id of an entry, so that the record of a session of a
// million entries is small enough to be one.
type idSum [12]byte

func idSumOf(worker, id string) idSum {
	sum := sha256.Sum256([]byte(worker + "\x00" + id))
	return idSum(sum[:12])
}

// Add notes that an entry of the tool's session, or of a worker in it, stands for
// the entry seq here; 0 for one that stands for none.
func (h *Handover) Add(worker, id string, seq int64) {
	if h.entries == nil {
		h.entries = make(map[idSum]int64)
	}
	h.entries[idSumOf(worker, id)] = seq
}

// Seq returns the entry here that one of the tool's session stands for; ok says
// whether that one is from here.
func (h *Handover) Seq(worker, id string) (seq int64, ok bool) {
	if h == nil {
		return 0, false
	}
	seq, ok = h.entries[idSumOf(worker, id)]
	return seq, ok
}

// Len is how many entries of the tool's session are from here.
func (h *Handover) Len() int { return len(h.entries) }

// handoverRecord is a Handover as it is kept: the sums one behind the other, and
// the seq of each.
type handoverRecord struct {
	Tool      string    `json:"tool"`
	ForeignID string    `json:"foreign_id"`
	Tip       int64     `json:"tip"`
	At        time.Time `json:"at"`
	Sums      []byte    `json:"sums,omitempty"`
	Seqs      []int64   `json:"seqs,omitempty"`
}

func (s *Store) handoverGroup(tool, foreign string) string {
	return s.k.Hash("handover", tool, foreign)
}

func (s *Store) handoverKey(id tidemark.SessionID, tool, foreign string) tidemark.Key {
	return keyOf(kindHandover, id, s.handoverGroup(tool, foreign))
}

// HandOver keeps a Handover, in place of an earlier one of the same tool and
// foreign id. ErrNotFound: there is no such session. It needs no lease.
func (s *Store) HandOver(ctx context.Context, h Handover) error {
	kept := handoverRecord{Tool: h.Tool, ForeignID: h.ForeignID, Tip: h.Tip, At: s.k.Clock()}
	for sum, seq := range h.entries {
		kept.Sums, kept.Seqs = append(kept.Sums, sum[:]...), append(kept.Seqs, seq)
	}
	return s.update(ctx, h.Session, func(i *Info, b *tidemark.Batch) error {
		i.Handed = true
		old, err := s.k.Get(ctx, s.handoverKey(h.Session, h.Tool, h.ForeignID), &handoverRecord{})
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		r, err := records.Put(old.Key, old.Version, kept)
		if err != nil {
			return err
		}
		r.Group = s.handoverGroup(h.Tool, h.ForeignID)
		b.Puts = append(b.Puts, r)
		return nil
	})
}

// HandedOver returns the Handover that a tool's session came from: ErrNotFound.
// One that is damaged is ErrCorrupt: what is from here is not known any more.
func (s *Store) HandedOver(ctx context.Context, tool, foreign string) (*Handover, error) {
	for h, err := range s.handovers(ctx, tidemark.Query{Group: s.handoverGroup(tool, foreign)}) {
		return h, err
	}
	return nil, tidemark.NotFoundf("no session was handed over to %s as %s", tool, foreign)
}

// Handovers yields what other tools were given of a session.
func (s *Store) Handovers(ctx context.Context, id tidemark.SessionID) iter.Seq2[*Handover, error] {
	return s.handovers(ctx, tidemark.Query{Prefix: string(id) + "."})
}

func (s *Store) handovers(ctx context.Context, q tidemark.Query) iter.Seq2[*Handover, error] {
	q.Kind, q.Order = kindHandover, tidemark.ByID
	return func(yield func(*Handover, error) bool) {
		for r, err := range s.backend.List(ctx, q) {
			if err == nil && r.Owner != "" {
				continue // a session of somebody else cannot be continued
			}
			h := &Handover{}
			if err == nil {
				err = h.read(r)
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// addHandedTombstones adds to the batch that purges a session the tombstones of
// what other tools were given of it: their files hold all of it.
func (s *Store) addHandedTombstones(ctx context.Context, b *tidemark.Batch, sess tidemark.Session) error {
	for h, err := range s.Handovers(ctx, sess.ID) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err == nil && (h.Tool != sess.Tool || h.ForeignID != sess.ForeignID) {
			err = s.addTombstone(ctx, b, purgedName(tidemark.Session{Tool: h.Tool, ForeignID: h.ForeignID}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads the record of a Handover.
func (h *Handover) read(r tidemark.Record) error {
	var kept handoverRecord
	if err := records.Decode(r, &kept); err != nil {
		return err
	}
	if len(kept.Sums) != len(kept.Seqs)*len(idSum{}) {
		return &tidemark.Damage{Key: r.Key, What: "has not as many entries as ids"}
	}
	id, _ := sessionOf(r.Key)
	*h = Handover{Session: id, Tool: kept.Tool, ForeignID: kept.ForeignID, Tip: kept.Tip, At: kept.At, entries: make(map[idSum]int64, len(kept.Seqs))}
	for n, seq := range kept.Seqs {
		h.entries[idSum(kept.Sums[n*len(idSum{}):])] = seq
	}
	return nil
}

// refileHandover is Refile for a Handover.
func (s *Store) refileHandover(r tidemark.Record) (tidemark.Record, error) {
	var kept handoverRecord
	if err := records.Decode(r, &kept); err != nil {
		return r, err
	}
	id, _ := sessionOf(r.Key)
	r.Key, r.Group = s.handoverKey(id, kept.Tool, kept.ForeignID), s.handoverGroup(kept.Tool, kept.ForeignID)
	return r, nil
}
