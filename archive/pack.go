package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
)

// The stream is a header, blocks of items, the manifest as a block of its own,
// and an end. Each block is one zstd frame preceded by its two sizes, so that
// neither side ever holds more than some blocks.
const (
	magic       = "\x89TMARC\r\n"
	headerBytes = 16

	flagSince  = 1 << 0 // an incremental archive
	flagSealed = 1 << 1 // the store has a keyring
	flagsKnown = flagSince | flagSealed

	itemsBlock       = 'B'
	manifestBlock    = 'M'
	endMark          = 'E'
	blockHeaderBytes = 1 + 4 + 4 + 4
)

const (
	// blockBytes is the size at which a block is closed. Smaller ones compress
	// worse, larger ones take more memory on both sides and gain nothing.
	blockBytes = 1 << 20
	// maxBlockBytes bounds what a block unpacks to: one item of the largest
	// size.
	maxBlockBytes = maxItemBytes + itemFrameBytes
	// maxPackedBytes is above what zstd makes of that when it cannot compress
	// it.
	maxPackedBytes = maxBlockBytes + maxBlockBytes>>7 + 1<<10
	// maxManifestBytes bounds the manifest, which people read.
	maxManifestBytes = 1 << 20
)

func header(flags uint16) []byte {
	b := append(make([]byte, 0, headerBytes), magic...)
	b = binary.LittleEndian.AppendUint16(b, Format)
	b = binary.LittleEndian.AppendUint16(b, flags)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func blockHeader(kind byte, plain int, packed []byte) []byte {
	b := append(make([]byte, 0, blockHeaderBytes), kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(plain))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(packed)))
	return binary.LittleEndian.AppendUint32(b, blockSum(b, packed))
}

// blockSum covers the sizes as well: a changed size must not be trusted.
func blockSum(head, packed []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:9], castagnoli), castagnoli, packed)
}

// packer writes the stream. Blocks are compressed on other goroutines and
// written in order by one, so that reading, compressing and writing run in
// parallel.
type packer struct {
	enc    *zstd.Encoder
	plain  []byte
	order  chan *packing
	done   chan struct{} // closed when the writing goroutine ends
	failed chan struct{} // closed when w fails
	sum    hash.Hash
	w      io.Writer
	err    error // of w; read it only after failed, settle or done
	packed atomic.Int64
	spare  sync.Pool // of blocks that are written, to be filled again
}

// packing is a block in progress.
type packing struct {
	kind  byte
	plain []byte
	ready chan []byte
	sync  chan struct{} // in place of a block: closed when all before it is written
}

// packersAhead is how many blocks are compressed at once.
func packersAhead() int { return min(runtime.GOMAXPROCS(0), 4) }

func newPacker(w io.Writer, flags uint16) (*packer, error) {
	// What is sealed has no bytes that are more frequent than others: to look for them
	// would take as long as everything else, for nothing.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(packersAhead()), zstd.WithWindowSize(blockBytes), zstd.WithLowerEncoderMem(true),
		zstd.WithNoEntropyCompression(flags&flagSealed != 0))
	if err != nil {
		return nil, err
	}
	p := &packer{enc: enc, order: make(chan *packing, packersAhead()), done: make(chan struct{}), failed: make(chan struct{}),
		sum: sha256.New(), w: w}
	p.write(header(flags))
	go p.run()
	return p, nil
}

func (p *packer) run() {
	defer close(p.done)
	for b := range p.order {
		if b.sync != nil {
			close(b.sync)
			continue
		}
		packed := <-b.ready
		p.write(blockHeader(b.kind, len(b.plain), packed))
		p.write(packed)
		p.spareBlock(b.plain)
		p.spareBlock(packed)
	}
}

// block returns an empty block with room for so many bytes.
func (p *packer) block(size int) []byte {
	if b, ok := p.spare.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, max(blockBytes, size))
}

// spareBlock takes back a block that nobody needs. One of the largest items would only
// take memory.
func (p *packer) spareBlock(b []byte) {
	if cap(b) <= 2*blockBytes {
		p.spare.Put(&b)
	}
}

func (p *packer) write(b []byte) {
	if p.err != nil {
		return
	}
	p.sum.Write(b)
	n, err := p.w.Write(b)
	p.packed.Add(int64(n))
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		p.err = fmt.Errorf("archive: %w", err)
		close(p.failed)
	}
}

// item adds an item to the block that is being filled.
func (p *packer) item(it *item) error {
	size := it.size()
	if len(p.plain)+size > blockBytes {
		if err := p.flush(itemsBlock); err != nil {
			return err
		}
	}
	if p.plain == nil {
		p.plain = p.block(size)
	}
	p.plain = appendItem(p.plain, it)
	return nil
}

// flush passes the block on to be compressed and written.
func (p *packer) flush(kind byte) error {
	if len(p.plain) == 0 {
		return nil
	}
	b := &packing{kind: kind, plain: p.plain, ready: make(chan []byte, 1)}
	p.plain = nil
	select {
	case <-p.failed:
		return p.err
	case p.order <- b:
	}
	go func() { b.ready <- p.enc.EncodeAll(b.plain, p.block(len(b.plain)/2+1<<10)) }()
	if len(b.plain) > 4*blockBytes {
		return p.settle() // several of these at once would take much memory
	}
	return nil
}

// settle waits until everything that was flushed is written.
func (p *packer) settle() error {
	written := make(chan struct{})
	select {
	case <-p.failed:
		return p.err
	case p.order <- &packing{sync: written}:
	}
	<-written
	return p.err
}

// finish writes the manifest, with the digest of everything before it, and the
// end.
func (p *packer) finish(m *Manifest) error {
	if err := errors.Join(p.flush(itemsBlock), p.settle()); err != nil {
		return err
	}
	m.Digest = hex.EncodeToString(p.sum.Sum(nil))
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxManifestBytes {
		return tidemark.Invalidf("archive: the manifest has %d bytes, at most %d are allowed: describe less", len(b), maxManifestBytes)
	}
	p.plain = b
	if err := errors.Join(p.flush(manifestBlock), p.settle()); err != nil {
		return err
	}
	p.write(append([]byte{endMark}, p.sum.Sum(nil)...))
	return p.err
}

// close ends the goroutines.
func (p *packer) close() {
	close(p.order)
	<-p.done
	p.enc.Close()
}
