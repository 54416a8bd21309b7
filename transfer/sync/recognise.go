package sync

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// recognise finds out which lines that have no name here have one at the remote. A
// store that was restored from a backup has lines that had not been pushed when the
// backup was made, and were pushed after that, under the id that it had then: under
// another name each would be there twice. Who never was at the remote may be such a
// store, too.
func (y *syncer) recognise(ctx context.Context, heads map[string]*head) error {
	for _, machine := range slices.Sorted(maps.Keys(heads)) {
		for _, n := range slices.Sorted(maps.Keys(heads[machine].Shards)) {
			list, err := y.getShard(ctx, machine, n, heads[machine].Shards[n])
			if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
				return err
			}
			if err != nil {
				continue // the pull finds out, and says so
			}
			for _, k := range list.Sessions {
				if err := y.recogniseSession(ctx, machine, k); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (y *syncer) recogniseSession(ctx context.Context, machine string, k *kept) error {
	i, err := y.s.Session(ctx, k.ID)
	if isAbsent(err) || k.Purged {
		return nil
	}
	if err != nil {
		return err
	}
	main, err := y.s.ViewOf(i)
	if err != nil {
		return err
	}
	for j := range k.Logs {
		l := &k.Logs[j]
		view, offset := main, offsetOf(i.Base)
		switch l.Worker {
		case "":
		case pastLog:
			continue
		default:
			offset = 0
			if view, err = main.Worker(ctx, l.Worker); isAbsent(err) {
				continue
			} else if err != nil {
				return err
			}
		}
		err := y.recogniseLog(ctx, view.Unmasked(), offset, &stream{y: y, machine: machine, kept: k, log: l})
		if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
			return err
		}
		// Else the pull finds out, and says so.
	}
	return nil
}

// recogniseLog names the lines of a log from the first that has no name on, while the
// machine has the same ones in the same places: at the same moment, with the same
// content.
func (y *syncer) recogniseLog(ctx context.Context, view *store.View, offset int64, s *stream) error {
	o, err := loadOrigins(ctx, y.k, s.kept.ID, s.log.Worker)
	if err != nil {
		return err
	}
	first, end := o.nextUnnamed(1, view.Entries-offset)
	if s.next = first; first == end || first > s.log.to() {
		return nil
	}
	for e, err := range view.LogRange(ctx, first+offset, end-1+offset) {
		if err != nil {
			return err
		}
		it, err := s.peek(ctx)
		if err != nil {
			return err
		}
		have, err := e.Line()
		if err != nil {
			return err
		}
		if it == nil || it.Line == nil || it.Line.Kind != have.Kind || it.Line.Key != have.Key || !it.Line.At.Equal(have.At) || !bytes.Equal(it.Line.Body, have.Body) {
			break
		}
		o.cameAs(s, it.Line, e.Seq-offset, y.c.Store)
		s.next++
	}
	return o.save(ctx, y.k)
}

// cameAs notes that a line here is the next one of a stream of a remote.
func (o *origins) cameAs(s *stream, in *line, local int64, remote string) {
	o.add(run{Local: local, Count: 1, Machine: s.machine, Line: s.next, Born: in.Born == nil, Via: remote})
	if in.Born != nil {
		o.add(run{Local: local, Count: 1, Machine: in.Born.Machine, Line: in.Born.Line, Born: true})
	}
}
