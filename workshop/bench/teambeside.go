package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	byThemselves = "by themselves"
	besideBulk   = "beside another's bulk import and its index"
)

// What a person may wait for an append while somebody else imports.
const (
	besideRatio = 3
	besideTime  = 10e6 // nanoseconds
)

// users returns a store for each of several users of the team, over connections
// that they share; the caller closes them.
func (t *teamPlace) users(ctx context.Context, n int, name string) ([]*place, *postgres.Database, error) {
	db, err := postgres.Connect(ctx, t.db.Server, nil)
	if err != nil {
		return nil, nil, err
	}
	all := make([]*place, n)
	for i := range all {
		b := db.For(tidemark.TenantOf("bench", fmt.Sprint(name, i)))
		all[i] = &place{Store: store.New(b, &store.Options{Places: search.EachWord}), backend: inPostgres, who: process.Self("bench")}
	}
	return all, db, nil
}

// teamBeside measures what one user waits for an append while another one
// imports in bulk, through a process of its own, and that is indexed.
func (r *run) teamBeside(ctx context.Context, t *teamPlace) error {
	r.say("append through PostgreSQL beside an import")
	persons, db, err := t.users(ctx, 1, "person")
	if err != nil {
		return err
	}
	defer db.Close()
	own, err := persons[0].writers(ctx, 1)
	if err != nil {
		return err
	}
	defer closeAll(ctx, own)
	importers, bulk, err := t.users(ctx, 1, "importer")
	if err != nil {
		return err
	}
	defer bulk.Close()
	return r.besideImport(ctx, "append by one user", t.teamed, own, importers[0])
}

// localBeside measures the same in a file that both have open.
func (r *run) localBeside(ctx context.Context) error {
	r.say("append through SQLite beside an import")
	person, err := r.open(ctx, inSQLite, "beside")
	if err != nil {
		return err
	}
	defer person.leave()
	importer, err := r.open(ctx, inSQLite, "beside")
	if err != nil {
		return err
	}
	defer importer.close()
	own, err := person.writers(ctx, 1)
	if err != nil {
		return err
	}
	return r.besideImport(ctx, "append: "+inSQLite, r.size.teamed(), own, importer)
}

// besideImport measures appends by themselves and while somebody else imports.
func (r *run) besideImport(ctx context.Context, what string, t teamed, own []*store.Writer, importer *place) error {
	alone := appendContender(ctx, own, t.appends)
	s, err := r.compareTimes(ctx, t.reps, contender{byThemselves, alone}, contender{besideBulk, func() (sample, error) {
		end := importer.importOn(ctx, t.imported)
		one, err := alone()
		return one, errors.Join(err, end())
	}})
	if err != nil {
		return err
	}
	p99 := func(one sample) float64 { return one.p99 }
	beside := s.ratioOf(besideBulk, byThemselves, p99)
	met := rounded(beside.median) <= besideRatio || s.of(besideBulk, p99).median <= besideTime
	r.table.add(row{what: what + ", p99: " + byThemselves, time: s.of(byThemselves, p99)})
	r.table.add(row{goal: "P17", what: what + ", p99: " + besideBulk, time: s.of(besideBulk, p99), against: byThemselves, ratio: beside,
		want: want{met: &met, text: fmt.Sprintf("≤ %d× or %s", besideRatio, duration(besideTime))}})
	return nil
}

// importedAtOnce is how many sessions an import writes at the same time.
const importedAtOnce = 4

// importOn writes sessions of n entries, one after the other, and indexes them,
// until end is called.
func (p *place) importOn(ctx context.Context, n int) (end func() error) {
	indexing, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	errs := make([]error, importedAtOnce+1)
	for i := range importedAtOnce {
		wait.Go(func() {
			for indexing.Err() == nil && errs[i] == nil {
				_, errs[i] = p.converse(ctx, n)
			}
		})
	}
	wait.Go(func() { errs[importedAtOnce] = p.KeepIndexed(indexing) })
	return func() error {
		stop()
		wait.Wait()
		return errors.Join(errs...)
	}
}
