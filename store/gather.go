package store

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// This file reads what no index has: of a store with one the drafts and the lines
// that are not indexed yet, of any other everything.

// maxGathered bounds the places that are kept of what was read, and so the
// memory. What is behind the last of them is read again for a later answer.
const maxGathered = 4096

// gathered are the first places of an answer in what was read.
type gathered struct {
	places []place
	end    *place // there is more behind it
}

func (g *gathered) add(p place) {
	if g.end != nil && g.end.compare(p) < 0 {
		return
	}
	if g.places = append(g.places, p); len(g.places) == 2*maxGathered {
		g.settle()
	}
}

// settle puts the places in order, and drops those above the bound.
func (g *gathered) settle() {
	slices.SortFunc(g.places, place.compare)
	g.places = slices.Compact(g.places)
	if len(g.places) > maxGathered {
		g.places = g.places[:maxGathered]
		g.end = &place{}
		*g.end = g.places[maxGathered-1]
	}
}

// with yields the spots of a rank among those of an index, in order.
func (g *gathered) with(r rank, found iter.Seq2[spot, error]) iter.Seq2[spot, error] {
	var own []spot
	for _, p := range g.places {
		if p.rank == r {
			own = append(own, p.spot)
		}
	}
	return merge(found, func(yield func(spot, error) bool) {
		for _, s := range own {
			if !yield(s, nil) {
				return
			}
		}
	})
}

// progressLines is after how many lines Question.Progress is called again: a few
// milliseconds.
const progressLines = 1000

// gather reads lines of a log until a time is over, and keeps the places of those
// that match behind the cursor. It returns how many it did not read.
func (h *hunt) gather(ctx context.Context, owner string, log tidemark.Key, span tidemark.Span, within time.Duration) (left int64, err error) {
	stopped := h.late(within)
	if stopped {
		return span.To - span.From + 1, nil
	}
	read, err := h.open(ctx, owner, log, span, every, func(p place, _ Found) {
		if h.isBehind(p) {
			h.read.add(p)
		}
	}, func() bool {
		stopped = h.late(within)
		if h.passed++; h.q.Progress != nil && h.passed%progressLines == 0 {
			h.q.Progress(h.passed)
		}
		return stopped
	})
	if stopped {
		left = span.To - span.From + 1 - read
	}
	return left, err
}

// mayMeet reports whether a text, also one in JSON, may have a term of each group, by
// its bytes alone. In ASCII a word is written as it is, but for its case; where
// something else is in the text, nobody knows before it is decoded.
func mayMeet(text []byte, all [][]tidemark.Term) bool {
	low := make([]byte, len(text))
	for i, c := range text {
		switch {
		case c >= utf8.RuneSelf, c == '\\' && i+1 < len(text) && text[i+1] == 'u' && !isSign(text[i+2:]):
			return true
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		low[i] = c
	}
	for _, group := range all {
		if !slices.ContainsFunc(group, func(t tidemark.Term) bool { return !isPlain(t.Word) || bytes.Contains(low, []byte(t.Word)) }) {
			return false
		}
	}
	return true
}

// isSign reports whether an escape in JSON is that of a sign that encoders escape,
// and not of a letter.
func isSign(code []byte) bool {
	return bytes.HasPrefix(code, []byte("003c")) || bytes.HasPrefix(code, []byte("003e")) || bytes.HasPrefix(code, []byte("0026"))
}

// isPlain reports whether a word is one of ASCII letters and digits.
func isPlain(word string) bool {
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// begins reports whether a draft is all that there is of its log, so that the title
// of the session is found there.
func begins(r tidemark.Record) bool { return bytes.HasPrefix(r.Body, []byte(`{"after":0,`)) }

// draftMayHit reports whether there may be hits in a draft, without decoding it: there
// is one for each session that was left before its last answer.
func (h *hunt) draftMayHit(ctx context.Context, r tidemark.Record) (bool, error) {
	if mayMeet(r.Body, h.q.All) {
		return true, nil
	}
	id, worker := sessionOf(r.Key)
	if !begins(r) || worker != "" {
		return false, nil
	}
	s, err := h.s.of(r.Owner)
	if err != nil {
		return false, err
	}
	i, ok, err := h.info(ctx, s, r.Owner, id)
	return ok && mayMeet([]byte(i.Title), h.q.All), err
}

// gatherDrafts keeps the places of the hits in drafts: one that may have some is
// decoded, and opened if it has.
func (h *hunt) gatherDrafts(ctx context.Context) error {
	// By id, in which order they are read fastest.
	q := tidemark.Query{Kind: kindDraft, Each: true, Prefix: string(h.q.Session), Order: tidemark.ByID}
	for r, err := range h.s.backend.List(ctx, q) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // an import replaces it
		}
		if err != nil {
			return err
		}
		if h.late(h.q.Within / 2) {
			h.answer.Behind++
			continue
		}
		if may, err := h.draftMayHit(ctx, r); err != nil || !may {
			if err != nil {
				return err
			}
			continue
		}
		var d draft
		if records.Decode(r, &d) != nil || d.After > 0 && !slices.ContainsFunc(d.Entries, h.q.Match) {
			continue
		}
		if _, err := h.gather(ctx, r.Owner, r.Key, tidemark.Span{}, 0); err != nil {
			return err
		}
	}
	return nil
}

