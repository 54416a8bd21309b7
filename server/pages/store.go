package pages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// maxDamageShown bounds the list on a page; the command shows the rest.
	maxDamageShown = 200
	// maxLeases bounds the list on a page: a fleet of thousands is shown
	// elsewhere.
	maxLeases = 200
	// growthDays is how far back growth is shown.
	growthDays = 30
)

// storePages show the store itself, and who may do what.
func (s *Site) storePages() {
	s.page("/store", request.Reader, func(r *http.Request) (view, error) {
		o, err := s.gatherStore(r.Context())
		return s.storeView(r, web.Store{Part: "overview", Overview: o}), err
	})
	s.act("/store/verify", request.Writer, s.actVerify)
	s.act("/store/reindex", request.Writer, s.actReindex)
	s.act("/store/release", request.Writer, s.actRelease)
	s.auditPages()
	s.tokenPages()
	s.peoplePages()
	s.linkPages()
	s.leavingPages()
}

// storeView is a tab of the page.
func (s *Site) storeView(r *http.Request, v web.Store) view {
	c := request.CallerOf(r.Context())
	v.Parts = []string{"overview"}
	if c.Role.May(request.Admin) {
		v.Parts = append(v.Parts, "audit", "tokens", "users", "links")
	}
	if c.Operator {
		v.Parts = append(v.Parts, "tenants")
	}
	v.Tenant = r.FormValue("tenant")
	f := s.frame(r, "store")
	if v.Part != "overview" {
		f.Title = web.Say(f.Lang, "store.part."+v.Part)
	}
	return view{f, v}
}

// gatherStore examines the store of the caller. A part that cannot be
// read is left empty: damage in one must not hide the others.
func (s *Site) gatherStore(ctx context.Context) (*web.StoreOverview, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, err
	}
	o := &web.StoreOverview{Days: []web.StoreDay{}, Damage: []web.StoreDamage{}, Leases: []web.StoreLease{}, Keys: []web.StoreKey{}, Backups: []web.StoreBackup{}}
	if err := s.inspect(ctx, o); err != nil {
		return nil, err
	}
	s.fillCensus(ctx, o)
	s.fillVerified(ctx, o)
	s.fillLimits(ctx, o)
	o.Watch = s.watched(ctx)
	if o.Met, _, err = meetings(ctx, st, ""); err != nil {
		return nil, err
	}
	if err := s.fillLeases(ctx, st, o); err != nil {
		return nil, err
	}
	return o, s.fillIndex(ctx, st, o)
}

func (s *Site) inspect(ctx context.Context, o *web.StoreOverview) error {
	if s.o.Inspect == nil {
		return nil
	}
	c := request.CallerOf(ctx)
	i, err := s.o.Inspect(ctx, c.Principal)
	if errors.Is(err, tidemark.ErrUnsupported) || errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	o.Known, o.Kind, o.Bytes, o.Sealed, o.Rotating = true, i.Kind, i.Bytes, i.Sealed, i.Rotating
	for _, b := range i.Backups {
		o.Backups = append(o.Backups, web.StoreBackup{What: b.What, At: b.At, Outcome: render.CleanLine(b.Outcome)})
	}
	// Where things are and which keys open them is for admins.
	if c.Role.May(request.Admin) {
		o.Place = render.CleanLine(i.Place)
		for _, k := range i.Keys {
			o.Keys = append(o.Keys, web.StoreKey{ID: k.ID, Type: k.Type, Label: render.CleanLine(k.Label), CreatedAt: k.CreatedAt, Opened: k.Opened})
		}
	}
	return nil
}

// watched is what a watcher follows for the caller, nil if that is not known.
func (s *Site) watched(ctx context.Context) *web.Watch {
	if s.o.Watched == nil {
		return nil
	}
	w, err := s.o.Watched(ctx, request.CallerOf(ctx).Principal)
	if err != nil {
		request.Note(ctx, "watch", err.Error())
		return nil
	}
	return w
}

// fillLimits shows how much of their limits the caller and the tenant use.
func (s *Site) fillLimits(ctx context.Context, o *web.StoreOverview) {
	uses, err := s.api.Uses(ctx)
	if err != nil {
		request.Note(ctx, "limits", err.Error())
	}
	for _, u := range uses {
		if !strings.HasSuffix(u.Name, "streams") { // they come and go
			o.Limits = append(o.Limits, web.StoreLimit{Name: u.Name, Used: u.Used, Most: u.Most})
		}
	}
}

