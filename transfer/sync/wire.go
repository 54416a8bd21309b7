package sync

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// format is the version of what a remote holds. docs/formats/remote.md describes it.
const format = 1

// shards is into how many parts the sessions of a machine are divided, so that a
// change rewrites the list of a few, and an unchanged part is known by its hash.
const shards = 256

// Name is what an entry is called on every machine: the machine that first gave it to
// a remote, and its line in the log there. Session is set where it is not clear. What
// a fork shares with its source is called by its place on the way to the fork, which
// stays when the source is purged.
type Name struct {
	Session tidemark.SessionID `json:"session,omitempty"`
	Machine string             `json:"machine,omitempty"`
	Line    int64              `json:"line,omitempty"`
	Past    int64              `json:"past,omitempty"` // from 1 on; the others are empty, but Session
}

// head is what a machine says of all that it keeps at a remote.
type head struct {
	Format     int            `json:"format"`
	Machine    string         `json:"machine"`
	Name       string         `json:"name"`
	Generation int64          `json:"generation"` // one more with each head
	At         time.Time      `json:"at"`
	Shards     map[int]string `json:"shards"` // the hash of each that is not empty
}

func (h *head) check(machine string) error {
	switch {
	case h.Format > format:
		return &tidemark.NewerError{What: "the remote", Format: int64(h.Format), Known: format}
	case h.Format != format || h.Machine != machine || h.Generation < 1 || len(h.Name) > maxName:
		return corruptf("no head of machine %s", machine)
	}
	for n, hash := range h.Shards {
		if n < 0 || n >= shards || !isHash(hash) {
			return corruptf("no shard %d", n)
		}
	}
	return nil
}

// shard lists a part of the sessions of a machine.
type shard struct {
	Sessions []*kept `json:"sessions"`
}

// kept is what a machine keeps of one session.
type kept struct {
	ID     tidemark.SessionID `json:"id"`
	Purged bool               `json:"purged,omitempty"` // the rest is empty
	Keys   []sessionKey       `json:"keys,omitempty"`
	About  *blob              `json:"about,omitempty"`
	Logs   []keptLog          `json:"logs,omitempty"`
}

// sessionKey is a key of a session. Another one is made when the key of the keyring
// has changed, so that who could open the earlier ones cannot open what is added.
type sessionKey struct {
	Under string       `json:"under"` // the key of the keyring at that time
	Key   seal.BlobKey `json:"key"`
}

// blob names a blob and the key that opens it.
type blob struct {
	Hash string `json:"hash"`
	Key  int    `json:"key"`           // the index of its key
	Sum  string `json:"sum,omitempty"` // of what is in it
}

// keptLog is the log of a session or, with a Worker, of that.
//
// The log called pastLog is no log: it is the path that a fork begins after, for
// machines that never had its source, which was purged.
type keptLog struct {
	Worker   string    `json:"worker,omitempty"`
	Segments []segment `json:"segments"`
}

const pastLog = "/past" // no worker can be called so

// segment is a run of lines of a log.
type segment struct {
	blob
	From   int64 `json:"from"`
	To     int64 `json:"to"`
	Others int64 `json:"others,omitempty"` // how many of these lines are not in it: another machine keeps them, or nobody needs them
	Bytes  int64 `json:"bytes"`
}

// to is the last line of the log that is kept.
func (l *keptLog) to() int64 {
	if l == nil || len(l.Segments) == 0 {
		return 0
	}
	return l.Segments[len(l.Segments)-1].To
}

// after counts the lines after one that the machine itself keeps.
func (l *keptLog) after(line int64) int64 {
	n := int64(0)
	for _, s := range l.Segments {
		if s.To > line {
			n += min(s.To-line, s.To-s.From+1-s.Others)
		}
	}
	return max(0, n)
}

func (k *kept) log(worker string) *keptLog {
	for i := range k.Logs {
		if k.Logs[i].Worker == worker {
			return &k.Logs[i]
		}
	}
	return nil
}

