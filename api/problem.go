// Package api holds what a Tidemark server and its clients send each
// other: the wire types, and nothing that acts on them.
//
// It never opens a connection and knows no rules.
//
//	return api.ProblemOf(err)
package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// Problem is an error on the wire, in the form of RFC 9457.
type Problem struct {
	Type     string `json:"type,omitempty"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // the id of the request
	Code     string `json:"code"`               // the name in tidemark.Codes
	Hint     string `json:"hint,omitempty"`
	// RetryAfter is the number of seconds after which a retry may succeed.
	RetryAfter int          `json:"retry_after,omitempty"`
	Errors     []FieldError `json:"errors,omitempty"`
	Known      []Known      `json:"known,omitempty"`  // with exists: the receipt
	Damage     *Damage      `json:"damage,omitempty"` // with corrupt
}

// Known is a tidemark.Duplicate on the wire.
type Known struct {
	Log tidemark.Key `json:"log"`
	Key string       `json:"key"`
	Seq int64        `json:"seq"`
}

// Damage is a tidemark.Damage on the wire.
type Damage struct {
	tidemark.Key
	Seq   int64  `json:"seq,omitempty"`
	Place string `json:"place,omitempty"`
	What  string `json:"what"`
}

// FieldError is one thing that is wrong with a request. It never repeats the
// value.
type FieldError struct {
	Where string `json:"where,omitempty"`
	What  string `json:"what"`
}

// inside is the text for errors that a client can do nothing about.
const inside = "something went wrong inside the server; its log says what, under the id of this request"

// ProblemOf returns err in its wire form. Errors that match no sentinel
// reveal nothing internal.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	c := tidemark.CodeOf(err)
	p = &Problem{Status: c.HTTP, Title: http.StatusText(c.HTTP), Code: c.Name, Detail: err.Error()}
	if c.Name == "failed" {
		p.Detail = inside
	}
	var d *tidemark.Damage
	if c.Err == tidemark.ErrCorrupt && errors.As(err, &d) {
		p.Damage = &Damage{d.Key, d.Seq, d.Place, d.What}
	}
	return p
}

// WithReceipt adds the receipt of a commit to its problem.
func (p *Problem) WithReceipt(r tidemark.Receipt) *Problem {
	q := *p
	for _, k := range r.Duplicates {
		q.Known = append(q.Known, Known(k))
	}
	return &q
}

// Receipt returns the receipt of the commit.
func (p *Problem) Receipt() (r tidemark.Receipt) {
	for _, k := range p.Known {
		r.Duplicates = append(r.Duplicates, tidemark.Duplicate(k))
	}
	return r
}

// maxSaid bounds the texts of a problem that a client keeps.
const maxSaid = 2000

// ReadProblem reads a problem that a server sent. Its texts come from a
// stranger and go to a terminal: they are cut, and control characters are
// removed.
func ReadProblem(b []byte) (*Problem, error) {
	var p Problem
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, tidemark.Invalidf("problem: %w", err)
	}
	if p.Code == "" {
		return nil, tidemark.Invalidf("problem: has no code")
	}
	return p.Clean(), nil
}

// Clean returns the problem in a form that can be shown.
func (p *Problem) Clean() *Problem {
	q := *p
	for _, s := range []*string{&q.Type, &q.Title, &q.Detail, &q.Instance, &q.Code, &q.Hint} {
		*s = clean(*s)
	}
	if p.Damage != nil {
		d := *p.Damage
		d.Place, d.What = clean(d.Place), clean(d.What)
		q.Damage = &d
	}
	return &q
}

func clean(s string) string {
	if len(s) > maxSaid {
		s = s[:maxSaid] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Err returns the original error of the problem: a *tidemark.Damage, or p
// itself, which matches its sentinel.
func (p *Problem) Err() error {
	if d := p.Damage; d != nil && p.Is(tidemark.ErrCorrupt) {
		return &tidemark.Damage{Key: d.Key, Seq: d.Seq, Place: d.Place, What: d.What}
	}
	return p
}

// Error makes a Problem an error.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// Is makes a Problem match the sentinel that its code names.
func (p *Problem) Is(target error) bool {
	for _, c := range tidemark.Codes {
		if c.Name == p.Code {
			return c.Err == target
		}
	}
	return false
}

// GetStatus is the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are the headers of the answer.
func (p *Problem) GetHeaders() http.Header {
	h := make(http.Header)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	return h
}

// ContentType is the media type of the answer.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
