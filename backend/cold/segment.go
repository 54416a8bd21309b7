package cold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
)

// A segment is a run of lines of one log: a beginning that names the log, then each
// line as an archive has it, all of it one zstd frame. docs/formats/cold.md
// describes every byte.
const segmentBegin = "tidemark-cold-1\n"

// maxUnpacked bounds what a segment unpacks to: one line of the largest size, or
// what was collected before it.
const maxUnpacked = tidemark.MaxBodyBytes + 2<<20

// packer collects the lines of a segment.
type packer struct {
	log         tidemark.Key
	first, last int64
	data        []byte
}

func (p *packer) add(l tidemark.Line) {
	if len(p.data) == 0 {
		p.first = l.Seq
		p.data = append(p.data, segmentBegin...)
		p.data = appendText(p.data, p.log.Kind)
		p.data = appendText(p.data, p.log.ID)
		p.data = binary.LittleEndian.AppendUint64(p.data, uint64(l.Seq))
	}
	p.last = l.Seq
	for _, n := range [...]int64{l.At.UnixMicro(), l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn} {
		p.data = binary.LittleEndian.AppendUint64(p.data, uint64(n))
	}
	p.data = binary.LittleEndian.AppendUint32(p.data, l.Sum)
	for _, s := range [...]string{l.Kind, l.Key, l.Batch, string(l.Chain)} {
		p.data = appendText(p.data, s)
	}
	p.data = binary.LittleEndian.AppendUint32(p.data, uint32(len(l.Body)))
	p.data = append(p.data, l.Body...)
}

func appendText(dst []byte, s string) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// pack returns the segment, and empties the packer.
func (p *packer) pack() ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	data := w.EncodeAll(p.data, nil)
	p.data = p.data[:0]
	return data, nil
}

// unpacker takes segments apart. To make one costs more than a short segment; it may be
// used concurrently.
type unpacker struct {
	once sync.Once
	r    *zstd.Decoder
	err  error
}

func (u *unpacker) reader() (*zstd.Decoder, error) {
	u.once.Do(func() {
		u.r, u.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderLowmem(true))
	})
	return u.r, u.err
}

var errNoSegment = errors.New("its segment cannot be unpacked")

// decode returns the lines of a segment, and how large it is unpacked. Each is checked
// against its sum: a segment of another log has none that fits.
func (u *unpacker) decode(data []byte, log tidemark.Key) (lines []tidemark.Line, size int, err error) {
	r, err := u.reader()
	if err != nil {
		return nil, 0, err
	}
	plain, err := r.DecodeAll(data, nil)
	if err != nil {
		return nil, 0, errNoSegment
	}
	s := reader{b: plain}
	if string(s.take(len(segmentBegin))) != segmentBegin || s.text() != log.Kind || s.text() != log.ID {
		return nil, 0, errors.New("its segment is of another log, or of a newer program")
	}
	for seq := s.int(); len(s.b) > 0 && !s.short; seq++ {
		l := tidemark.Line{Seq: seq, At: time.UnixMicro(s.int()).UTC()}
		l.Position = tidemark.Position{Parent: s.int(), Depth: s.int(), Nodes: s.int(), Turn: s.int()}
		l.Sum = s.uint32()
		l.Kind, l.Key, l.Batch = s.text(), s.text(), s.text()
		if chain := s.text(); chain != "" {
			l.Chain = []byte(chain)
		}
		l.Body = s.take(int(s.uint32()))
		if l.Body = l.Body[:len(l.Body):len(l.Body)]; !s.short && l.Sum != l.Checksum(log) {
			return nil, 0, fmt.Errorf("line %d of its segment does not match its sum", seq)
		}
		lines = append(lines, l)
	}
	if s.short || len(lines) == 0 {
		return nil, 0, errNoSegment
	}
	return lines, len(plain), nil
}

// reader takes apart what packer put together; short says that something is missing.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) || n < 0 {
		r.short, r.b = true, nil
		return nil
	}
	got := r.b[:n]
	r.b = r.b[n:]
	return got
}

func (r *reader) int() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) text() string {
	if b := r.take(2); b != nil {
		return string(r.take(int(binary.LittleEndian.Uint16(b))))
	}
	return ""
}
