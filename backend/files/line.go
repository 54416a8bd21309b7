package files

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// line is a line as it is written in a file: with the time of its batch, and its
// number among the lines of its append, so that a reader can tell a whole append
// from one that was cut off.
type line struct {
	tidemark.Line
	batchAt     time.Time
	part, parts int64  // 1 and 1 for a line that was appended alone
	by          string // the batch that adopted the line together with others, else ""
	tie         uint32
	scratch     []byte // for sums, kept from line to line as carried is
	carried
}

// sums returns the checksum of the line, and a second sum over what the first
// does not cover: a changed batch id or part would otherwise go unnoticed.
func (l *line) sums(log tidemark.Key) (sum, tie uint32) {
	sum = l.Checksum(log)
	return sum, l.tieTo(sum)
}

func (l *line) tieTo(sum uint32) uint32 {
	if l.scratch == nil {
		l.scratch = make([]byte, 0, 64)
	}
	b := binary.LittleEndian.AppendUint64(l.scratch[:0], uint64(l.batchAt.UnixMicro()))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.part))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.parts))
	b = append(b, l.Batch...)
	if l.by != "" {
		b = append(append(b, 0), l.by...)
	}
	l.scratch = b
	return crc32.Update(sum, castagnoli, b)
}

// writer returns the batch that wrote the line here: its own, unless it was
// adopted together with lines of others.
func (l *line) writer() string {
	if l.by != "" {
		return l.by
	}
	return l.Batch
}

// matches reports whether l is what was written.
func (l *line) matches(log tidemark.Key) bool {
	sum, tie := l.sums(log)
	return l.Sum == sum && l.tie == tie
}

var (
	errNotLine   = errors.New("not a line of a log")
	errNotRecord = errors.New("not a record")
	errSum       = errors.New("its checksum does not match")
)

// appendLine writes l with its newline.
func appendLine(dst []byte, log tidemark.Key, l *line) []byte {
	sum, tie := l.sums(log)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, l.Seq, 10)
	dst = append(dst, `,"at":`...)
	dst = appendTime(dst, l.At)
	dst = appendString(dst, `,"`, "kind", ":", l.Kind)
	if l.Key != "" {
		dst = appendString(dst, `,"`, "key", ":", l.Key)
	}
	dst = appendPosition(dst, l.Position, l.Chain)
	if l.parts != 1 {
		dst = append(dst, `,"part":[`...)
		dst = strconv.AppendInt(dst, l.part, 10)
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, l.parts, 10)
		dst = append(dst, ']')
	}
	dst = append(dst, `,"batch":`...)
	dst = appendText(dst, l.Batch)
	if l.by != "" {
		dst = append(dst, `,"by":`...)
		dst = appendText(dst, l.by)
	}
	if !l.batchAt.Equal(l.At) {
		dst = append(dst, `,"batch_at":`...)
		dst = appendTime(dst, l.batchAt)
	}
	dst = append(dst, `,"sum":"`...)
	dst = appendHex32(dst, sum)
	dst = appendHex32(dst, tie)
	dst = append(dst, '"')
	dst = appendBody(dst, ",", ":", l.Body, true)
	return append(dst, '}', '\n')
}

