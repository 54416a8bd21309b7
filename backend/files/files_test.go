package files_test

import (
	"context"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

func open(t testing.TB, dir string, o *files.Options) *files.Backend {
	t.Helper()
	b, err := files.Open(context.Background(), dir, o)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) func() tidemark.Backend {
		dir := t.TempDir()
		return func() tidemark.Backend { return open(t, dir, &files.Options{Create: true, Listed: listedKinds}) }
	})
}
