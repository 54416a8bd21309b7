package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// erasesIn names the folder with the stores in which this process erases a user, as a
// server would that is killed then.
const erasesIn = "TIDEMARK_TEST_ERASES"

// onDisk opens the stores of a folder: the operator's, and that of ada.
func onDisk(ctx context.Context, dir string, each func()) (*Offboarding, tenant.Tenant, error) {
	operators, err := sqlite.Open(ctx, filepath.Join(dir, "operator.db"), &sqlite.Options{Create: true})
	if err != nil {
		return nil, tenant.Tenant{}, err
	}
	users := tenant.NewDirectory(records.New(operators, records.Options{}))
	hers, err := sqlite.Open(ctx, filepath.Join(dir, "ada.db"), &sqlite.Options{Create: true})
	if err != nil {
		return nil, tenant.Tenant{}, err
	}
	x := &Offboarding{Users: users, UnseenHolds: true, Holder: tidemark.Holder{Program: "test"},
		Backend: func(context.Context, tidemark.Principal) (tidemark.Backend, error) { return slow{hers, each}, nil },
		Store:   func(context.Context, tidemark.Principal) (*store.Store, error) { return nil, tidemark.ErrSealed }}
	t, err := users.TenantNamed(ctx, "acme")
	return x, t, err
}

// slow is a Backend that tells of each commit.
type slow struct {
	tidemark.Backend
	each func()
}

func (s slow) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	r, err := s.Backend.Commit(ctx, b)
	s.each()
	return r, err
}

// eraseIn erases ada, and after each commit waits until it may go on.
func eraseIn(dir string) error {
	ctx, lines := context.Background(), bufio.NewScanner(os.Stdin)
	x, t, err := onDisk(ctx, dir, func() {
		fmt.Println("committed")
		lines.Scan()
	})
	if err != nil {
		return err
	}
	u, err := x.Users.UserNamed(ctx, t, "ada")
	if err != nil {
		return err
	}
	_, err = x.User(ctx, t, u)
	fmt.Println("done")
	return err
}

// adaOnDisk makes the stores: ada has enough for several commits.
func adaOnDisk(t *testing.T, sealed bool) (dir, id string) {
	t.Helper()
	ctx := t.Context()
	dir = t.TempDir()
	operators, err := sqlite.Open(ctx, filepath.Join(dir, "operator.db"), &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer operators.Close()
	users := tenant.NewDirectory(records.New(operators, records.Options{}))
	acme, err := users.CreateTenant(ctx, tenant.Tenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: acme, Issuer: "i", Subject: "ada", Role: tenant.RoleWriter})
	if err != nil {
		t.Fatal(err)
	}
	hers, err := sqlite.Open(ctx, filepath.Join(dir, "ada.db"), &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer hers.Close()
	b := tidemark.Backend(hers)
	if sealed {
		slot, err := seal.FileSlot("test", seal.NewKeyFile())
		if err != nil {
			t.Fatal(err)
		}
		if b, err = seal.Create(ctx, hers, slot); err != nil {
			t.Fatal(err)
		}
	}
	s := store.New(b, nil)
	for i := range maxEraseBatch / 2 {
		w := s.Create(tidemark.Session{Title: fmt.Sprint("tides ", i)}, tidemark.Holder{Program: "test"})
		if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "about tides")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return dir, u.ID
}

// TestAKilledErasureGoesOn kills a process with SIGKILL after each of its commits in
// turn, until one lives to the end.
func TestAKilledErasureGoesOn(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		dir, ada := adaOnDisk(t, sealed)
		kills := 0
		for erasesUntilKilled(t, dir) {
			kills++
		}
		if kills < 2 {
			t.Errorf("killed %d times: it did too little", kills)
		}
		x, acme, err := onDisk(t.Context(), dir, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if u, err := x.Users.UserNamed(t.Context(), acme, "ada"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("still known: %+v, %v", u, err)
		}
		hers, err := x.Backend(t.Context(), tidemark.Principal{})
		if err != nil {
			t.Fatal(err)
		}
		for k, err := range hers.Walk(t.Context(), tidemark.Key{}) {
			t.Errorf("sealed %v, killed %d times, left: %v, %v", sealed, kills, k, err)
		}
		if e, err := x.Users.Erasure(t.Context(), acme.ID, ada); err != nil || e.State != tenant.ErasedAll || e.Sealed != sealed || e.Sessions != maxEraseBatch/2 {
			t.Errorf("the report: %+v, %v", e, err)
		}
		hers.Close()
		x.Users.Backend().Close()
	}
}

// erasesUntilKilled lets a process erase until it has committed once, and kills it. It
// reports whether there was something to kill.
func erasesUntilKilled(t *testing.T, dir string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), erasesIn+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	said.Scan()
	switch line := strings.TrimSpace(said.Text()); line {
	case "committed":
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed
		return true
	case "done":
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return false
	default:
		cmd.Wait()
		t.Fatalf("the process said %q", line)
		return false
	}
}
