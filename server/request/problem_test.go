package request

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// sqlError is an error of a database, which says more than a client may know.
type sqlError struct{}

func (sqlError) Error() string    { return "ERROR: relation tidemark.line of role tidemark_server" }
func (sqlError) SQLState() string { return "00000" }

func TestErrorsOfADatabaseAreToldApartWithoutItsWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		detail string
	}{
		"a full disk":       {tidemark.Storagef("%w: %w", syscall.ENOSPC, sqlError{}), 507, "the disk of the store is full"},
		"away":              {tidemark.Storagef("%w", sqlError{}), 503, "the store cannot be reached"},
		"damage":            {tidemark.Errorf(tidemark.ErrCorrupt, "%w", sqlError{}), 500, "the store is damaged"},
		"a wrong statement": {fmt.Errorf("database db.example: %w", sqlError{}), 500, ""},
		"a policy":          {tidemark.Deniedf("%w", sqlError{}), 403, "the store does not take this"},
	} {
		p := Problem(c.err)
		if p.Status != c.status || !strings.Contains(p.Detail, c.detail) || strings.Contains(p.Detail, "tidemark") || strings.Contains(p.Detail, "db.example") {
			t.Errorf("%s: %d %q, want %d %q", name, p.Status, p.Detail, c.status, c.detail)
		}
	}
}
