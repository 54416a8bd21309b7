package wire

import (
	"net/http/httptest"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

func TestAnAttemptIsItsCallersWhateverTheHeader(t *testing.T) {
	repeats := newRepeats()
	done := 0
	for _, user := range []string{"jo", "kim", ""} {
		r := httptest.NewRequest("POST", "/api/v1/backend/commit", nil)
		r.Header.Set(api.AttemptHeader, "one")
		r = r.WithContext(request.WithCaller(r.Context(), request.Caller{Principal: tidemark.TenantOf("a", user)}))
		if _, repeated, err := repeats.commitOnce(r, [32]byte{1}, func() (tidemark.Receipt, error) { done++; return tidemark.Receipt{}, nil }); repeated || err != nil {
			t.Errorf("%q: repeated %v, %v", user, repeated, err)
		}
	}
	if done != 3 {
		t.Errorf("%d of 3 were done", done)
	}
}
