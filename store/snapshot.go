package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The bounds of what a session keeps of files.
const (
	DefaultSnapshotFile    = 16 << 20  // bytes of one content
	DefaultSnapshotSession = 512 << 20 // bytes of all contents of a session
)

// snapshotTally is the record of what a session's snapshots take.
type snapshotTally struct {
	Bytes    int64 `json:"bytes"`
	Contents int64 `json:"contents"`
}

// tallying is the state of that record, which is no file.
const tallying = "snapshots"

// KeepSnapshot keeps the contents in s, equal ones once, and then an entry with s;
// it returns the entry as it is kept when all of it is durable. Contents beyond
// most bytes in the whole session are left out, and so are those with secrets that
// may not be kept; their versions say so in Lost. Most of 0 means
// DefaultSnapshotSession. ErrConflict: the lease is lost.
func (w *Writer) KeepSnapshot(ctx context.Context, s tidemark.Snapshot, most int64) (tidemark.Entry, error) {
	if most == 0 {
		most = DefaultSnapshotSession
	}
	w.held.Lock()
	defer w.held.Unlock()
	if !w.held.IsTaken() {
		return tidemark.Entry{}, tidemark.NotFoundf("session %s: nothing was said yet", w.id)
	}
	k := &contentKeeper{w: w, most: most}
	r, err := w.s.k.Get(ctx, keyOf(kindFile, w.id, tallying), &k.tally)
	if err != nil {
		return tidemark.Entry{}, err
	}
	k.version = r.Version
	for i, f := range s.Files {
		if !utf8.ValidString(f.Path) { // it would be another name when it is read
			s.Files[i].Path, s.Files[i].Before.Lost, s.Files[i].After.Lost = strings.ToValidUTF8(f.Path, "\uFFFD"), "its name is not text", "its name is not text"
		}
		for _, v := range []*tidemark.FileVersion{&s.Files[i].Before, &s.Files[i].After} {
			if err := k.keep(ctx, v); err != nil {
				return tidemark.Entry{}, w.held.Lost(ctx, err)
			}
		}
	}
	if err := k.flush(ctx); err != nil {
		return tidemark.Entry{}, w.held.Lost(ctx, err)
	}
	extra, err := records.Encode(map[string]any{"snapshot": s})
	if err != nil {
		return tidemark.Entry{}, err
	}
	e := tidemark.Entry{Kind: tidemark.KindSnapshot, At: w.s.k.Now(), Extra: extra, Blocks: []tidemark.Block{tidemark.Text(s.Summary())}}
	seqs, err := w.append(ctx, w.main, []tidemark.Entry{e})
	if err != nil {
		return tidemark.Entry{}, err
	}
	e.Seq = seqs[0]
	return e, nil
}

// contentBatch is about how many bytes of contents are committed at once.
const contentBatch = 4 << 20

// contentKeeper keeps the contents of one snapshot.
type contentKeeper struct {
	w       *Writer
	most    int64
	tally   snapshotTally
	version int64 // of the tally's record
	known   map[string]bool

	appends []tidemark.Append
	bytes   int // in appends
}

