package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark/store"
)

// sealing measures what encryption adds to an append and to a tail.
func (r *run) sealing(ctx context.Context) error {
	for _, backend := range durable {
		if err := r.sealingIn(ctx, backend); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) sealingIn(ctx context.Context, backend string) error {
	names := []string{backend, sealed + backend}
	var appends, tails []func() error
	var writers []*store.Writer
	for _, name := range names {
		p, err := r.open(ctx, name, "seal")
		if err != nil {
			return err
		}
		defer p.leave()
		if p.session, err = p.converse(ctx, r.size.peer); err != nil {
			return err
		}
		all, err := p.writers(ctx, 1)
		if err != nil {
			return err
		}
		writers = append(writers, all[0])
		seq := int64(1)
		appends = append(appends, func() error {
			seq++
			_, err := all[0].Append(ctx, say(seq))
			return err
		})
		tails = append(tails, func() error { return p.tail(ctx) })
	}
	renew := func() error { return errors.Join(writers[0].Renew(ctx), writers[1].Renew(ctx)) }
	r.say("append and tail, plain and sealed, in %s", backend)
	appended, err := r.inTurns(ctx, r.size.appends, renew, names, appends...)
	if err != nil {
		return err
	}
	tailed, err := r.inTurns(ctx, r.size.tails, renew, names, tails...)
	if err != nil {
		return err
	}
	r.sealed(appended, tailed, backend)
	return nil
}

// sealed adds the rows. Of single appends the median counts: now and then a
// sync takes a hundred times as long, whoever's turn it is.
func (r *run) sealed(appended, tailed samples, backend string) {
	of := fmt.Sprintf("tail of %d of %s: ", shown, short(r.size.peer))
	name := sealed + backend
	r.table.add(row{what: "append, 1 writer: " + backend, time: appended.of(backend, p50)})
	r.table.add(row{goal: "P1", what: "append, 1 writer: " + name, time: appended.of(name, p50), against: "the same in a plain store",
		ratio: appended.ratioOf(name, backend, p50), fine: true, want: want{ratioAtMost: 1.08}})
	r.table.add(row{what: of + backend, time: tailed.time(backend)})
	r.table.add(row{goal: "P3", what: of + name, time: tailed.time(name), against: "the same in a plain store",
		ratio: tailed.ratio(name, backend), fine: true, want: want{ratioAtMost: 1.6}})
}
