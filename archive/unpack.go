package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
)

// maxKinds is more kinds than any store has. It bounds what a forged archive can
// make its reader count.
const maxKinds = 4096

// unpacker reads the stream and verifies every part against its sums.
type unpacker struct {
	r      io.Reader
	sum    hash.Hash
	dec    *zstd.Decoder
	flags  uint16
	packed int64

	tally  Manifest // counted, to be compared with the manifest
	digest string   // of everything before the manifest
}

func newUnpacker(r io.Reader) (*unpacker, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxBlockBytes), zstd.WithDecoderMaxWindow(maxBlockBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	u := &unpacker{r: r, sum: sha256.New(), dec: dec}
	u.tally.Kinds = make(map[string]Count)
	return u, nil
}

// full reads all of b. An earlier end means that the archive was cut off.
func (u *unpacker) full(b []byte) error {
	n, err := io.ReadFull(u.r, b)
	u.packed += int64(n)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errCut
	}
	return fmt.Errorf("archive: %w", err)
}

var errCut = errors.New("archive: was cut off")

// cutAfter says how much of a cut-off archive is there.
func (u *unpacker) cutAfter(err error) error {
	if errors.Is(err, errCut) {
		return corruptf("was cut off after %d items", u.tally.Items)
	}
	return err
}

func (u *unpacker) header() error {
	var b [headerBytes]byte
	n, err := io.ReadFull(u.r, b[:])
	u.packed += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("archive: %w", err)
	}
	if m := min(n, len(magic)); n == 0 || string(b[:m]) != magic[:m] {
		return tidemark.Invalidf("not an archive of tidemark")
	}
	if n < headerBytes {
		return u.cutAfter(errCut)
	}
	if binary.LittleEndian.Uint32(b[12:]) != crc32.Checksum(b[:12], castagnoli) {
		return corruptf("its header does not match its sum")
	}
	version := binary.LittleEndian.Uint16(b[8:])
	u.flags = binary.LittleEndian.Uint16(b[10:])
	if version > Format {
		return &tidemark.NewerError{What: "archive", Format: int64(version), Known: Format}
	}
	if unknown := u.flags &^ flagsKnown; unknown != 0 {
		return tidemark.Unsupportedf("archive: has flags that this program does not know (%#x), made by a newer one", unknown)
	}
	if version < 1 {
		return corruptf("has format %d", version)
	}
	u.sum.Write(b[:])
	return nil
}

// block is what one block holds, unpacked.
type block struct {
	kind   byte
	plain  []byte
	packed int64 // the offset in the archive after it
	err    error
}

// blocks reads up to and including the manifest.
func (u *unpacker) blocks(ctx context.Context, out chan<- block) {
	for {
		b, err := u.block()
		b.err, b.packed = err, u.packed
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
		if err != nil || b.kind == manifestBlock {
			return
		}
	}
}

func (u *unpacker) block() (b block, err error) {
	var head [blockHeaderBytes]byte
	if err := u.full(head[:]); err != nil {
		return b, err
	}
	b.kind = head[0]
	plain, packed := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	limit := uint32(maxBlockBytes)
	switch b.kind {
	case itemsBlock:
	case manifestBlock:
		limit = maxManifestBytes
		u.digest = hex.EncodeToString(u.sum.Sum(nil))
	default:
		return b, corruptf("a block of the unknown type %q", b.kind)
	}
	if plain > limit || packed > maxPackedBytes {
		return b, corruptf("a block of %d bytes that unpacks to %d, at most %d are allowed", packed, plain, limit)
	}
	// A claimed size must not cost memory: the buffer grows with the bytes that
	// arrive.
	var in bytes.Buffer
	in.Grow(int(min(packed, blockBytes)))
	n, err := io.CopyN(&in, u.r, int64(packed))
	u.packed += n
	if err == io.EOF {
		return b, errCut
	}
	if err != nil {
		return b, fmt.Errorf("archive: %w", err)
	}
	if binary.LittleEndian.Uint32(head[9:]) != blockSum(head[:], in.Bytes()) {
		return b, corruptf("a block does not match its sum")
	}
	u.sum.Write(head[:])
	u.sum.Write(in.Bytes())
	// The decoder stops at the capacity, so a frame that unpacks to more than it
	// claims is refused before it does.
	b.plain, err = u.dec.DecodeAll(in.Bytes(), make([]byte, 0, plain))
	if err != nil || len(b.plain) != int(plain) {
		return b, corruptf("a block does not unpack to the %d bytes that it says", plain)
	}
	return b, nil
}

