package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// What is written here has to be what the driver would write.
func TestParametersAreWrittenAsTheDriverWritesThem(t *testing.T) {
	text, number := "low tide", int64(-7)
	var noText *string
	var noNumber *int64
	before := time.Date(1, 1, 1, 0, 0, 0, 999, time.UTC)
	half := time.Date(2026, 11, 18, 9, 30, 0, 123_456_789, time.FixedZone("", 3600))
	all := []any{
		nil, noText, noNumber, []byte(nil),
		id{1, 2, 15: 9}, text, "", &text, number, &number, half, before, []byte{}, []byte{0, 255},
		[]id{}, []id{{1}, {2}}, []string{}, []string{"a", "", "mole"}, []*string{&text, nil, &text}, []*string{&text},
		[]int64{}, []int64{1, -1, 1 << 62}, []*int64{nil, &number}, []int32{3, -3}, []bool{true, false}, []time.Time{before, half},
		[][]byte{}, [][]byte{nil, {}, {1, 2}}, [][]byte{{1}},
	}
	w, types := new(wire), pgtype.NewMap()
	for range 2 { // the second time in what the first one left
		w.ends, w.oids, w.values, w.buf = w.ends[:0], w.oids[:0], w.values[:0], w.buf[:0]
		for _, a := range all {
			w.add(a)
		}
		for i, got := range w.all() {
			if all[i] == nil {
				if got != nil || w.oids[i] != 0 {
					t.Errorf("nil is %x", got)
				}
				continue
			}
			want, err := types.Encode(w.oids[i], pgtype.BinaryFormatCode, all[i], []byte{})
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%T %v is written as %x, want %x, %v", all[i], all[i], got, want, err)
			}
		}
	}
}