func appendPosition(dst []byte, p tidemark.Position, chain []byte) []byte {
	for _, n := range [...]struct {
		name string
		v    int64
	}{{`,"parent":`, p.Parent}, {`,"depth":`, p.Depth}, {`,"nodes":`, p.Nodes}, {`,"turn":`, p.Turn}} {
		if n.v != 0 {
			dst = append(dst, n.name...)
			dst = strconv.AppendInt(dst, n.v, 10)
		}
	}
	if len(chain) > 0 {
		dst = append(dst, `,"chain":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, chain)
		dst = append(dst, '"')
	}
	return dst
}

// position reads what appendPosition wrote.
func (s *scanner) position(p *tidemark.Position, chain *[]byte) bool {
	if !s.place(`,"parent":`, &p.Parent) || !s.place(`,"depth":`, &p.Depth) || !s.place(`,"nodes":`, &p.Nodes) || !s.place(`,"turn":`, &p.Turn) {
		return false
	}
	if s.literal(`,"chain":"`) {
		t, ok := s.text()
		if !ok || len(t) == 0 {
			return false
		}
		if *chain, ok = s.decode(t); !ok {
			return false
		}
	}
	return true
}

// place reads a member that is left out when it is zero.
func (s *scanner) place(name string, v *int64) bool {
	return !s.literal(name) || s.number(v) && *v != 0
}

// parseLine reads b, a line without its newline, into l and verifies its sums.
// The body of l is a part of b.
func parseLine(b []byte, log tidemark.Key, l *line) error {
	if scanLine(b, l) && l.matches(log) {
		return nil
	}
	if err := unmarshalLine(b, l); err != nil {
		return err
	}
	if !l.matches(log) {
		return errSum
	}
	return nil
}

// scanLine reads a line in the form that appendLine writes. It takes the body as
// it is; the sum tells whether it is intact.
func scanLine(b []byte, l *line) bool {
	kind, batch, by := l.Kind, l.Batch, l.by // of the previous line: usually the same
	*l = line{part: 1, parts: 1, scratch: l.scratch, carried: l.carried}
	s := scanner{b: b, carried: l.carried}
	defer func() { l.carried = s.carried }()
	if !s.literal(`{"seq":`) || !s.number(&l.Seq) || !s.literal(`,"at":"`) || !s.instant(&l.At) || !s.literal(`,"kind":"`) {
		return false
	}
	t, ok := s.text()
	if !ok {
		return false
	}
	l.Kind = kindOf(kind, t)
	if s.literal(`,"key":"`) {
		if t, ok = s.text(); !ok || len(t) == 0 {
			return false
		}
		l.Key = string(t)
	}
	if !s.position(&l.Position, &l.Chain) {
		return false
	}
	if s.literal(`,"part":[`) && !(s.number(&l.part) && s.literal(",") && s.number(&l.parts) && s.literal("]") && l.parts != 1) {
		return false
	}
	if !s.literal(`,"batch":"`) {
		return false
	}
	if l.Batch, ok = s.textLike(batch); !ok {
		return false
	}
	if s.literal(`,"by":"`) {
		if t, ok = s.text(); !ok || len(t) == 0 {
			return false
		}
		l.by = reuse(by, t)
	}
	l.batchAt = l.At
	if s.literal(`,"batch_at":"`) && !s.instant(&l.batchAt) {
		return false
	}
	var sums sumText
	if !s.literal(`,"sum":"`) || !s.sums(&sums) || !s.literal(`"`) {
		return false
	}
	l.Sum, l.tie = sums.sum, sums.tie
	return l.validPart() && s.body(&l.Body, `,"body":`, `,"data":"`, "}")
}

func (l *line) validPart() bool {
	return l.Seq >= 1 && 1 <= l.part && l.part <= l.parts && l.part <= l.Seq
}

// body reads the last member and the end of the object.
func (s *scanner) body(body *[]byte, verbatim, encoded, end string) bool {
	stop := len(s.b) - len(end)
	if s.i > stop || string(s.b[stop:]) != end {
		return false
	}
	if s.i == stop {
		return true
	}
	switch {
	case s.literal(verbatim):
		if s.i >= stop {
			return false
		}
		*body = s.b[s.i:stop:stop]
		return true
	case s.literal(encoded):
		if stop-1 <= s.i || s.b[stop-1] != '"' {
			return false
		}
		d, ok := s.decode(s.b[s.i : stop-1])
		*body = d
		return ok && len(d) > 0
	}
	return false
}

// reuse returns last when it equals text, which saves an allocation.
func reuse(last string, text []byte) string {
	if string(text) == last {
		return last
	}
	return string(text)
}

// kindOf is reuse for a kind: who speaks alternates from line to line.
func kindOf(last string, text []byte) string {
	switch string(text) {
	case string(tidemark.User):
		return string(tidemark.User)
	case string(tidemark.Assistant):
		return string(tidemark.Assistant)
	case string(tidemark.Tool):
		return string(tidemark.Tool)
	}
	return reuse(last, text)
}

// unmarshalLine reads a line in any form that JSON allows, as an editor or
// another program may have left it.
func unmarshalLine(b []byte, l *line) error {
	var v struct {
		Seq    int64     `json:"seq"`
		At     time.Time `json:"at"`
		Kind   string    `json:"kind"`
		Kind64 []byte    `json:"kind64"`
		Key    string    `json:"key"`
		Key64  []byte    `json:"key64"`
		tidemark.Position
		Chain   []byte          `json:"chain"`
		Part    *[2]int64       `json:"part"`
		Batch   string          `json:"batch"`
		By      string          `json:"by"`
		BatchAt *time.Time      `json:"batch_at"`
		Sum     *sumText        `json:"sum"`
		Body    json.RawMessage `json:"body"`
		Data    []byte          `json:"data"`
	}
	if err := json.Unmarshal(b, &v); err != nil || v.Sum == nil {
		return errNotLine
	}
	*l = line{part: 1, parts: 1, by: v.By, tie: v.Sum.tie, scratch: l.scratch}
	l.Line = tidemark.Line{Seq: v.Seq, At: v.At.UTC(), Kind: v.Kind + string(v.Kind64), Key: v.Key + string(v.Key64),
		Position: v.Position, Chain: v.Chain, Batch: v.Batch, Sum: v.Sum.sum, Body: v.Body}
	if v.Data != nil {
		l.Body = v.Data
	}
	if len(l.Chain) == 0 {
		l.Chain = nil
	}
	l.batchAt = l.At
	if v.BatchAt != nil {
		l.batchAt = v.BatchAt.UTC()
	}
	if v.Part != nil {
		l.part, l.parts = v.Part[0], v.Part[1]
	}
	if !l.validPart() {
		return errNotLine
	}
	return nil
}