// keep keeps the content of a version, and says in it where that is or why it is
// not kept. What it adds is durable after flush.
func (k *contentKeeper) keep(ctx context.Context, v *tidemark.FileVersion) error {
	if v.Kind != tidemark.VersionFile || v.Lost != "" || v.Content != "" {
		return nil
	}
	sum := sha256.Sum256(v.Data)
	v.Size, v.SHA256 = int64(len(v.Data)), hex.EncodeToString(sum[:])
	data, lost, err := k.w.maskContent(ctx, v.Data)
	if v.Lost = lost; err != nil || lost != "" {
		return err
	}
	address := k.w.s.contentAddress(data)
	log := keyOf(kindFile, k.w.id, address)
	has := int64(0)
	if !k.known[address] {
		r, err := k.w.s.k.Get(ctx, log, nil)
		if err != nil {
			return err
		}
		has = r.Head.Length
	}
	// A writer that died left the first lines of a content, which are those
	// that would be written now.
	left := data[min(int(has)*chunkBytes, len(data)):]
	if k.known[address] {
		left = nil
	}
	if len(left) > 0 && k.tally.Bytes+int64(len(left)) > k.most {
		v.Lost = fmt.Sprintf("the snapshots of this session have %d bytes, and at most %d are kept", k.tally.Bytes, k.most)
		return nil
	}
	v.Content = address
	if k.known == nil {
		k.known = make(map[string]bool)
	}
	k.known[address] = true
	if len(left) > 0 {
		k.tally.Bytes += int64(len(left))
		k.tally.Contents++
	}
	for len(left) > 0 {
		n := min(len(left), chunkBytes)
		has++
		if err := k.add(ctx, log, has, left[:n]); err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// add adds a line to the next commit.
func (k *contentKeeper) add(ctx context.Context, log tidemark.Key, seq int64, chunk []byte) error {
	l := tidemark.Line{Seq: seq, Kind: "chunk", At: k.w.s.k.Now(), Body: bytes.Clone(chunk)}
	l.Sum = l.Checksum(log)
	if n := len(k.appends); n > 0 && k.appends[n-1].Log == log {
		k.appends[n-1].Lines = append(k.appends[n-1].Lines, l)
	} else {
		k.appends = append(k.appends, tidemark.Append{Log: log, Lines: []tidemark.Line{l}})
	}
	if k.bytes += len(chunk); k.bytes < contentBatch {
		return nil
	}
	return k.flush(ctx)
}

// flush commits what was added, together with what it takes.
func (k *contentKeeper) flush(ctx context.Context) error {
	if len(k.appends) == 0 {
		return nil
	}
	b := tidemark.Batch{At: k.w.s.k.Now(), Appends: k.appends}
	r, err := records.Put(keyOf(kindFile, k.w.id, tallying), k.version, k.tally)
	if err != nil {
		return err
	}
	r.State = tallying
	b.Puts = append(b.Puts, r)
	if err := k.w.held.Guard(&b, false); err != nil {
		return err
	}
	if _, err := k.w.s.k.Commit(ctx, b); err != nil {
		return err
	}
	k.version++
	k.appends, k.bytes = nil, 0
	return nil
}

// contentAddress names a content. In a sealed store the name does not tell what
// it is of. Two hashes are as long as nobody can make two contents for.
func (s *Store) contentAddress(data []byte) string {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	return s.k.Hash("snapshot", name) + s.k.Hash("snapshot, too", name)
}

// isAddress reports whether a name may be the address of a content: entries also
// come from elsewhere.
func isAddress(name string) bool {
	return tidemark.CheckID(name) == nil && !strings.Contains(name, ".")
}

// maskContent returns a content as it may be kept, or why it may not be: what a
// mask stands for has to be in the vault, or the file could not be put back as it
// was.
func (w *Writer) maskContent(ctx context.Context, data []byte) (kept []byte, lost string, err error) {
	if !w.s.vault.Looks() || !w.s.vault.Redaction().Masks() {
		return data, "", nil
	}
	r := &redactingReader{vault: w.s.vault, owner: string(w.id), from: bytes.NewReader(data)}
	masked, err := io.ReadAll(r)
	if err != nil || bytes.Equal(masked, data) {
		return data, "", err
	}
	open := tidemark.Unmask(string(masked), func(mark string) (string, bool) { v, ok := r.values[mark]; return v.Value, ok })
	if open != string(data) {
		return nil, "it has secrets, which are masked and not kept", nil
	}
	return masked, "", w.s.vault.Keep(ctx, string(w.id), r.values)
}

// Content returns the content of a version of a file, as it was: ErrNotFound when
// it is not kept, or not any more; a *tidemark.Damage when what is kept is
// something else.
func (v *View) Content(ctx context.Context, version tidemark.FileVersion) ([]byte, error) {
	err := v.HasContent(ctx, version)
	if err != nil || version.Kind != tidemark.VersionFile || version.Size == 0 {
		return nil, err
	}
	for log, found := range v.contentLogs(ctx, v.ID, version.Content) {
		if found != nil {
			return nil, found
		}
		data, found := v.openContent(ctx, log, version)
		if found == nil || !errors.Is(found, tidemark.ErrCorrupt) {
			return data, found
		}
		err = found // an interrupted purge leaves a part of a copy
	}
	return nil, err
}

// HasContent returns nil when the content of a version is kept, and ErrNotFound with
// the reason when it is not. It does not read it.
func (v *View) HasContent(ctx context.Context, version tidemark.FileVersion) error {
	switch {
	case version.Kind != tidemark.VersionFile:
		return nil
	case version.Lost != "":
		return tidemark.NotFoundf("%s", version.Lost)
	case !isAddress(version.Content):
		return tidemark.NotFoundf("where its content is kept is not known")
	case version.Size == 0:
		return nil
	}
	for _, err := range v.contentLogs(ctx, v.ID, version.Content) {
		return err
	}
	return tidemark.NotFoundf("its content is not kept any more")
}

// openContent reads a content, and what stands behind the masks in it.
func (v *View) openContent(ctx context.Context, log tidemark.Key, version tidemark.FileVersion) ([]byte, error) {
	data, err := v.s.content(ctx, log)
	if err != nil || sameContent(data, version) {
		return data, err
	}
	var failed error
	data = []byte(tidemark.Unmask(string(data), func(mark string) (string, bool) {
		kept, ok, err := v.vaulted(ctx, mark)
		failed = errors.Join(failed, err)
		return kept.Value, ok
	}))
	if failed == nil && !sameContent(data, version) {
		failed = &tidemark.Damage{Key: log, What: "a snapshot: not what was kept"}
	}
	return data, failed
}

// content reads what is kept of a content.
func (s *Store) content(ctx context.Context, log tidemark.Key) ([]byte, error) {
	var data []byte
	for l, err := range s.backend.Lines(ctx, log) {
		if err != nil {
			return nil, err
		}
		data = append(data, l.Body...)
	}
	return data, nil
}

func sameContent(data []byte, v tidemark.FileVersion) bool {
	sum := sha256.Sum256(data)
	return int64(len(data)) == v.Size && hex.EncodeToString(sum[:]) == v.SHA256
}

// contentLogs yields the logs that hold a content, in a session or, if that is a
// fork, in the sessions it came from.
func (v *View) contentLogs(ctx context.Context, id tidemark.SessionID, address string) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for seen := make(map[tidemark.SessionID]bool); !seen[id]; {
			seen[id] = true
			r, err := v.s.k.Get(ctx, keyOf(kindFile, id, address), nil)
			if err != nil {
				yield(r.Key, err)
				return
			}
			if r.Head.Length > 0 && !yield(r.Key, nil) {
				return
			}
			i, err := v.s.Session(ctx, id)
			if err != nil || i.Base == nil || i.Base.Owned {
				return
			}
			id = i.Base.Session
		}
	}
}

