package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// A cursor says behind which place the same question goes on. Anybody can make
// one up, and it helps nobody: it only leaves out what is before a place, and what
// is shown is read with the rights of whoever asks.

// place is where an answer goes on: behind a spot of a rank.
type place struct {
	rank rank
	spot spot
}

// compare is negative when p comes first in an answer.
func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.rank, o.rank), o.spot.compare(p.spot))
}

// cursorVersion changes with the order of answers: a place in another order leads
// nowhere.
const cursorVersion = 1

const (
	// maxCursorBytes is more than any cursor has: a log's id and an owner's have at
	// most tidemark.MaxIDBytes each, and of sessions it has keptShown numbers.
	maxCursorBytes = 8 << 10
	// keptShown is how many of the sessions that had as many hits listed as
	// Question.PerSession allows a cursor knows, the last ones: those of a dozen
	// answers and more, in an address that every browser and proxy takes.
	keptShown = 240
)

// keptCursor is the content of a cursor.
type keptCursor struct {
	Version  int    `json:"v"`
	Question string `json:"q"` // a sum of it
	Since    int64  `json:"t,omitempty"`
	Rank     rank   `json:"r"`
	At       int64  `json:"a"` // microseconds
	Kind     string `json:"k"`
	ID       string `json:"i"`
	Seq      int64  `json:"n"`
	Owner    string `json:"o,omitempty"`
	// Shown has 8 bytes for each session of which no more is listed.
	Shown []byte `json:"s,omitempty"`
}

// shown is what a session is known by in a cursor: two of one store with the same
// number do not happen by chance.
func shown(name string) string {
	sum := sha256.Sum256([]byte(name))
	return string(sum[:8])
}

// cursor is the place as text, for the question. full are the sessions that had all
// listed that may be, the oldest first.
func (q *Question) cursor(p place, full []string) string {
	c := keptCursor{cursorVersion, q.sum(), 0, p.rank, p.spot.At.UnixMicro(), p.spot.Log.Kind, p.spot.Log.ID, p.spot.Seq, p.spot.Owner, nil}
	for _, s := range full[max(len(full)-keptShown, 0):] {
		c.Shown = append(c.Shown, s...)
	}
	if !q.Since.IsZero() {
		c.Since = q.Since.UnixMicro()
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "" // it holds numbers and strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// goOn returns the place in Question.After with the sessions of which no more is
// listed, and sets Since to what it was at the first answer: an age like 7d is another
// instant each time it is asked for. ErrInvalid: no answer to this question gave it.
func (q *Question) goOn() (from place, full []string, err error) {
	if q.After == "" {
		return place{}, nil, nil
	}
	c, err := parseCursor(q.After)
	if err != nil {
		return place{}, nil, err
	}
	if c.Question != q.sum() || (c.Since == 0) != q.Since.IsZero() {
		return place{}, nil, tidemark.Invalidf("cursor: of another question; ask again without it")
	}
	if c.Since != 0 {
		q.Since = time.UnixMicro(c.Since).UTC()
	}
	if q.PerSession > 0 {
		for one := range slices.Chunk(c.Shown, 8) {
			full = append(full, string(one))
		}
	}
	log := tidemark.Key{Kind: c.Kind, ID: c.ID}
	return place{c.Rank, spot{At: time.UnixMicro(c.At).UTC(), Log: log, Seq: c.Seq, Owner: c.Owner}}, full, nil
}

// parseCursor reads the content of a cursor.
func parseCursor(text string) (c keptCursor, err error) {
	bad := tidemark.Invalidf("cursor %.20q…: not one that a search gave; ask again without it", text)
	if len(text) > maxCursorBytes {
		return c, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return c, bad
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if d.Decode(&c) != nil || d.InputOffset() != int64(len(b)) {
		return c, bad
	}
	if c.Version != cursorVersion {
		return c, tidemark.Invalidf("cursor: of another version of Tidemark; ask again without it")
	}
	if c.Rank < 0 || c.Rank >= ranks || len(c.Shown)%8 != 0 || c.Seq < 1 || c.Kind != kindDraft && !slices.Contains(searched, c.Kind) || (tidemark.Key{Kind: c.Kind, ID: c.ID}).Check() != nil {
		return c, bad
	}
	return c, nil
}

// sum tells questions apart. How many hits are asked for and how long is looked
// may differ from answer to answer.
func (q *Question) sum() string {
	b, err := json.Marshal([]any{q.Text, q.All, q.None, q.Session, q.Role, q.Agent, q.Project, q.Tag, q.Trash, q.Tool, q.Model, q.Until, q.Failed, q.Cost})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