// keeps shows what a user, or without one a tenant, keeps and may keep; nothing if it
// was never counted and nobody limits it.
func (s *Site) keeps(ctx context.Context, of, user string) []web.StoreLimit {
	l, err := s.api.Limits(ctx, of, user)
	if err != nil {
		request.Note(ctx, "limits", err.Error())
		return nil
	}
	if l.Kept.CountedAt.IsZero() && l.Allowed.Sessions <= 0 && l.Allowed.Storage <= 0 {
		return nil
	}
	return []web.StoreLimit{{Name: "sessions", Used: l.Kept.Sessions, Most: max(l.Allowed.Sessions, 0)}, {Name: "storage", Used: l.Kept.Bytes, Most: max(l.Allowed.Storage, 0)}}
}

// census is how much there is, and since when.
type census struct {
	counts web.StoreCounts
	born   map[int]int64 // sessions by day
	used   *usage
}

// fillCensus counts sessions, and entries over the last days. On a large store
// the page does not wait for it.
func (s *Site) fillCensus(ctx context.Context, o *web.StoreOverview) {
	today := dayOf(s.o.Now(), time.UTC)
	name := TaskName(request.CallerOf(ctx).Principal, "census")
	t := s.task(name)
	if t == nil || !t.fresh(s.o.Now()) {
		t = s.Begin(ctx, name, func(ctx context.Context, progress func(int64)) (any, error) {
			return s.takeCensus(ctx, today-growthDays+1, progress)
		})
	}
	over := t.wait(ctx, s.patience(ctx))
	o.Census = taskView(t)
	if !over {
		return
	}
	c, err := taskResult[*census](t)
	if err != nil || c == nil {
		return // the task says why
	}
	o.Counts = &c.counts
	days := make(map[int]int64)
	for cell, t := range c.used.cells {
		days[cell.day] += t.Messages
	}
	born, grown := web.Series{Name: web.Say("", "store.sessions")}, web.Series{Name: web.Say("", "store.messages")}
	var labels []string
	for day := today - growthDays + 1; day <= today; day++ {
		d := web.StoreDay{Day: bucketName(day, "day"), Sessions: c.born[day], Messages: days[day]}
		o.Days = append(o.Days, d)
		labels = append(labels, d.Day[len("2006-"):])
		born.Values, grown.Values = append(born.Values, float64(d.Sessions)), append(grown.Values, float64(d.Messages))
	}
	o.Growth = web.Chart{ID: "growth", Title: web.Say("", "store.growth.messages"), Desc: web.Say("", "store.growth.desc", growthDays, web.Amount("", grown.Sum())), Labels: labels, Series: []web.Series{grown}}.Bars()
	o.Born = web.Chart{ID: "born", Title: web.Say("", "store.growth.sessions"), Desc: web.Say("", "store.growth.desc", growthDays, web.Amount("", born.Sum())), Labels: labels, Series: []web.Series{born}}.Lines()
}

func (s *Site) takeCensus(ctx context.Context, from int, progress func(int64)) (*census, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, err
	}
	c := &census{born: make(map[int]int64), used: &usage{cells: make(map[cell]*store.Tally)}}
	for _, state := range []string{store.Live, store.Trash} {
		for i, err := range st.Sessions(ctx, store.Filter{State: state}) {
			switch {
			case errors.Is(err, tidemark.ErrCorrupt):
				c.counts.Damaged++
				continue
			case err != nil:
				return nil, err
			case state == store.Trash:
				c.counts.Trash++
				continue
			}
			own := i.Entries
			if i.Base != nil {
				c.counts.Forks++
				own -= i.Base.Seq
			}
			c.counts.Sessions++
			c.counts.Entries += own
			c.born[dayOf(i.CreatedAt, time.UTC)]++
		}
	}
	return c, c.used.count(ctx, st, counting{zone: time.UTC, since: startOf(from)}, request.CallerOf(ctx).User, progress)
}

// verified is the result of a verification.
type verified struct {
	sessions int64
	damage   []web.StoreDamage
	count    int
}

func (s *Site) actVerify(r *http.Request) (string, string, error) {
	ctx := r.Context()
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return "", "", err
	}
	s.stores.AuditLater(ctx, "store.verify", r.URL.Path, tenant.AuditDone)
	s.Begin(ctx, TaskName(request.CallerOf(ctx).Principal, "verify"), func(ctx context.Context, progress func(int64)) (any, error) {
		return verifyStore(ctx, st, progress)
	}).wait(ctx, glance)
	return "/store#damage", web.Say("", "store.verify.begun"), nil
}

