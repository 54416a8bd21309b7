package main

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
)

func TestPurgeSaysWhatMayStillHoldTheSession(t *testing.T) {
	for what, inner := range map[string]tidemark.Backend{
		"overwritten and removed": &files.Backend{}, "its WAL file": &sqlite.Backend{}, "VACUUM": &postgres.Backend{}, "the server": &remote.Backend{},
	} {
		plain := (&app{opened: &open.Opened{Backend: inner, Inner: inner}}).remains()
		sealed := (&app{opened: &open.Opened{Backend: &seal.Backend{}, Inner: inner}}).remains()
		if !strings.Contains(plain, what) || !strings.Contains(plain, "not encrypted") || strings.Contains(plain, "data key") {
			t.Errorf("plain: %q", plain)
		}
		if !strings.Contains(sealed, what) || !strings.Contains(sealed, "wrapped data key") || !strings.Contains(sealed, "key rotate") {
			t.Errorf("sealed: %q", sealed)
		}
	}
}
