package pages

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// The numbers of the usage page are counted once into cells, which are small
// enough to answer every question of the page: another chart of the same
// time needs no new reading.

// cell is the finest unit that is counted separately.
type cell struct {
	day                         int // since 1970, in the zone of the count
	model, agent, project, user string
}

// usage is what was used, by cell.
type usage struct {
	cells   map[cell]*store.Tally
	damaged int
	closed  int  // stores that could not be opened
	folded  bool // there were too many cells
	names   map[string]string
}

// maxCells bounds what one count keeps in memory. Beyond it, new parts are
// counted together.
const maxCells = 100_000

// foldedPart is the name of what was counted together.
const foldedPart = "…"

// dayOf is the day of a time, as days since 1970 in a zone.
func dayOf(t time.Time, zone *time.Location) int {
	y, m, d := t.In(zone).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// startOf is the first day of a number of days since 1970.
func startOf(day int) time.Time { return time.Unix(int64(day)*86400, 0).UTC() }

// add counts an entry.
func (u *usage) add(st *store.Store, o store.Owned, zone *time.Location, user string) {
	if o.Kind == tidemark.KindBranch || o.Kind == tidemark.KindGap {
		return
	}
	c := cell{dayOf(o.At, zone), cmp.Or(o.Model, o.Session.Model), o.Session.Agent, o.Session.Project, user}
	t := u.cells[c]
	if t == nil && len(u.cells) >= maxCells {
		u.folded = true
		c.model, c.agent, c.project = foldedPart, foldedPart, foldedPart
		t = u.cells[c]
	}
	if t == nil {
		t = &store.Tally{}
		u.cells[c] = t
	}
	st.Tally(t, o)
}

// counting says what to count.
type counting struct {
	zone      *time.Location
	since     time.Time
	everybody bool // all users of the tenant, for its admins
}

// countUsage counts what the caller used or may read, or what the whole tenant
// used. Of other people it returns only numbers, by user and by model.
func (s *Site) countUsage(ctx context.Context, c counting, progress func(int64)) (*usage, error) {
	u := &usage{cells: make(map[cell]*store.Tally), names: make(map[string]string)}
	caller := request.CallerOf(ctx)
	if !c.everybody {
		st, err := s.stores.Mine(ctx)
		if err != nil {
			return nil, err
		}
		u.names[caller.User] = caller.Name
		return u, u.count(ctx, st, c, caller.User, progress)
	}
	people, err := s.usersOf(ctx, caller, u.names)
	if err != nil {
		return nil, err
	}
	seen := make(map[*store.Store]bool)
	before := int64(0)
	for _, id := range people {
		st, err := s.stores.Of(ctx, tidemark.Principal{Tenant: caller.Tenant, User: id})
		if errors.Is(err, tidemark.ErrSealed) || errors.Is(err, tidemark.ErrDenied) {
			u.closed++
			continue
		}
		if err != nil {
			return nil, err
		}
		if seen[st] {
			continue // one store for everybody
		}
		seen[st] = true
		last := int64(0)
		err = u.count(ctx, st, c, id, func(n int64) {
			last = n
			progress(before + n)
		})
		if err != nil {
			return nil, err
		}
		before += last
	}
	return u, nil
}

// usersOf lists the caller, the tenant itself and its users, with their names.
func (s *Site) usersOf(ctx context.Context, caller request.Caller, names map[string]string) ([]string, error) {
	ids := []string{caller.User}
	names[caller.User] = caller.Name
	if caller.Tenant != caller.User {
		ids = append(ids, caller.Tenant)
		names[caller.Tenant] = "fleet"
	}
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return nil, err
	}
	for u, err := range users.Users(ctx, caller.Tenant, "") {
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, u.ID) {
			ids = append(ids, u.ID)
			names[u.ID] = cmp.Or(u.Name, u.Email, u.Subject, u.ID)
		}
	}
	return ids, nil
}

// count adds up the entries of the store of a user. Where everybody is counted,
// what others share with them counts in the stores of others.
func (u *usage) count(ctx context.Context, st *store.Store, c counting, user string, progress func(int64)) error {
	var session *store.Info
	sessions := int64(0)
	for o, err := range st.Own(ctx, c.since) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			u.damaged++
			continue
		}
		if err != nil {
			return err
		}
		if o.Session != session {
			session = o.Session
			if sessions++; sessions%16 == 0 {
				progress(sessions)
			}
		}
		if !c.everybody || session.Owner == "" {
			u.add(st, o, c.zone, user)
		}
	}
	progress(sessions)
	return ctx.Err()
}

// part is the name of the part that a cell belongs to.
func (u *usage) part(c cell, by string) string {
	switch by {
	case "agent":
		return c.agent
	case "project":
		return c.project
	case "user":
		return cmp.Or(u.names[c.user], c.user)
	}
	return c.model
}

// amount is how much of a metric a tally has.
func amount(t *store.Tally, metric string) float64 {
	switch metric {
	case "cost":
		return t.USD()
	case "turns":
		return float64(t.Turns)
	case "messages":
		return float64(t.Messages)
	}
	return float64(t.Tokens())
}

// bucketOf is the first day of a bucket: Monday of a week, the first of a
// month.
func bucketOf(day int, bucket string) int {
	t := startOf(day)
	switch bucket {
	case "week":
		return day - (int(t.Weekday())+6)%7
	case "month":
		return day - t.Day() + 1
	}
	return day
}

// bucketsBetween are the buckets from one day to another, at most the newest
// most of them.
func bucketsBetween(from, to int, bucket string, most int) []int {
	var days []int
	for day := bucketOf(to, bucket); day >= bucketOf(from, bucket) && len(days) < most; day = bucketOf(day-1, bucket) {
		days = append(days, day)
	}
	slices.Reverse(days)
	return days
}

// bucketName is the name of a bucket: a date, a week by its Monday, a month.
func bucketName(day int, bucket string) string {
	t := startOf(day)
	if bucket == "month" {
		return t.Format("2006-01")
	}
	return t.Format(time.DateOnly)
}

// csvText is a field that no spreadsheet takes for a formula.
func csvText(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}