func verifyStore(ctx context.Context, st *store.Store, progress func(int64)) (*verified, error) {
	v := &verified{damage: []web.StoreDamage{}}
	found := st.VerifyAll(ctx, func(store.Info) {
		v.sessions++
		progress(v.sessions)
	})
	for err := range found {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return v, err
		}
		if v.count++; len(v.damage) < maxDamageShown {
			v.damage = append(v.damage, damageView(err))
		}
	}
	return v, ctx.Err()
}

// damageView is a damage with a link to its place.
func damageView(err error) web.StoreDamage {
	d := web.StoreDamage{What: render.CleanLine(err.Error())}
	var damage *tidemark.Damage
	if errors.As(err, &damage) && slices.Contains([]string{"session", "notes", "past"}, damage.Key.Kind) {
		if id, err := tidemark.ParseSessionID(damage.Key.ID); err == nil {
			d.Session = string(id)
			if damage.Key.Kind == "session" {
				d.Seq = damage.Seq
			}
		}
	}
	return d
}

func (s *Site) fillVerified(ctx context.Context, o *web.StoreOverview) {
	t := s.task(TaskName(request.CallerOf(ctx).Principal, "verify"))
	o.Verify = taskView(t)
	if t == nil || !t.over() {
		return
	}
	if v, _ := taskResult[*verified](t); v != nil {
		o.Damage, o.Damages, o.Checked = v.damage, v.count, v.sessions
	}
}

func (s *Site) fillLeases(ctx context.Context, st *store.Store, o *web.StoreOverview) error {
	for l, err := range st.Leases(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verification reports it
		}
		if err != nil {
			return err
		}
		if len(o.Leases) == maxLeases {
			o.LeasesLeft = true
			return nil
		}
		v := web.StoreLease{Session: string(l.Session()), Holder: render.CleanLine(routes.HolderText(l.Holder)), Since: l.Since, HeardAt: l.HeardAt, State: "alive"}
		if i, err := st.Session(ctx, l.Session()); err == nil {
			v.Title = render.CleanLine(i.Title)
		}
		switch {
		case l.Dead:
			v.State = "dead"
		case l.Expired:
			v.State = "silent"
		}
		o.Leases = append(o.Leases, v)
	}
	return nil
}

// actRelease ends a lease whose holder is proven dead. One that is only silent
// is left to the next writer, who takes it over anyway.
func (s *Site) actRelease(r *http.Request) (string, string, error) {
	ctx := r.Context()
	st, i, err := s.api.Owned(ctx, r.FormValue("session"))
	if err != nil {
		return "", "", err
	}
	l, err := st.Lease(ctx, i.ID)
	if err != nil {
		return "", "", err
	}
	if l.Held && !l.Dead {
		return "", "", &store.HeldError{Lease: l, Now: s.o.Now()}
	}
	if err := st.Release(ctx, i.ID, false); err != nil {
		return "", "", err
	}
	s.stores.AuditLater(ctx, "lease.release", string(i.ID), tenant.AuditDone)
	return "/store#leases", web.Say("", "store.release.done"), nil
}

func (s *Site) fillIndex(ctx context.Context, st *store.Store, o *web.StoreOverview) error {
	n, err := st.Unindexed(ctx, 0)
	o.Reindex = taskView(s.task(TaskName(request.CallerOf(ctx).Principal, "reindex")))
	switch {
	case errors.Is(err, tidemark.ErrUnsupported):
		o.Index = "none"
		return nil
	case err != nil:
		return err
	}
	o.Behind = n
	o.Index = "current"
	if n > 0 {
		o.Index = "behind"
	}
	return nil
}

func (s *Site) actReindex(r *http.Request) (string, string, error) {
	ctx := r.Context()
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return "", "", err
	}
	if _, err := st.Unindexed(ctx, 1); err != nil {
		return "", "", err
	}
	again := cmp.Or(r.FormValue("how"), "behind") == "all"
	s.stores.AuditLater(ctx, "store.reindex", r.URL.Path, tenant.AuditDone)
	s.Begin(ctx, TaskName(request.CallerOf(ctx).Principal, "reindex"), func(ctx context.Context, progress func(int64)) (any, error) {
		if again {
			return st.Reindex(ctx, progress)
		}
		return st.CatchUp(ctx, progress)
	}).wait(ctx, glance)
	return "/store#index", web.Say("", "store.reindex.begun"), nil
}
