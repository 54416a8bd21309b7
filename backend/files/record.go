package files

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// tieOfRecord is a sum over what Record.Checksum does not cover.
func tieOfRecord(r *tidemark.Record) uint32 {
	text := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
	}
	var buf [512]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(r.Version))
	b = text(b, r.Kind)
	b = text(b, r.ID)
	b = text(b, r.Group)
	b = text(b, r.State)
	due := int64(0)
	if !r.Due.IsZero() {
		due = r.Due.UnixMicro()
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(due))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.UpdatedAt.UnixMicro()))
	b = text(b, r.Batch)
	return crc32.Update(r.Sum, castagnoli, b)
}

// appendRecord writes the file of r: one member per line, so that a diff shows
// which one changed.
func appendRecord(dst []byte, r *tidemark.Record) []byte {
	dst = append(dst, "{\n  \"kind\": "...)
	dst = appendText(dst, r.Kind)
	dst = append(dst, ",\n  \"id\": "...)
	dst = appendText(dst, r.ID)
	dst = append(dst, ",\n  \"version\": "...)
	dst = strconv.AppendInt(dst, r.Version, 10)
	if r.Group != "" {
		dst = appendString(dst, ",\n  \"", "group", ": ", r.Group)
	}
	if r.State != "" {
		dst = appendString(dst, ",\n  \"", "state", ": ", r.State)
	}
	if !r.Due.IsZero() {
		dst = append(dst, ",\n  \"due_at\": "...)
		dst = appendTime(dst, r.Due)
	}
	dst = append(dst, ",\n  \"updated_at\": "...)
	dst = appendTime(dst, r.UpdatedAt)
	dst = append(dst, ",\n  \"batch\": "...)
	dst = appendText(dst, r.Batch)
	dst = append(dst, ",\n  \"sum\": \""...)
	dst = appendHex32(dst, r.Sum)
	dst = appendHex32(dst, tieOfRecord(r))
	dst = append(dst, '"')
	if r.Head.Length > 0 {
		dst = append(dst, ",\n  \"lines\": \""...)
		dst = appendFloor(dst, r.Key, r.Head.Length)
		dst = append(dst, '"')
	}
	dst = appendBody(dst, ",\n  ", ": ", r.Body, false)
	return append(dst, "\n}\n"...)
}

// parseRecord reads the file of the record key. With errSum, the envelope can
// still be right: sound says so, and then Version can be trusted.
func parseRecord(b []byte, key tidemark.Key) (r tidemark.Record, sound bool, err error) {
	var tie uint32
	if !scanRecord(b, &r, &tie) || tie != tieOfRecord(&r) || r.Sum != r.Checksum() {
		if err := unmarshalRecord(b, &r, &tie); err != nil {
			return tidemark.Record{Key: key}, false, err
		}
	}
	sound = tie == tieOfRecord(&r) && r.Key == key && r.Version >= 1
	if !sound || r.Sum != r.Checksum() || r.Head.Length < 0 {
		err = errSum
	}
	return r, sound, err
}

// scanRecord reads a record in the form that appendRecord writes.
func scanRecord(b []byte, r *tidemark.Record, tie *uint32) bool {
	s := scanner{b: b}
	text := func(v *string) bool {
		t, ok := s.text()
		*v = string(t)
		return ok
	}
	*r = tidemark.Record{}
	if !s.literal("{\n  \"kind\": \"") || !text(&r.Kind) || !s.literal(",\n  \"id\": \"") || !text(&r.ID) ||
		!s.literal(",\n  \"version\": ") || !s.number(&r.Version) {
		return false
	}
	if s.literal(",\n  \"group\": ") && !(s.literal("\"") && text(&r.Group)) {
		return false
	}
	if s.literal(",\n  \"state\": ") && !(s.literal("\"") && text(&r.State)) {
		return false
	}
	if s.literal(",\n  \"due_at\": \"") && !s.instant(&r.Due) {
		return false
	}
	if !s.literal(",\n  \"updated_at\": \"") || !s.instant(&r.UpdatedAt) || !s.literal(",\n  \"batch\": \"") || !text(&r.Batch) {
		return false
	}
	var sums sumText
	if !s.literal(",\n  \"sum\": \"") || !s.sums(&sums) || !s.literal("\"") {
		return false
	}
	r.Sum, *tie = sums.sum, sums.tie
	if s.literal(",\n  \"lines\": \"") {
		t, ok := s.text()
		if !ok {
			return false
		}
		r.Head.Length = parseFloor(t, r.Key)
	}
	return s.body(&r.Body, ",\n  \"body\": ", ",\n  \"data\": \"", "\n}\n")
}

// unmarshalRecord reads a record in any form that JSON allows.
func unmarshalRecord(b []byte, r *tidemark.Record, tie *uint32) error {
	var v struct {
		tidemark.Key
		Version   int64           `json:"version"`
		Group     string          `json:"group"`
		Group64   []byte          `json:"group64"`
		State     string          `json:"state"`
		State64   []byte          `json:"state64"`
		Due       *time.Time      `json:"due_at"`
		UpdatedAt time.Time       `json:"updated_at"`
		Batch     string          `json:"batch"`
		Sum       *sumText        `json:"sum"`
		Lines     *string         `json:"lines"`
		Body      json.RawMessage `json:"body"`
		Data      []byte          `json:"data"`
	}
	if err := json.Unmarshal(b, &v); err != nil || v.Sum == nil {
		return errNotRecord
	}
	*r = tidemark.Record{Key: v.Key, Version: v.Version, Group: v.Group + string(v.Group64), State: v.State + string(v.State64),
		UpdatedAt: v.UpdatedAt.UTC(), Batch: v.Batch, Body: v.Body, Sum: v.Sum.sum}
	if v.Due != nil {
		r.Due = v.Due.UTC()
	}
	if v.Data != nil {
		r.Body = v.Data
	}
	if v.Lines != nil {
		r.Head.Length = parseFloor([]byte(*v.Lines), v.Key)
	}
	*tie = v.Sum.tie
	return nil
}
