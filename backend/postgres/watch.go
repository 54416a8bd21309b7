package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// A waiter checks again after pollEvery, and after pollHinted where hints
// arrive: a hint can be lost, with the process that was about to send it.
const (
	pollEvery  = time.Second
	pollHinted = 4 * time.Second
)

// hintEvery is how long changes are collected before they are sent. A NOTIFY
// locks out every other one of the database, so it is never part of a commit,
// and there are few.
const hintEvery = 10 * time.Millisecond

// channel is what hints are sent on. Every role can listen; a hint is a hash and
// reveals nothing to a listener that does not know the name of the log.
const channel = "tidemark"

// hint stands for a log.
type hint [12]byte

func hintOf(who who, k tidemark.Key) (h hint) {
	sum := sha256.New()
	sum.Write(who.tenant[:])
	sum.Write([]byte(k.String()))
	copy(h[:], sum.Sum(nil))
	return h
}

// hints tells other processes which logs grew, and wakes waiters here when
// others tell.
type hints struct {
	db     *Database
	config *pgx.ConnConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	waiting   map[hint]map[chan struct{}]bool
	told      map[owned]bool // logs that grew, not yet sent
	telling   bool
	listening bool // the listening goroutine runs
	heard     bool // and it receives
	stopped   bool
}

func (h *hints) start(db *Database, config *pgx.ConnConfig) {
	h.db, h.config = db, config.Copy()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.waiting, h.told = make(map[hint]map[chan struct{}]bool), make(map[owned]bool)
}

func (h *hints) stop() {
	h.mu.Lock()
	h.stopped = true
	h.wakeAll()
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
}

// grew is called when a batch is durable.
func (h *hints) grew(who who, b *tidemark.Batch) {
	if len(b.Appends) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.Appends {
		log := b.Appends[i].Log
		if len(h.waiting) > 0 {
			h.wake(hintOf(who, log))
		}
		h.told[owned{who, log}] = true
	}
	if !h.telling && !h.stopped {
		h.telling = true
		h.wg.Go(h.tell)
	}
}

// wakeAll and wake wake the waiters; the lock is held.
func (h *hints) wakeAll() {
	for one := range h.waiting {
		h.wake(one)
	}
}

func (h *hints) wake(one hint) {
	for c := range h.waiting[one] {
		close(c)
	}
	delete(h.waiting, one)
}

// hintsAtOnce keeps a message under the 8,000 bytes that PostgreSQL allows.
const hintsAtOnce = 250

// tell sends what was collected, until nothing is left.
func (h *hints) tell() {
	for {
		select {
		case <-time.After(hintEvery):
		case <-h.ctx.Done():
		}
		h.mu.Lock()
		var text strings.Builder
		n := 0
		for log := range h.told {
			if n++; n > hintsAtOnce {
				break
			}
			hint := hintOf(log.who, log.key)
			text.WriteString(hex.EncodeToString(hint[:]))
			delete(h.told, log)
		}
		if n == 0 || h.ctx.Err() != nil {
			h.telling = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(h.ctx, pollEvery)
		// It is only a hint: nobody waits for its sync, and waiters also poll.
		h.db.pool.Exec(ctx, `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, channel, text.String())
		cancel()
	}
}

// listen receives hints on a connection of its own, as long as the database is
// open. Behind a pooler there is no such connection.
func (h *hints) listen() {
	for h.ctx.Err() == nil {
		h.hear()
		h.mu.Lock()
		h.heard = false
		h.mu.Unlock()
		select {
		case <-time.After(pollEvery):
		case <-h.ctx.Done():
		}
	}
}

func (h *hints) hear() {
	c, err := pgx.ConnectConfig(h.ctx, h.config)
	if err != nil {
		return
	}
	defer c.Close(context.WithoutCancel(h.ctx))
	if _, err := c.Exec(h.ctx, "listen "+channel); err != nil {
		return
	}
	h.mu.Lock()
	h.heard = true
	h.wakeAll() // hints sent before are lost
	h.mu.Unlock()
	for {
		n, err := c.WaitForNotification(h.ctx)
		if err != nil {
			return
		}
		h.mu.Lock()
		for text := n.Payload; len(text) >= 2*len(hint{}); text = text[2*len(hint{}):] {
			var one hint
			if _, err := hex.Decode(one[:], []byte(text[:2*len(one)])); err == nil {
				h.wake(one)
			}
		}
		h.mu.Unlock()
	}
}

// wait returns a channel that is closed by the next hint, how long to wait for
// it at most, and a function to call afterwards.
func (h *hints) wait(one hint) (c chan struct{}, poll time.Duration, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.listening && !h.stopped && !h.db.pooled {
		h.listening = true
		h.wg.Go(h.listen)
	}
	poll = pollEvery
	if h.heard {
		poll = pollHinted
	}
	c = make(chan struct{})
	if h.waiting[one] == nil {
		h.waiting[one] = make(map[chan struct{}]bool)
	}
	h.waiting[one][c] = true
	return c, poll, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.waiting[one], c); len(h.waiting[one]) == 0 {
			delete(h.waiting, one)
		}
	}
}

// Wait returns when log is longer than after: at once after a commit of this
// process, soon after one of another. Where hints do not get through, it polls
// about every second. When log is shorter, it returns within about a second, so
// that the caller sees that it went back.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	one := hintOf(b.who, log)
	b.readingOf(ctx).stay(false) // a replica hears later
	for first := true; ; first = false {
		grown, poll, leave := b.db.homes.of(b.who.tenant).hints.wait(one)
		length, err := b.length(ctx, log)
		if err != nil || length > after || length < after && !first {
			leave()
			return err
		}
		if length < after {
			poll = pollEvery
		}
		tick := time.NewTimer(poll)
		select {
		case <-grown:
		case <-tick.C:
		case <-ctx.Done():
		}
		tick.Stop()
		leave()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

const sqlLength = `select l.length from (
    select $2::uuid as owner, 0 as n, '-infinity'::timestamptz as since
    union all select o.owner, 1, o.since from ` + sqlOthers + ` o where not $6) o
  cross join lateral (select l.length from tidemark.log l where l.tenant = $1 and l.owner = o.owner and l.kind = $3 and l.id = $4 limit 1) l
  order by o.n, o.since, o.owner limit 1`

// length returns how many lines a log has, if the principal may read it.
func (b *Backend) length(ctx context.Context, log tidemark.Key) (length int64, err error) {
	err = b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		length = 0
		each(batch.Queue(sqlLength, b.who.tenant, b.whose(), toText(log.Kind), toText(log.ID), sessionOf(log), b.of != nil), func(rows pgx.Rows) error {
			return rows.Scan(&length)
		})
	})
	return length, err
}
