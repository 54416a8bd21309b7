package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// What the index of an entry of 30 words may cost in PostgreSQL.
const (
	indexedWords   = 30
	indexBytes     = 1000
	indexAhead     = 1500 // bytes of the write-ahead log
	indexRate      = 10_000
	indexedQueries = 5e6 // nanoseconds, p95 at a million entries
)

// teamIndexes measures what the index costs PostgreSQL: entries that come ten at a
// time, as people and agents write them, and then many at once, in which is searched.
func (r *run) teamIndexes(ctx context.Context, t *teamPlace) error {
	users, db, err := t.users(ctx, 2, "indexed")
	if err != nil {
		return err
	}
	defer db.Close()
	super, err := pgx.Connect(ctx, t.db.Super)
	if err != nil {
		return err
	}
	defer super.Close(ctx)
	for i, one := range []struct{ entries, flush int }{{t.flushed, 10}, {t.indexed, 2000}} {
		r.say("index %s entries in PostgreSQL, %d at a time", short(one.entries), one.flush)
		cost, err := users[i].indexed(ctx, super, one.entries, one.flush)
		if err != nil {
			return err
		}
		r.teamIndexed(cost, one.entries, one.flush)
	}
	return r.teamSearches(ctx, t, users[1])
}

// indexCost is what it took to index entries.
type indexCost struct {
	ahead, kept float64 // bytes for each entry
	took        time.Duration
}

// indexed writes entries, so many at a time, and indexes each lot, merges included.
func (p *place) indexed(ctx context.Context, super *pgx.Conn, entries, flush int) (c indexCost, err error) {
	ask := func(sql string, args ...any) (n int64) {
		if err == nil {
			err = super.QueryRow(ctx, sql, args...).Scan(&n)
		}
		return n
	}
	const (
		written = `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`
		kept    = `select coalesce(sum(pg_column_size(n.*) + 28), 0)::bigint from tidemark.line n join tidemark.log l using (tenant, owner, log) where l.kind = 'segment'`
	)
	words := newSpeaker()
	before, ahead := ask(kept), int64(0)
	w := p.Create(tidemark.Session{Title: "entries of thirty words"}, p.who)
	for n := 0; n < entries && err == nil; n += flush {
		said := make([]tidemark.Entry, min(flush, entries-n))
		for i := range said {
			said[i] = tidemark.Say(tidemark.User, words.say(indexedWords))
		}
		if _, err := w.Append(ctx, said...); err != nil {
			return c, err
		}
		from, began := ask(written), time.Now()
		if _, err := p.CatchUp(ctx, nil); err != nil {
			return c, err
		}
		c.took += time.Since(began)
		ahead += ask(written) - from
	}
	c.ahead, c.kept = float64(ahead)/float64(entries), float64(ask(kept)-before)/float64(entries)
	if err != nil {
		return c, err
	}
	return c, w.Close(ctx)
}

// speaker says words of which a few are everywhere and most are rare.
type speaker struct{ words *rand.Zipf }

func newSpeaker() speaker {
	return speaker{rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 60_000)}
}

func (s speaker) word() string { return fmt.Sprintf("w%dx", s.words.Uint64()) }

func (s speaker) say(n int) string {
	text := make([]string, n)
	for i := range text {
		text[i] = s.word()
	}
	return strings.Join(text, " ")
}

func (r *run) teamIndexed(c indexCost, entries, flush int) {
	work := fmt.Sprintf("index of %s entries of %d words, %d at a time: ", short(entries), indexedWords, flush)
	bytes := func(what string, n, most float64) {
		met := n <= most
		r.table.add(row{goal: "P19", what: work + what, value: fmt.Sprintf("%s B an entry", number(n)), want: want{met: &met, text: fmt.Sprintf("≤ %s B", group(int64(most)))}})
	}
	bytes("kept", c.kept, indexBytes)
	bytes("written ahead", c.ahead, indexAhead)
	if flush < 1000 {
		return
	}
	speed := float64(entries) / c.took.Seconds()
	met := speed >= indexRate
	r.table.add(row{goal: "P19", what: work + "speed", value: group(int64(rounded(speed))) + " a second", want: want{met: &met, text: fmt.Sprintf("≥ %s a second", group(indexRate))}})
}

// teamSearches asks for words that a few and that many entries have.
func (r *run) teamSearches(ctx context.Context, t *teamPlace, p *place) error {
	r.say("search in %s entries in PostgreSQL", short(t.indexed))
	words := newSpeaker()
	one := contender{"a word", oneByOne(t.tails, func() error { return p.finds(ctx, words.word()) })}
	two := contender{"two words", oneByOne(t.tails, func() error { return p.finds(ctx, words.say(2)) })}
	s, err := r.compareTimes(ctx, t.reps, one, two)
	if err != nil {
		return err
	}
	most := want{}
	if t.indexed >= goalEntries {
		most.timeAtMost = indexedQueries
	}
	for _, c := range []contender{one, two} {
		r.table.add(row{goal: "P19", what: fmt.Sprintf("search %s in %s entries: %s, p95", c.name, short(t.indexed), inPostgres), time: s.of(c.name, p95),
			against: "p50, " + duration(s.of(c.name, p50).median), ratio: s.of(c.name, func(one sample) float64 { return one.p95 / one.p50 }), want: most})
	}
	return nil
}

// finds asks for words; an answer that is cut or read without the index is an error.
func (p *place) finds(ctx context.Context, text string) error {
	query, err := search.Parse(text)
	if err != nil {
		return err
	}
	answer, err := p.Search(ctx, store.Question{}.About(query))
	if err == nil && (answer.Stopped || answer.Scanned || answer.Behind > 0) {
		err = fmt.Errorf("%s: not by the whole index", text)
	}
	return err
}
