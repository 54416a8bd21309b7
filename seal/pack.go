package seal

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
)

const (
	// packingFormat is the first format in which bodies of lines may be
	// compressed.
	packingFormat = 2
	// packedFrom is the size from which a body is worth compressing: below it
	// the frame and the work are most of what it would save.
	packedFrom = 512
)

// packs reports whether the store may hold compressed bodies. One that an
// earlier program made stays as that program can read it.
func (r *ring) packs() bool { return r.header.Format >= packingFormat }

var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		// The tag notices what a checksum would.
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are wrong
		}
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(tidemark.MaxBodyBytes))
		if err != nil {
			panic(err)
		}
		return r
	})
	// packRooms hold compressed bodies until they are sealed.
	packRooms = sync.Pool{New: func() any { return new([]byte) }}
)

// pack returns a body as it is sealed, with its form: compressed where that
// saves an eighth of it or more. The body may lie in room, which the caller gives
// back.
func pack(body []byte, room *[]byte) ([]byte, byte) {
	if len(body) < packedFrom {
		return body, formOf(body)
	}
	*room = packer().EncodeAll(body, (*room)[:0])
	if len(*room) > len(body)-len(body)/8 {
		return body, formBody
	}
	return *room, formPacked
}