// ContentSecrets returns the secrets in what the session itself keeps of a content,
// with their fingerprints.
func (v *View) ContentSecrets(ctx context.Context, version tidemark.FileVersion) ([]Secret, error) {
	if !isAddress(version.Content) {
		return nil, nil
	}
	data, err := v.s.content(ctx, keyOf(kindFile, v.ID, version.Content))
	if err != nil || !utf8.Valid(data) {
		return nil, err
	}
	secrets := v.s.vault.Find(tidemark.Entry{Kind: tidemark.KindMessage, Blocks: []tidemark.Block{tidemark.Text(string(data))}})
	for i, s := range secrets {
		if 0 <= s.From && s.From < s.To && s.To <= len(data) {
			secrets[i].Fingerprint = v.s.vault.Fingerprint(string(data[s.From:s.To]))
		}
	}
	return secrets, nil
}

// DropContent removes a content from the session: files with it cannot be put back
// any more. It needs no lease. A content that is not there is no error.
func (v *View) DropContent(ctx context.Context, version tidemark.FileVersion) error {
	if !isAddress(version.Content) {
		return nil
	}
	_, err := v.s.k.Commit(ctx, tidemark.Batch{Drops: []tidemark.Key{keyOf(kindFile, v.ID, version.Content)}})
	return err
}

// contentsOf returns the addresses of what a snapshot keeps.
func contentsOf(s tidemark.Snapshot) (all []string) {
	for _, f := range s.Files {
		for _, v := range []tidemark.FileVersion{f.Before, f.After} {
			if isAddress(v.Content) {
				all = append(all, v.Content)
			}
		}
	}
	return all
}

// ownContents gives a fork its own copy of the contents that snapshots on the path
// that it shares name, and of no others.
func (v *View) ownContents(ctx context.Context, segments []segment, runs []seqRun) error {
	copied := make(map[string]bool)
	for _, r := range runs {
		for e, err := range v.entries(ctx, segments, r.from, r.to) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			s, ok := tidemark.SnapshotOf(e)
			if err != nil || !ok {
				continue
			}
			for _, address := range contentsOf(s) {
				if copied[address] {
					continue
				}
				copied[address] = true
				if err := v.copyContent(ctx, address); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// copyContent copies a content into the fork, from where an interrupted copy
// ended. What cannot be read is left out, as the entries are.
func (v *View) copyContent(ctx context.Context, address string) error {
	to := keyOf(kindFile, v.ID, address)
	have, err := v.s.k.Get(ctx, to, nil)
	if err != nil {
		return err
	}
	for from, err := range v.contentLogs(ctx, v.Base.Session, address) {
		if err != nil {
			return err
		}
		return v.copyLines(ctx, from, to, have.Head.Length+1)
	}
	return nil
}

// copyLines copies the lines of a content, each in a commit of its own: it has a
// quarter of a megabyte.
func (v *View) copyLines(ctx context.Context, from, to tidemark.Key, next int64) error {
	c := &pastCopy{s: v.s, log: to, next: next}
	for l, err := range v.s.backend.Lines(ctx, from, tidemark.Span{From: next}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			return nil
		}
		if err != nil {
			return err
		}
		l.Batch, l.Chain = "", nil
		if err := c.line(ctx, l); err != nil {
			return err
		}
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fileLogs returns the logs with the contents of a session's files and snapshots.
// Those of snapshots have no records.
func (s *Store) fileLogs(ctx context.Context, id tidemark.SessionID) (logs []tidemark.Key, err error) {
	prefix := string(id) + "."
	for key, err := range s.backend.Walk(ctx, tidemark.Key{Kind: kindFile, ID: string(id)}) {
		if err != nil {
			return nil, err
		}
		if key.Kind != kindFile || !strings.HasPrefix(key.ID, prefix) {
			break
		}
		logs = append(logs, key)
	}
	return logs, nil
}