// end reads what follows the manifest, and expects nothing after that.
func (u *unpacker) end() error {
	var b [1 + sha256.Size]byte
	if err := u.full(b[:]); err != nil {
		return err
	}
	if b[0] != endMark || !bytes.Equal(b[1:], u.sum.Sum(nil)) {
		return corruptf("does not match its digest")
	}
	n, err := io.ReadFull(u.r, b[:1])
	if n != 0 {
		return corruptf("goes on behind its end")
	}
	if err != io.EOF {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// items reads what follows the header and calls take for each item as it comes,
// and step after each block. The bodies of an item share memory that is not
// reused. Blocks are read and unpacked on another goroutine, which is not waited
// for: it may be inside a read that never ends.
func (u *unpacker) items(ctx context.Context, take func(*item) error, step func(packed int64) error) (Manifest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan block, 1)
	go u.blocks(ctx, blocks)
	for {
		var b block
		select {
		case b = <-blocks:
		case <-ctx.Done():
			return Manifest{}, ctx.Err()
		}
		if b.err != nil {
			return Manifest{}, u.cutAfter(b.err)
		}
		if b.kind == manifestBlock {
			m, err := u.manifest(b.plain)
			return m, u.cutAfter(err)
		}
		if err := u.take(b.plain, take); err != nil {
			return Manifest{}, err
		}
		if err := step(b.packed); err != nil {
			return Manifest{}, err
		}
	}
}

func (u *unpacker) take(plain []byte, take func(*item) error) error {
	p := parser{b: plain}
	var it item
	for len(p.b) > 0 {
		err := p.next(&it)
		if err == nil {
			err = u.tally.count(&it)
		}
		if err != nil {
			return fmt.Errorf("%w (item %d)", err, u.tally.Items+1)
		}
		if err := take(&it); err != nil {
			return err
		}
	}
	return nil
}

// count adds an item to the counts of m.
func (m *Manifest) count(it *item) error {
	m.Items++
	switch it.kind {
	case recordItem:
		m.Keyring = m.Keyring || it.record.Kind == keyringKind
		return m.countKind(it.record.Kind, 1, 0, int64(len(it.record.Body)))
	case linesItem:
		bytes := int64(0)
		for i := range it.lines.Lines {
			bytes += int64(len(it.lines.Lines[i].Body))
		}
		return m.countKind(it.lines.Log.Kind, 0, int64(len(it.lines.Lines)), bytes)
	case goneItem:
		m.Gone++
	}
	return nil
}

func (m *Manifest) countKind(kind string, records, lines, bytes int64) error {
	c, known := m.Kinds[kind]
	if !known && len(m.Kinds) == maxKinds {
		return corruptf("more than %d kinds", maxKinds)
	}
	c.add(records, lines, bytes)
	m.Kinds[kind] = c
	m.Count.add(records, lines, bytes)
	return nil
}

// manifest compares what the archive says of itself with its content.
func (u *unpacker) manifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return m, corruptf("its manifest cannot be read: %v", err)
	}
	if err := u.end(); err != nil {
		return m, err
	}
	t := &u.tally
	if m.Digest != u.digest || m.Items != t.Items || m.Count != t.Count || m.Gone != t.Gone || m.Keyring != t.Keyring ||
		m.Sealed != (u.flags&flagSealed != 0) || (m.Since != nil) != (u.flags&flagSince != 0) || !maps.Equal(m.Kinds, t.Kinds) {
		return m, corruptf("its manifest does not match what it holds")
	}
	return m, nil
}
