package seal_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

func inSQLite(t testing.TB) func() tidemark.Backend {
	path := filepath.Join(t.TempDir(), "store.db")
	return func() tidemark.Backend {
		b := must[*sqlite.Backend](t)(sqlite.Open(ctx, path, &sqlite.Options{Create: true}))
		t.Cleanup(func() { b.Close() })
		return b
	}
}

func TestBackendOverSQLite(t *testing.T) { backendtest.Run(t, sealedPlace(inSQLite)) }
