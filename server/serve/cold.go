package serve

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// A server moves the older lines of quiet sessions once in coldEvery, up to coldMost
// bytes each time, so that it never keeps the database busy for long; once in
// coldSweepEvery it looks for objects that nothing names.
const (
	coldEvery      = time.Hour
	coldMost       = 2 << 30
	coldSweepEvery = 24 * time.Hour
	coldUsualAge   = "90d"
)

// coldWork names the work that one server does at a time.
const coldWork = "cold-mover"

// coldAge returns how long nobody touched a session whose lines are moved.
func (c *Config) coldAge() (time.Duration, error) {
	switch kind, path, _ := strings.Cut(c.Cold, ":"); {
	case c.Cold == "" && c.ColdOlder != "":
		return 0, hint.With(tidemark.Invalidf("--cold-older: where to?"), "name a folder or storage with --cold")
	case c.Cold == "":
		return 0, nil
	case kind == "file" && !strings.HasPrefix(path, "/"), kind != "file" && kind != "s3" && c.Cold != cold.Here:
		return 0, hint.With(tidemark.Invalidf("--cold %.100q is no URL of a cold place", c.Cold), "name a folder: file:/srv/cold, or storage: s3://BUCKET/PREFIX")
	}
	age := c.ColdOlder
	if age == "" {
		age = coldUsualAge
	}
	older, err := upkeep.ParseAge(age)
	if err != nil {
		return 0, tidemark.Invalidf("--cold-older: %w", err)
	}
	return older, nil
}

// coldMoves returns what is moved, in this order: lines into the store itself, then lines
// and what was packed there to the cold place.
func (c *Config) coldMoves() (all []open.ColdMove, err error) {
	if c.PackOlder != "" {
		older, err := upkeep.ParseAge(c.PackOlder)
		if err != nil {
			return nil, tidemark.Invalidf("--pack-older: %w", err)
		}
		all = append(all, open.ColdMove{Older: older, To: cold.Here})
	}
	older, err := c.coldAge()
	if c.Cold != "" {
		all = append(all, open.ColdMove{Older: older})
	}
	return all, err
}

// Cold returns what every owner keeps in these stores, by owner: of a database each
// tenant and user, of a store on this machine its one user.
func (t *Opener) Cold(ctx context.Context, users *tenant.Directory) iter.Seq2[*cold.Backend, error] {
	return func(yield func(*cold.Backend, error) bool) {
		if t.db == nil {
			if b, err := t.own.Cold(); t.single || err != nil {
				yield(b, err)
			} else {
				yield(nil, tidemark.Unsupportedf("stores of several users on this machine are moved one by one: tidemark --store … cold move"))
			}
			return
		}
		seen := make(map[[2]string]bool)
		one := func(tenant, user string) bool {
			o := [2]string{tenant, user}
			if seen[o] {
				return true
			}
			seen[o] = true
			return yield(t.tiered(tidemark.Principal{Tenant: tenant, User: user}), nil)
		}
		own, err := t.Principal()
		if err != nil {
			yield(nil, err)
			return
		}
		if !one(own.Tenant, own.Tenant) || !one(own.Tenant, own.User) {
			return
		}
		for of, err := range users.Tenants(ctx, "") {
			if err != nil {
				yield(nil, err)
				return
			}
			if !one(of.ID, of.ID) {
				return
			}
			for u, err := range users.Users(ctx, of.ID, "") {
				if err != nil {
					yield(nil, err)
					return
				}
				if !one(of.ID, u.ID) {
					return
				}
			}
		}
	}
}

