package seal

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

func TestLongBodiesAreCompressedAndOpenAsTheyWere(t *testing.T) {
	noise := make([]byte, 4<<10)
	rand.Read(noise)
	said := func(n int) []byte { return bytes.Repeat([]byte("the tide comes twice a day. "), n/28+1)[:n] }
	log := tidemark.Key{Kind: "entries", ID: string(tidemark.NewSessionID())}
	bodies := map[string]struct {
		body   []byte
		packed bool // in a store of a format that has it
	}{
		"none": {nil, false}, "empty": {[]byte{}, false}, "short": {said(packedFrom - 1), false}, "long enough": {said(packedFrom), true},
		"noise": {noise, false}, "a megabyte": {said(1 << 20), true}, "as long as may be": {said(tidemark.MaxBodyBytes - 1<<10), true},
	}
	for format := 1; format <= Format; format++ {
		inner := memory.New()
		slot, err := FileSlot("test", NewKeyFile())
		if err != nil {
			t.Fatal(err)
		}
		b, err := Create(t.Context(), inner, slot)
		if err != nil {
			t.Fatal(err)
		}
		b.ring.Load().header.Format = format
		var want []tidemark.Line
		for _, c := range bodies {
			l := tidemark.Line{Seq: int64(len(want)) + 1, Kind: "message", At: time.UnixMicro(1).UTC(), Body: c.body}
			l.Sum = l.Checksum(log)
			if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: time.UnixMicro(1).UTC(), Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}); err != nil {
				t.Fatal(err)
			}
			want = append(want, l)
		}
		fresh := newBackend(inner, b.ring.Load(), &opener{})
		n := 0
		for l, err := range fresh.Lines(t.Context(), log, tidemark.Span{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(l.Body, want[n].Body) || (l.Body == nil) != (want[n].Body == nil) {
				t.Errorf("format %d: line %d has %d bytes, was %d", format, l.Seq, len(l.Body), len(want[n].Body))
			}
			n++
		}
		if n != len(want) {
			t.Errorf("format %d: %d lines, want %d", format, n, len(want))
		}
		for l, err := range inner.Lines(t.Context(), log, tidemark.Span{}) {
			if err != nil {
				t.Fatal(err)
			}
			was := want[l.Seq-1].Body
			wanted := false
			for _, c := range bodies {
				wanted = wanted || c.packed && format >= packingFormat && bytes.Equal(c.body, was)
			}
			if packed := l.Body[0] == formPacked; packed != wanted || packed && len(l.Body) > len(was)/2 {
				t.Errorf("format %d: a body of %d bytes is kept as %d bytes of form %d", format, len(was), len(l.Body), l.Body[0])
			}
		}
	}
}
