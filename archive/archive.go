// Package archive writes everything that a Backend holds as one stream, and
// restores it: the same records at the same versions, the same lines of the same
// batches. It copies bodies as they are stored, so an archive of a sealed store
// is as sealed as the store, and needs no key. It knows nothing of sessions,
// never seeks, and never overwrites anything that differs.
// docs/formats/archive.md describes every byte.
//
//	m, err := archive.Write(ctx, os.Stdout, backend, nil)
//	m, err = archive.Read(ctx, os.Stdin, empty, nil)
package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// keyringKind is the kind of the records without which a sealed store cannot be
// opened. They go first, so that a target that is sealed with other keys is
// refused before anything is written to it.
const keyringKind = "keyring"

// dataKeyKind is the kind of the records with the keys of a sealed store. They have
// the id of what they open.
const dataKeyKind = "datakey"

// Format is the version of the archive format that this program writes. It reads
// that version and all earlier ones.
const Format = 1

// Manifest is what an archive says about itself, at its end.
type Manifest struct {
	Format   int               `json:"format"`
	MadeAt   time.Time         `json:"made_at"`
	Describe map[string]string `json:"describe,omitempty"` // by the caller of Write
	Since    *Base             `json:"since,omitempty"`    // of an incremental archive
	Sealed   bool              `json:"sealed"`             // the store has a keyring
	Keyring  bool              `json:"keyring"`            // and it is among the items
	Kinds    map[string]Count  `json:"kinds"`
	Count                      // over all kinds
	Gone     int64             `json:"gone"`    // keys that an incremental archive removes
	Damaged  int64             `json:"damaged"` // things that could not be read and are left out
	Items    int64             `json:"items"`
	Digest   string            `json:"digest"` // SHA-256 of every byte before the manifest, in hex

	// Keys lists everything that the store held when the archive was made, by
	// kind and then id: the starting point of an incremental archive. Write and
	// Inspect set it, Read does not.
	Keys []Kept `json:"-"`
}

// Base names the archive that an incremental one continues.
type Base struct {
	MadeAt time.Time `json:"made_at"`
	Digest string    `json:"digest"`
}

// Count is how much an archive holds.
type Count struct {
	Records int64 `json:"records"`
	Lines   int64 `json:"lines"`
	Bytes   int64 `json:"bytes"` // of bodies
}

func (c *Count) add(records, lines, bytes int64) {
	c.Records += records
	c.Lines += lines
	c.Bytes += bytes
}

// Kept is what an archive knows of one key.
type Kept struct {
	tidemark.Key
	Mark   Mark      // of the record; zero: there is none
	Length int64     // of the log
	Tail   uint32    // the Sum of its newest line
	At     time.Time // the UpdatedAt of its head
}

// Mark tells one state of a record from any other: the beginning of a SHA-256
// over all its fields, with the sum of its body in place of the body.
type Mark [16]byte

func (m Mark) String() string { return hex.EncodeToString(m[:]) }

func markOf(r *tidemark.Record) Mark {
	var buf [512]byte
	b := appendRecordHead(buf[:0], r)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Body)))
	sum := sha256.Sum256(b)
	return Mark(sum[:16])
}

// Progress is how far an operation is.
type Progress struct {
	Key     tidemark.Key // the current key
	Records int64
	Lines   int64
	Bytes   int64 // of bodies
	Packed  int64 // of the archive
}

func corruptf(format string, args ...any) error {
	return tidemark.Errorf(tidemark.ErrCorrupt, "archive: "+format, args...)
}