func (s *shard) find(id tidemark.SessionID) *kept {
	i := slices.IndexFunc(s.Sessions, func(k *kept) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return s.Sessions[i]
}

// check returns ErrCorrupt for what no program of ours writes, so that nothing else
// has to doubt it.
func (s *shard) check(number int) error {
	for _, k := range s.Sessions {
		if k == nil {
			return corruptf("a session of nothing")
		}
		if _, err := tidemark.ParseSessionID(string(k.ID)); err != nil || shardOf(k.ID) != number {
			return corruptf("session %.40q: not in this shard", k.ID)
		}
		if k.About != nil && !k.has(*k.About) || k.About == nil && !k.Purged {
			return corruptf("session %s: nothing about it", k.ID)
		}
		for _, l := range k.Logs {
			if l.Worker != "" && l.Worker != pastLog && store.CheckWorker(l.Worker) != nil {
				return corruptf("session %s: a worker of no name", k.ID)
			}
			next := int64(1)
			for _, seg := range l.Segments {
				if !k.has(seg.blob) || seg.From != next || seg.To < seg.From || seg.To-seg.From > maxItems {
					return corruptf("session %s: lines %d to %d: not in a row", k.ID, seg.From, seg.To)
				}
				next = seg.To + 1
			}
		}
	}
	return nil
}

func (k *kept) has(b blob) bool { return isHash(b.Hash) && b.Key >= 0 && b.Key < len(k.Keys) }

// about is what a machine says about a session.
type about struct {
	Session   tidemark.Session    `json:"session"`
	Base      *Name               `json:"base,omitempty"` // of a fork: the entry that it begins after
	Registers map[string]register `json:"registers,omitempty"`
}

// item is one or several lines of a segment: a line itself, lines that another
// machine keeps at the same remote, or lines that are nobody else's concern.
type item struct {
	Line  *line `json:"line,omitempty"`
	Same  *same `json:"same,omitempty"`
	Local int64 `json:"local,omitempty"` // how many
}

// line is a line of a log with the lines that it names as they are counted by the
// machine that keeps it.
type line struct {
	Kind   string          `json:"kind"`
	Key    string          `json:"key,omitempty"`
	At     time.Time       `json:"at"`
	Parent int64           `json:"parent,omitempty"` // 0: it has none
	Past   *Name           `json:"past,omitempty"`   // of a fork: its parent in what it shares
	Born   *Name           `json:"born,omitempty"`   // where it was first, if elsewhere
	Body   json.RawMessage `json:"body,omitempty"`
}

// same says that lines are those of another machine.
type same struct {
	Machine string `json:"machine"`
	Line    int64  `json:"line"`
	Count   int64  `json:"count"`
}

// count is how many lines the item stands for.
func (i *item) count() int64 {
	switch {
	case i.Line != nil:
		return 1
	case i.Same != nil:
		return i.Same.Count
	}
	return i.Local
}

func (i *item) check() error {
	switch kinds := btoi(i.Line != nil) + btoi(i.Same != nil) + btoi(i.Local != 0); {
	case kinds != 1, i.Local < 0,
		i.Same != nil && (i.Same.Count < 1 || i.Same.Line < 1 || !isMachine(i.Same.Machine)),
		i.Line != nil && (i.Line.Parent < 0 || !i.Line.Past.ok() || !i.Line.Born.ok()):
		return corruptf("not a line, nor several")
	}
	return nil
}

func (n *Name) ok() bool {
	switch {
	case n == nil:
		return true
	case n.Past != 0:
		return n.Past > 0 && n.Session != "" && n.Machine == "" && n.Line == 0
	}
	return isMachine(n.Machine) && n.Line > 0
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The bounds of a segment. It is cut where it is large enough to be worth a blob of
// its own; one line may be as large as a store keeps.
const (
	segmentBytes = 1 << 20
	maxItems     = 1 << 24
	maxPlain     = tidemark.MaxBodyBytes + 8<<20
	maxName      = 200
)

// pack returns items one a line, compressed.
func pack(items []item) ([]byte, error) {
	var b bytes.Buffer
	for i := range items {
		text, err := records.Encode(items[i])
		if err != nil {
			return nil, err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return compress(b.Bytes()), nil
}

// unpack reads what pack returned: items that stand for count lines. ErrCorrupt.
func unpack(data []byte, count int64) ([]item, error) {
	plain, err := decompress(data)
	if err != nil {
		return nil, err
	}
	var items []item
	for text := range bytes.Lines(plain) {
		i, err := readItem(text)
		if err != nil {
			return nil, err
		}
		if err := i.check(); err != nil {
			return nil, err
		}
		if n := i.count(); n > count {
			return nil, corruptf("more lines than it says")
		} else {
			count -= n
		}
		items = append(items, i)
	}
	if count != 0 {
		return nil, corruptf("fewer lines than it says")
	}
	return items, nil
}

// zip and unzip compress and decompress, each for all: making one takes longer than
// most blobs do.
var (
	zip = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(segmentBytes))
		if err != nil {
			panic(err) // the options are always the same
		}
		return w
	})
	unzip = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return r
	})
)

func compress(plain []byte) []byte { return zip().EncodeAll(plain, nil) }

func decompress(data []byte) ([]byte, error) {
	plain, err := unzip().DecodeAll(data, nil)
	if err != nil {
		return nil, corruptf("cannot be decompressed, or is too long")
	}
	return plain, nil
}

// encode and decode write and read everything but segments.
func encode(v any) ([]byte, error) {
	b, err := records.Encode(v)
	if err != nil {
		return nil, err
	}
	return compress(b), nil
}

func decode(data []byte, into any) error {
	plain, err := decompress(data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return corruptf("cannot be read: %v", err)
	}
	return nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == hex.EncodeToString(b)
}

// isMachine reports whether s is the id of a machine.
func isMachine(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == machineBytes && s == hex.EncodeToString(b)
}

func shardOf(id tidemark.SessionID) int {
	sum := sha256.Sum256([]byte(id))
	return int(sum[0])
}

func corruptf(what string, args ...any) error {
	return tidemark.Errorf(tidemark.ErrCorrupt, what, args...)
}

// The names of blobs, and what each is sealed as.
func headName(machine string) string    { return "m/" + machine + "/head" }
func machineName(machine string) string { return "machines/" + machine }
func blobName(machine, hash string) string {
	return "m/" + machine + "/b/" + hash[:2] + "/" + hash
}

func sealedHead(machine string) string         { return "head " + machine }
func sealedShard(machine string, n int) string { return "shard " + machine + " " + strconv.Itoa(n) }
func sealedAbout(machine string, id tidemark.SessionID) string {
	return "about " + machine + " " + string(id)
}
func sealedSegment(machine string, id tidemark.SessionID, worker string, s segment) string {
	return "segment " + machine + " " + string(id) + " " + worker + " " + strconv.FormatInt(s.From, 10) + " " + strconv.FormatInt(s.To, 10)
}
