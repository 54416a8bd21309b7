package records

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Records are decoded as encoding/json would, which wrote the first of them.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"id":"s1","title":"a \u00e4 \ud800 b","tags":["x",null],"created_at":"2026-11-15T10:00:00Z","usage":{"input":1}}`,
		`{"ID":"upper","id":"twice","title":"\xff","extra":{"a":{"b":[1,2.50,1e400]}}}`,
		`{"started_at":"yesterday"}`, `{"started_at":null,"duration_seconds":1e3,"attempt":2.0}`, `[]`, `null`, ` {} `, `{"id":1}`, `{"id":"a"} x`, ``,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		decodesAlike[tidemark.Session](t, body)
		decodesAlike[tidemark.Job](t, body)
		decodesAlike[Lease](t, body)
		decodesAlike[map[string]json.RawMessage](t, body)
	})
}

func decodesAlike[T any](t *testing.T, body []byte) {
	t.Helper()
	var got, want T
	err, wanted := Decode(tidemark.Record{Body: body}, &got), json.Unmarshal(body, &want)
	if (err == nil) != (wanted == nil) {
		t.Fatalf("%T from %q: %v, and encoding/json says: %v", got, body, err, wanted)
	}
	var damage *tidemark.Damage
	if err != nil && !errors.As(err, &damage) {
		t.Errorf("%q: %v is no Damage", body, err)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%T from %q: %+v, and encoding/json has: %+v", got, body, got, want)
	}
}

func TestATimeIsCutToMicroseconds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zone := time.FixedZone("elsewhere", -5*3600)
	times := []time.Time{{}, time.Now(), time.Date(0, 3, 1, 0, 0, 0, 999_999_999, zone), time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC)}
	for range 1000 {
		times = append(times, time.Unix(random.Int64N(1<<38)-1<<37, random.Int64N(1e9)).In(zone))
	}
	for _, at := range times {
		// Truncate is many times as slow, and every append asks for some five times.
		if got, want := Keepable(at), at.UTC().Truncate(time.Microsecond); got != want {
			t.Fatalf("Keepable(%v) = %#v, want %#v", at, got, want)
		}
	}
}