// gatherAll reads the sessions, the one that changed last first.
func (h *hunt) gatherAll(ctx context.Context) error {
	for i, err := range h.sessions(ctx) {
		if h.damaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		if h.late(h.q.Within) {
			h.answer.Stopped = true
			return nil
		}
		h.answer.Until = i.UpdatedAt
		of, err := h.s.of(i.Owner)
		if err != nil {
			return err
		}
		for log, err := range of.logsOf(ctx, i.ID) {
			if err != nil {
				return err
			}
			if _, err := h.gather(ctx, i.Owner, log, tidemark.Span{Backwards: true}, 0); err != nil {
				return err
			}
		}
	}
	h.answer.Until = time.Time{}
	return nil
}

// sessions yields those in which there may be hits: also ones in the trash whose
// entries a fork shares.
func (h *hunt) sessions(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if h.q.Session != "" {
			of, err := h.s.of(h.owner)
			if err != nil {
				yield(Info{}, err)
				return
			}
			if i, ok, err := h.info(ctx, of, h.owner, h.q.Session); ok || err != nil {
				yield(i, err)
			}
			return
		}
		states := []string{Live, Trash}
		if h.q.Trash {
			states = states[1:]
		}
		for _, state := range states {
			for i, err := range h.s.Sessions(ctx, Filter{Project: h.q.Project, Agent: h.q.Agent, State: state, Each: true}) {
				if err == nil {
					h.infos[i.Name()] = i
					var forks bool
					if forks, err = h.isForked(ctx, i); err == nil && !h.stateFits(i) && !forks {
						continue
					}
				}
				if !yield(i, err) {
					return
				}
			}
		}
	}
}

// isForked reports whether a session in another state than is asked for has forks.
func (h *hunt) isForked(ctx context.Context, i Info) (bool, error) {
	if h.stateFits(i) {
		return false, nil
	}
	of, err := h.s.of(i.Owner)
	if err != nil {
		return false, err
	}
	for _, err := range of.backend.List(ctx, tidemark.Query{Kind: kindFork, Prefix: string(i.ID) + ".", Order: tidemark.ByID, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// logsOf lists the logs of a session that can be searched.
func (s *Store) logsOf(ctx context.Context, id tidemark.SessionID) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for _, kind := range []string{kindNotes, kindSession, kindPast} {
			if !yield(keyOf(kind, id), nil) {
				return
			}
		}
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindWorker, Prefix: string(id) + ".", Order: tidemark.ByID}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				err = nil
			}
			if !yield(r.Key, err) || err != nil {
				return
			}
		}
	}
}
