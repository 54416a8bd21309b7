package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// house is a database with two tenants, and what a server opens of it.
type house struct {
	t      *testing.T
	made   *pgtest.Database
	stores *serve.Opener
	users  *tenant.Directory
	acme   tenant.Tenant
}

func newHouse(t *testing.T, url string, place func(context.Context, string) (cold.Place, error)) *house {
	t.Helper()
	h := &house{t: t, made: pgtest.Start(t).Database(t)}
	if err := postgres.Migrate(t.Context(), h.made.Owner, h.made.Role); err != nil {
		t.Fatal(err)
	}
	h.stores = h.another(url, place)
	var err error
	if h.users, err = h.stores.Operator(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.acme, err = h.users.CreateTenant(t.Context(), tenant.Tenant{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: "rival"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// another opens the stores as another server would, which remembers nothing.
func (h *house) another(url string, place func(context.Context, string) (cold.Place, error)) *serve.Opener {
	h.t.Helper()
	stores, err := serve.OpenStores(h.t.Context(), h.made.Server, false, func(how open.Access) *open.Options {
		return &open.Options{Access: how, Cold: url, ColdPlace: place}
	}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { stores.Close() })
	return stores
}

func (h *house) user(name string) (tenant.User, tidemark.Principal) {
	h.t.Helper()
	u, _, err := h.users.UpsertUser(h.t.Context(), tenant.Claims{Tenant: h.acme, Issuer: "i", Subject: name, Role: tenant.RoleWriter})
	if err != nil {
		h.t.Fatal(err)
	}
	return u, tidemark.Principal{Tenant: h.acme.ID, User: u.ID}
}

func (h *house) store(stores *serve.Opener, p tidemark.Principal) *store.Store {
	h.t.Helper()
	s, err := stores.Store(h.t.Context(), p)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// talk makes a session of 150 entries.
func (h *house) talk(s *store.Store) tidemark.SessionID {
	h.t.Helper()
	w := s.Create(tidemark.Session{Title: "the tide book"}, process.Self("test"))
	for range 3 {
		var some []tidemark.Entry
		for n := range 50 {
			some = append(some, tidemark.Say(tidemark.User, fmt.Sprintf("canary %d %s", n, strings.Repeat("noon ", 200))))
		}
		if _, err := w.Append(h.t.Context(), some...); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := w.Close(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return w.ID()
}

// read returns what was said in a session.
func (h *house) read(s *store.Store, id tidemark.SessionID) (said []string, err error) {
	h.t.Helper()
	v, err := s.View(h.t.Context(), id)
	if err != nil {
		return nil, err
	}
	for e, err := range v.Log(h.t.Context()) {
		if err != nil {
			return said, err
		}
		said = append(said, fmt.Sprint(e.Seq, e.Blocks))
	}
	return said, nil
}

func (h *house) reads(s *store.Store, id tidemark.SessionID, want []string) {
	h.t.Helper()
	if got, err := h.read(s, id); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		h.t.Errorf("%d of %d entries are as they were said: %v", len(got), len(want), err)
	}
}

func (h *house) move(stores *serve.Opener) (open.ColdMoved, error) {
	return stores.MoveCold(h.t.Context(), h.users, process.Self("test"), open.ColdMove{Older: time.Nanosecond, Progress: func(string, ...any) {}, Skipped: func(error) {}}, true)
}

// objects are the files of a bucket.
func objects(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestQuietSessionsOfATeamGoToStorageAndAreReadByThoseWhoMay(t *testing.T) {
	t.Parallel()
	s3 := placetest.S3(t, "../..")
	cut := placetest.Cut(t, strings.TrimPrefix(s3.Endpoint, "http://"))
	url := "s3://" + placetest.Bucket + "/cold?endpoint=http://" + cut.Addr
	place := func(ctx context.Context, url string) (cold.Place, error) { return remote.Open(ctx, url, s3.Options) }
	h := newHouse(t, url, place)
	adasRow, ada := h.user("ada")
	_, bob := h.user("bob")
	adas, bobs := h.store(h.stores, ada), h.store(h.stores, bob)
	shared, private, own := h.talk(adas), h.talk(adas), h.talk(bobs)
	if err := adas.Share(t.Context(), shared, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	want, err := h.read(adas, shared)
	if err != nil || len(want) != 150 {
		t.Fatal(len(want), err)
	}
	if did, err := h.move(h.stores); err != nil || did.Logs != 3 || did.Lines != 3*(150-64) {
		t.Fatalf("MoveCold = %+v, %v", did, err)
	}
	if n := measured(h.stores, "tidemark_cold_moved_lines_total", ""); n != 3*(150-64) {
		t.Errorf("%v lines were counted", n)
	}
	all := objects(t, s3.Dir)
	for _, id := range []string{"acme", h.acme.ID, ada.User, bob.User, string(shared), string(own)} {
		if strings.Contains(strings.Join(all, " "), id) {
			t.Errorf("a name tells %q: %q", id, all)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d objects", len(all))
	}

	// Everybody who may read a session reads it, at any server; nobody else does.
	there := h.another("", place)
	h.reads(h.store(there, ada), shared, want)
	h.reads(h.store(there, ada), private, want)
	h.reads(h.store(there, bob), shared, want)
	h.reads(h.store(there, bob), own, want)
	rival := tidemark.Principal{Tenant: tidemark.TenantOf("rival", "").Tenant, User: ada.User}
	for who, id := range map[tidemark.SessionID]tidemark.Principal{private: bob, shared: rival, own: ada} {
		if got, err := h.read(h.store(there, id), who); !errors.Is(err, tidemark.ErrNotFound) || got != nil {
			t.Errorf("%s is read by another: %d, %v", who, len(got), err)
		}
	}
	for err := range h.store(there, ada).VerifyAll(t.Context(), nil) {
		t.Errorf("VerifyAll: %v", err)
	}
	if n := measured(there, "tidemark_cold_reads_total", "place"); n < 3 {
		t.Errorf("%v reads were counted", n)
	}

	// While the storage is away, only older lines are missed.
	cut.After(0, 1<<40)
	away := h.another(url, place)
	s := h.store(away, ada)
	if _, err := h.read(s, shared); !errors.Is(err, tidemark.ErrColdAway) {
		t.Errorf("while the storage is away = %v", err)
	}
	v, err := s.View(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	tail := 0
	for _, err := range v.Tail(t.Context(), 0, 20) {
		if tail++; err != nil {
			t.Error(err)
		}
	}
	more := h.talk(s)
	if _, err := h.read(s, more); tail != 20 || err != nil {
		t.Errorf("%d entries, %v", tail, err)
	}
	if _, err := h.move(away); !errors.Is(err, tidemark.ErrColdAway) {
		t.Errorf("a move while the storage is away = %v", err)
	}

	// An erasure is not done before it is back, and reaches what is there then.
	leaving := away.Offboarding(h.users, process.Self("test"))
	leaving.Linger = 0
	if _, err := leaving.User(t.Context(), h.acme, adasRow); !errors.Is(err, tidemark.ErrColdAway) {
		t.Errorf("an erasure while the storage is away = %v", err)
	}
	cut.Heal()
	soon(t, "the storage is back", func() bool { _, err := h.read(h.store(away, bob), own); return err == nil })
	if e, err := leaving.User(t.Context(), h.acme, adasRow); err != nil || e.State != tenant.ErasedAll {
		t.Fatalf("User = %+v, %v", e, err)
	}
	if left := objects(t, s3.Dir); len(left) != 1 {
		t.Errorf("%d objects are left, of bob: %q", len(left), left)
	}
	h.reads(h.store(h.another("", place), bob), own, want)

	// A changed byte is damage, and never other content.
	left := objects(t, s3.Dir)
	data, err := os.ReadFile(left[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(left[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	faults := 0
	for err := range h.store(h.another("", place), bob).VerifyAll(t.Context(), nil) {
		if faults++; !errors.Is(err, tidemark.ErrCorrupt) || strings.Contains(err.Error(), "s3:") {
			t.Errorf("VerifyAll: %v", err)
		}
	}
	if faults < 86 {
		t.Errorf("%d faults were found", faults)
	}
	if e, err := leaving.Tenant(t.Context(), h.acme); err != nil || e.State != tenant.ErasedAll {
		t.Fatalf("Tenant = %+v, %v", e, err)
	}
	if left := objects(t, s3.Dir); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// mortal is a place whose caller dies at some call: that one is done, and nothing more.
type mortal struct {
	cold.Place
	left *atomic.Int64
}

var errDied = errors.New("the mover died")

func (m mortal) PutNew(ctx context.Context, name string, data []byte) error {
	if m.left.Add(-1) < 0 {
		return errDied
	}
	return m.Place.PutNew(ctx, name, data)
}

func (m mortal) Get(ctx context.Context, name string) ([]byte, error) {
	if m.left.Add(-1) < 0 {
		return nil, errDied
	}
	return m.Place.Get(ctx, name)
}

func (m mortal) Delete(ctx context.Context, name string) error {
	if m.left.Add(-1) < 0 {
		return errDied
	}
	return m.Place.Delete(ctx, name)
}

func TestAMoverThatDiesAtAnyCallLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var left atomic.Int64
	place := func(ctx context.Context, url string) (cold.Place, error) {
		p, err := remote.Open(ctx, url, nil)
		return mortal{p, &left}, err
	}
	h := newHouse(t, "file:"+dir, place)
	_, ada := h.user("ada")
	s := h.store(h.stores, ada)
	id, held := h.talk(s), h.talk(s)
	if err := s.Hold(t.Context(), held, true); err != nil {
		t.Fatal(err)
	}
	left.Store(1 << 40)
	want, err := h.read(s, id)
	if err != nil {
		t.Fatal(err)
	}
	died := 0
	for calls := int64(0); ; calls++ {
		left.Store(calls)
		did, err := h.move(h.another("file:"+dir, place))
		left.Store(1 << 40)
		h.reads(h.store(h.another("", place), ada), id, want)
		if err == nil {
			if did.Logs == 0 {
				t.Error("nothing was left to move")
			}
			break
		}
		if died++; !errors.Is(err, tidemark.ErrColdAway) {
			t.Fatalf("after %d calls: %v", calls, err)
		}
	}
	if died < 2 {
		t.Errorf("it died %d times", died)
	}
	b, err := h.stores.Backend(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	for err := range b.(tidemark.Checker).Check(t.Context()) {
		t.Errorf("Check: %v", err)
	}
	s = h.store(h.another("", place), ada)
	if err := s.Destroy(t.Context(), held, process.Self("test")); !errors.Is(err, tidemark.ErrOnHold) {
		t.Errorf("what is on hold: %v", err)
	}
	h.reads(s, held, want)

	// Two do not move at once.
	err = h.users.Work(t.Context(), "cold-mover", tidemark.Holder{Program: "another", Host: "elsewhere"}, func(context.Context) error {
		_, err := h.move(h.stores)
		return err
	})
	if !errors.Is(err, tidemark.ErrHeld) {
		t.Errorf("a second mover = %v", err)
	}

	// Who goes on with a session has it whole again.
	w, err := s.Attach(t.Context(), id, process.Self("test"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "and on")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(s, id); err != nil || len(got) != 151 {
		t.Errorf("%d entries, %v", len(got), err)
	}
	for err := range s.VerifyAll(t.Context(), nil) {
		t.Errorf("VerifyAll: %v", err)
	}
}

// count returns what a query of the database counts, as its superuser.
func (h *house) count(sql string) (n int64) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.made.Super)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(h.t.Context(), sql).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func TestQuietSessionsOfATeamArePackedInTheDatabaseAndReadByThoseWhoMay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := func(ctx context.Context, url string) (cold.Place, error) { return remote.Open(ctx, url, nil) }
	h := newHouse(t, cold.Here, place)
	adasRow, ada := h.user("ada")
	_, bob := h.user("bob")
	adas, bobs := h.store(h.stores, ada), h.store(h.stores, bob)
	shared, private, gone, own := h.talk(adas), h.talk(adas), h.talk(adas), h.talk(bobs)
	if err := adas.Share(t.Context(), shared, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	want, err := h.read(adas, shared)
	if err != nil || len(want) != 150 {
		t.Fatal(len(want), err)
	}
	const lines = `select count(*) from tidemark.line join tidemark.log l using (tenant, owner, log) where l.kind in ('session', 'cold')`
	const packed = `select count(*) from tidemark.log where kind = 'cold'`
	before := h.count(lines)
	if did, err := h.move(h.stores); err != nil || did.Logs != 4 || did.Lines != 4*(150-64) || did.Packed*3 > did.Bytes {
		t.Fatalf("MoveCold = %+v, %v", did, err)
	}
	if after, n := h.count(lines), h.count(packed); n != 4 || after != before-4*(150-64)+4 {
		t.Errorf("%d lines became %d, in %d segments", before, after, n)
	}
	// Nobody reads more or less than before, at any server, also of what is shared later.
	there := h.another("", place)
	h.reads(h.store(there, ada), shared, want)
	h.reads(h.store(there, bob), shared, want)
	h.reads(h.store(there, bob), own, want)
	rival := tidemark.Principal{Tenant: tidemark.TenantOf("rival", "").Tenant, User: ada.User}
	refused := func(p tidemark.Principal, id tidemark.SessionID) {
		t.Helper()
		if got, err := h.read(h.store(h.another("", place), p), id); !errors.Is(err, tidemark.ErrNotFound) || got != nil {
			t.Errorf("%s is read by another: %d, %v", id, len(got), err)
		}
	}
	refused(bob, private)
	refused(rival, shared)
	refused(ada, own)
	if err := adas.Share(t.Context(), private, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	h.reads(h.store(h.another("", place), bob), private, want)
	if err := adas.Share(t.Context(), private, tidemark.Scope{With: tidemark.Private}); err != nil {
		t.Fatal(err)
	}
	refused(bob, private)
	for err := range h.store(there, ada).VerifyAll(t.Context(), nil) {
		t.Errorf("VerifyAll: %v", err)
	}
	b, err := there.Backend(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	for err := range b.(tidemark.Checker).Check(t.Context()) {
		t.Errorf("Check: %v", err)
	}

	// A hold keeps it, and a purge takes it whole.
	if err := adas.Hold(t.Context(), private, true); err != nil {
		t.Fatal(err)
	}
	if err := adas.Destroy(t.Context(), private, process.Self("test")); !errors.Is(err, tidemark.ErrOnHold) {
		t.Errorf("what is on hold: %v", err)
	}
	if err := adas.Destroy(t.Context(), gone, process.Self("test")); err != nil {
		t.Fatal(err)
	}
	if n := h.count(packed); n != 3 {
		t.Errorf("%d segments, want 3", n)
	}
	if err := adas.Hold(t.Context(), private, false); err != nil {
		t.Fatal(err)
	}

	// It goes on to a cold place, and comes back from there.
	further := h.another("file:"+dir, place)
	if did, err := h.move(further); err != nil || did.Logs != 3 || did.Lines != 3*(150-64) {
		t.Errorf("MoveCold = %+v, %v", did, err)
	}
	if n := h.count(packed); n != 0 || len(objects(t, dir)) != 3 {
		t.Errorf("%d segments are left, %d are at the place", n, len(objects(t, dir)))
	}
	h.reads(h.store(h.another("", place), bob), shared, want)
	for of, err := range further.Cold(t.Context(), h.users) {
		if err == nil {
			_, err = open.BringBack(t.Context(), of, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(objects(t, dir)); n != 0 {
		t.Errorf("%d objects are left", n)
	}

	// Whoever is erased leaves no segment, whoever goes on has all lines again.
	if did, err := h.move(h.stores); err != nil || did.Logs != 3 {
		t.Errorf("MoveCold = %+v, %v", did, err)
	}
	leaving := h.stores.Offboarding(h.users, process.Self("test"))
	leaving.Linger = 0
	if e, err := leaving.User(t.Context(), h.acme, adasRow); err != nil || e.State != tenant.ErasedAll {
		t.Fatalf("User = %+v, %v", e, err)
	}
	if n := h.count(packed); n != 1 {
		t.Errorf("%d segments are left, one is of bob", n)
	}
	w, err := bobs.Attach(t.Context(), own, process.Self("test"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "and on")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(bobs, own); err != nil || len(got) != 151 || h.count(packed) != 0 {
		t.Errorf("%d entries, %v, and %d segments", len(got), err, h.count(packed))
	}
}
