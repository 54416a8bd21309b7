package memory_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(testing.TB) func() tidemark.Backend {
		b := memory.New()
		return func() tidemark.Backend { return b.Again() }
	})
}
