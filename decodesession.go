package tidemark

import (
	"bytes"
	"time"
)

// ParseSession reads a session from the body of its record, as this program writes
// such bodies. The result is what json.Unmarshal would make of the body, in a
// fraction of the time, and shares no memory with it: lists read it for each line
// that they show. It reports false for any other form, which may be a valid body all
// the same: encoding/json decides then.
func ParseSession(body []byte) (Session, bool) {
	var s Session
	var d Decoder
	if len(body) <= sharedText {
		d.texts.Grow(len(body)) // for all texts of the session
	}
	p := parser{b: body, d: &d}
	if !p.session(&s) {
		return Session{}, false
	}
	return s, true
}

func (p *parser) session(s *Session) bool {
	return p.eat('{') &&
		p.textField(`"id":`, (*string)(&s.ID)) &&
		p.textField(`"title":`, &s.Title) &&
		p.textField(`"agent":`, &s.Agent) &&
		p.textField(`"model":`, &s.Model) &&
		p.textField(`"mode":`, &s.Mode) &&
		p.textField(`"project":`, &s.Project) &&
		(!p.field(`"tags":`) || p.texts(&s.Tags)) &&
		(!p.field(`"base":`) || p.base(&s.Base)) &&
		p.textField(`"tool":`, &s.Tool) &&
		p.textField(`"foreign_id":`, &s.ForeignID) &&
		(!p.field(`"gone":`) || p.time(&s.Gone)) &&
		(!p.field(`"created_at":`) || p.time(&s.CreatedAt)) &&
		(!p.field(`"pinned":`) || p.yes(&s.Pinned)) &&
		(!p.field(`"on_hold":`) || p.yes(&s.OnHold)) &&
		p.intField(`"redacted":`, &s.Redacted) &&
		p.intField(`"charged":`, &s.Charged) &&
		(!p.field(`"handed":`) || p.yes(&s.Handed)) &&
		(!p.field(`"draft":`) || p.draft(&s.Draft)) &&
		(!p.field(`"extra":`) || p.raw(&s.Extra, 1)) &&
		p.eat('}') && p.i == len(p.b)
}

func (p *parser) texts(to *[]string) bool {
	if !p.eat('[') {
		return false
	}
	for {
		var s string
		if !p.text(&s) {
			return false
		}
		*to = append(*to, s)
		if !p.eat(',') {
			return p.eat(']')
		}
	}
}

func (p *parser) base(to **Base) bool {
	b := new(Base)
	*to = b
	return p.eat('{') &&
		p.textField(`"session":`, (*string)(&b.Session)) &&
		p.intField(`"seq":`, &b.Seq) &&
		(!p.field(`"owned":`) || p.yes(&b.Owned)) &&
		p.eat('}')
}

func (p *parser) draft(to **DraftSize) bool {
	d := new(DraftSize)
	*to = d
	return p.eat('{') && p.intField(`"after":`, &d.After) && p.intField(`"messages":`, &d.Messages) && p.eat('}')
}

// time reads a time without escapes in it.
func (p *parser) time(to *time.Time) bool {
	if p.i == len(p.b) || p.b[p.i] != '"' {
		return false
	}
	n := bytes.IndexByte(p.b[p.i+1:], '"')
	if n < 0 {
		return false
	}
	quoted := p.b[p.i : p.i+n+2]
	p.i += len(quoted)
	return to.UnmarshalJSON(quoted) == nil
}
