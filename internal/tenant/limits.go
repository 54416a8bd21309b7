package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Unlimited as a limit means that there is none, whatever the settings of a server
// say.
const Unlimited = -1

// UsageLimits are what a tenant or a user may have at most. What is 0 is not said, and
// left to the settings of each server. Requests, streams and bytes are counted by each
// server, sessions and storage in the store.
type UsageLimits struct {
	Requests int64 `json:"requests,omitempty" minimum:"-1" doc:"a second"`
	Streams  int64 `json:"streams,omitempty" minimum:"-1" doc:"that are open at the same time"`
	Bytes    int64 `json:"bytes,omitempty" minimum:"-1" doc:"that are sent and answered, a minute"`
	Sessions int64 `json:"sessions,omitempty" minimum:"-1" doc:"that are kept, those in the trash included"`
	Storage  int64 `json:"storage,omitempty" minimum:"-1" doc:"bytes that are kept"`
}

// Or returns the limits, with what they do not say taken from others.
func (l UsageLimits) Or(others UsageLimits) UsageLimits {
	for i, mine := range l.fields() {
		if *mine == 0 {
			*mine = *others.fields()[i]
		}
	}
	return l
}

func (l *UsageLimits) fields() []*int64 {
	return []*int64{&l.Requests, &l.Streams, &l.Bytes, &l.Sessions, &l.Storage}
}

// LimitNames are what can be limited, in the order in which people read about it.
var LimitNames = []string{"requests", "streams", "bytes", "sessions", "storage"}

// Set sets a limit by its name: a number, which may end in k, M, G or T, "none" for no
// limit, and "default" for what the settings of the server say. ErrInvalid.
func (l *UsageLimits) Set(name, value string) error {
	for i, known := range LimitNames {
		if name == known {
			n, err := parseLimit(value)
			if err != nil {
				return tidemark.Invalidf("%s %.40q: want a number such as 500, 20M or 3G, none, or default", name, value)
			}
			*l.fields()[i] = n
			return nil
		}
	}
	return tidemark.Invalidf("%.40q cannot be limited: want %s", name, strings.Join(LimitNames, ", "))
}

// SetAll sets limits that are given as NAME=VALUE. ErrInvalid.
func (l *UsageLimits) SetAll(all []string) error {
	for _, one := range all {
		name, value, _ := strings.Cut(one, "=")
		if err := l.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Text says a limit for people.
func (l UsageLimits) Text(name string) string {
	for i, known := range LimitNames {
		if name != known {
			continue
		}
		switch n := *l.fields()[i]; {
		case n == 0:
			return "default"
		case n < 0:
			return "none"
		default:
			return strconv.FormatInt(n, 10)
		}
	}
	return ""
}

// String lists what is said.
func (l UsageLimits) String() string {
	var all []string
	for _, name := range LimitNames {
		all = append(all, name+" "+l.Text(name))
	}
	return strings.Join(all, ", ")
}

func parseLimit(text string) (int64, error) {
	switch text {
	case "none":
		return Unlimited, nil
	case "default":
		return 0, nil
	}
	factor := int64(1)
	for i, unit := range "kMGT" {
		if rest, ok := strings.CutSuffix(text, string(unit)); ok {
			text = rest
			for range i + 1 {
				factor *= 1000
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > (1<<62)/factor {
		return 0, fmt.Errorf("not a limit: %q", text)
	}
	return n * factor, nil
}

func limitsKey(tenant, user string) tidemark.Key {
	return tidemark.Key{Kind: kindLimits, ID: ofUser(tenant, user)}
}

func keptKey(tenant, user string) tidemark.Key {
	return tidemark.Key{Kind: kindKept, ID: ofUser(tenant, user)}
}

// ofUser is the id of what is kept about a user or, without one, about the tenant.
func ofUser(tenant, user string) string {
	if user == "" {
		return tenant
	}
	return tenant + "." + user
}

// Limits returns what is said for a user by name or, without a user, for the tenant.
func (d *Directory) Limits(ctx context.Context, tenant, user string) (UsageLimits, error) {
	var l UsageLimits
	_, err := d.k.Get(ctx, limitsKey(tenant, user), &l)
	return l, err
}

// ChangeLimits changes what is said for a user by name or, without a user, for the
// tenant, and returns it.
func (d *Directory) ChangeLimits(ctx context.Context, tenant, user string, change func(*UsageLimits) error) (l UsageLimits, err error) {
	err = records.Retry(ctx, func() error {
		l = UsageLimits{}
		r, err := d.k.Get(ctx, limitsKey(tenant, user), &l)
		if err == nil {
			err = change(&l)
		}
		for i, n := range l.fields() {
			if err == nil && *n < Unlimited {
				err = tidemark.Invalidf("%s: want a number from 1 on, 0 for what the server says, or %d for no limit", LimitNames[i], Unlimited)
			}
		}
		if err != nil {
			return err
		}
		p, err := records.Put(r.Key, r.Version, l)
		if err == nil {
			_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
		return err
	})
	return l, err
}

// NamedLimits are all limits that are said by name.
type NamedLimits map[string]UsageLimits

// Of returns what is said for a user or, without one, for a tenant.
func (n NamedLimits) Of(tenant, user string) UsageLimits { return n[ofUser(tenant, user)] }

// NamedLimits returns all limits that are said by name. One that cannot be read is as
// if it were not there.
func (d *Directory) NamedLimits(ctx context.Context) (NamedLimits, error) {
	all := make(NamedLimits)
	for r, err := range d.k.Backend().List(ctx, tidemark.Query{Kind: kindLimits, Order: tidemark.ByID}) {
		if tidemark.CodeOf(err).Err == tidemark.ErrCorrupt {
			continue
		}
		if err != nil {
			return nil, err
		}
		var l UsageLimits
		if json.Unmarshal(r.Body, &l) == nil {
			all[r.ID] = l
		}
	}
	return all, nil
}

// Kept is how much somebody keeps, and when that was counted.
type Kept struct {
	Sessions  int64     `json:"sessions"`
	Bytes     int64     `json:"bytes"`
	CountedAt time.Time `json:"counted_at,omitzero"`
}

// NoteKept keeps how much a user keeps, for other servers and for the sum of the
// tenant. What somebody else noted meanwhile is as good.
func (d *Directory) NoteKept(ctx context.Context, tenant, user string, k Kept) error {
	r, err := d.k.Get(ctx, keptKey(tenant, user), &Kept{})
	if err != nil {
		return err
	}
	p, err := records.Put(r.Key, r.Version, k)
	if err == nil {
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
	}
	if tidemark.CodeOf(err).Err == tidemark.ErrConflict {
		return nil
	}
	return err
}

// KeptIn returns how much the users of a tenant keep, as far as it was counted, by
// the id of the user.
func (d *Directory) KeptIn(ctx context.Context, tenant string) (map[string]Kept, error) {
	all := make(map[string]Kept)
	for r, err := range d.k.Backend().List(ctx, within(kindKept, tenant, "")) {
		if err != nil {
			return nil, err
		}
		var k Kept
		if json.Unmarshal(r.Body, &k) == nil {
			all[strings.TrimPrefix(r.ID, tenant+".")] = k
		}
	}
	return all, nil
}

// SumKept adds up what several keep; it is as old as the oldest count.
func SumKept(by map[string]Kept) (all Kept) {
	for _, k := range by {
		all.Sessions += k.Sessions
		all.Bytes += k.Bytes
		if all.CountedAt.IsZero() || k.CountedAt.Before(all.CountedAt) {
			all.CountedAt = k.CountedAt
		}
	}
	return all
}