// MoveCold moves the older lines of quiet sessions of everybody, and deletes what is
// gone at its place; with sweep, also objects that nothing names. Only one program does
// it at a time: ErrHeld.
func (t *Opener) MoveCold(ctx context.Context, users *tenant.Directory, who tidemark.Holder, how open.ColdMove, sweep bool) (did open.ColdMoved, err error) {
	did.DryRun = how.DryRun
	move := func(ctx context.Context) error {
		reached := how.DryRun
		for b, err := range t.Cold(ctx, users) {
			if err == nil && how.To != "" {
				b = b.To(how.To)
			}
			if err == nil && !reached {
				err, reached = b.Reach(ctx, b.URL()), true
			}
			if err == nil {
				err = open.MoveCold(ctx, b, how, &did)
			}
			if err != nil {
				return err
			}
			if how.DryRun {
				continue
			}
			swept := 0
			if sweep {
				swept, err = b.Sweep(ctx)
			} else {
				swept, err = b.SweepGone(ctx)
			}
			if did.Swept += swept; err != nil {
				return err
			}
			if how.Most > 0 && did.Bytes >= how.Most {
				return nil
			}
		}
		return nil
	}
	if how.DryRun {
		return did, move(ctx)
	}
	return did, users.Work(postgres.Background(ctx), coldWork, who, move)
}

// moveCold moves quiet sessions as long as the server runs, and returns a function that
// ends that. A place that is away is said once, until it is back.
func (v *running) moveCold(ctx context.Context) (end func(), err error) {
	moves, err := v.coldMoves()
	if err != nil || len(moves) == 0 {
		return func() {}, err
	}
	users, err := v.stores.Operator(ctx)
	if err != nil {
		return func() {}, err
	}
	var next, sweepNext time.Time
	told := ""
	// Of several moves the last one also deletes what nothing names any more.
	move := func(ctx context.Context, sweep bool) error {
		for i, how := range moves {
			how.Most, how.Progress, how.Skipped = coldMost, func(string, ...any) {}, v.Complain
			did, err := v.stores.MoveCold(ctx, users, v.Holder, how, sweep && i == len(moves)-1)
			if err != nil {
				return err
			}
			said := "moved to the cold place"
			if how.To == cold.Here || v.Cold == cold.Here {
				said = "packed"
			}
			if did.Logs > 0 {
				v.Say("tidemark: %d lines of %d logs %s, %.1f MB became %.1f MB", did.Lines, did.Logs, said, float64(did.Bytes)/1e6, float64(did.Packed)/1e6)
			}
		}
		return nil
	}
	return v.repeatedly(ctx, func(ctx context.Context) error {
		if time.Now().Before(next) {
			return nil
		}
		sweep := time.Now().After(sweepNext)
		err := move(ctx, sweep)
		if errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrConflict) {
			err = nil // another server does it
		}
		if err == nil {
			told = ""
			next = time.Now().Add(coldEvery)
			if sweep {
				sweepNext = time.Now().Add(coldSweepEvery)
			}
			return nil
		}
		if ctx.Err() != nil || err.Error() == told {
			return nil
		}
		told = err.Error()
		return err
	}), nil
}

// measureCold returns what was moved to cold places and read from them.
func measureCold(c cold.Counts) []server.Measure {
	failures := server.Measure{Name: "tidemark_cold_failures_total", Kind: "counter", Help: "How often a cold place did not answer or a segment was not what was put there.", Values: []server.Value{
		{Labels: `{what="read"}`, Value: float64(c.FailedReads)}, {Labels: `{what="move"}`, Value: float64(c.FailedMoves)}, {Labels: `{what="damage"}`, Value: float64(c.Damaged)}}}
	return []server.Measure{failures,
		server.One("tidemark_cold_moved_lines_total", "counter", "Lines that this server moved to the cold place.", float64(c.Moved.Lines)),
		server.One("tidemark_cold_moved_bytes_total", "counter", "Bytes of those lines.", float64(c.Moved.Bytes)),
		server.One("tidemark_cold_stored_bytes_total", "counter", "Bytes that they became there.", float64(c.Moved.Packed)),
		{Name: "tidemark_cold_reads_total", Kind: "counter", Help: "Segments that somebody read: fetched from a cold place, or at hand.", Values: []server.Value{
			{Labels: `{from="place"}`, Value: float64(c.Reads)}, {Labels: `{from="memory"}`, Value: float64(c.Remembered)}}},
		server.One("tidemark_cold_read_bytes_total", "counter", "Bytes that were fetched from cold places.", float64(c.Read)),
	}
}
