package tenant_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

func TestAResponseIsKeptForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tenant.NewResponses(records.New(memory.New(), records.Options{}))
		ctx := t.Context()
		for range 2 {
			if answer, err := s.Begin(ctx, "k", "sum"); err != nil || answer != nil {
				t.Fatalf("%s %v", answer, err)
			}
		}
		if err := s.Save(ctx, "k", "sum", []byte(`"done"`)); err != nil {
			t.Fatal(err)
		}
		if answer, err := s.Begin(ctx, "k", "sum"); err != nil || string(answer) != `"done"` {
			t.Errorf("%s %v", answer, err)
		}
		if _, err := s.Begin(ctx, "k", "other"); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("another request: %v, want ErrConflict", err)
		}
		if n, err := s.Forget(ctx, 10); n != 0 || err != nil {
			t.Errorf("%d forgotten, %v", n, err)
		}
		time.Sleep(25 * time.Hour)
		if answer, err := s.Begin(ctx, "k", "other"); err != nil || answer != nil {
			t.Errorf("a day later: %s %v", answer, err)
		}
		time.Sleep(25 * time.Hour)
		if n, err := s.Forget(ctx, 10); n != 1 || err != nil {
			t.Errorf("%d forgotten, %v", n, err)
		}
	})
}
