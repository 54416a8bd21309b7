package opencode

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// wireMessage is a message without its parts.
type wireMessage struct {
	Role    string `json:"role"`
	ModelID string `json:"modelID"`
	By      string `json:"providerID"`
	Model   struct {
		ModelID string `json:"modelID"`
		By      string `json:"providerID"`
	} `json:"model"`
	Time struct {
		Created   float64 `json:"created"`
		Completed float64 `json:"completed"`
	} `json:"time"`
	Path struct {
		Cwd string `json:"cwd"`
	} `json:"path"`
	Cost    float64         `json:"cost"`
	Tokens  *wireTokens     `json:"tokens"`
	Error   *wireError      `json:"error"`
	Summary json.RawMessage `json:"summary"` // of an answer: true; of a prompt: an object
}

type wireError struct {
	Name string `json:"name"`
	Data struct {
		Message string `json:"message"`
	} `json:"data"`
}

type wireTokens struct {
	Total     float64 `json:"total"`
	Input     float64 `json:"input"`
	Output    float64 `json:"output"`
	Reasoning float64 `json:"reasoning"`
	Cache     struct {
		Read  float64 `json:"read"`
		Write float64 `json:"write"`
	} `json:"cache"`
}

// wirePart is a part of a message.
type wirePart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Synthetic bool            `json:"synthetic"`
	Ignored   bool            `json:"ignored"`
	Prompt    string          `json:"prompt"`
	Mime      string          `json:"mime"`
	Filename  string          `json:"filename"`
	URL       string          `json:"url"`
	Metadata  json.RawMessage `json:"metadata"`
	Tool      string          `json:"tool"`
	CallID    string          `json:"callID"`
	Cost      float64         `json:"cost"`
	Tokens    *wireTokens     `json:"tokens"`
	State     struct {
		Status      string          `json:"status"`
		Input       json.RawMessage `json:"input"`
		Output      string          `json:"output"`
		Error       string          `json:"error"`
		Attachments []wirePart      `json:"attachments"`
		Metadata    struct {
			SessionID  string `json:"sessionId"`
			OutputPath string `json:"outputPath"`
		} `json:"metadata"`
		Time struct {
			End float64 `json:"end"`
		} `json:"time"`
	} `json:"state"`
}

func (m wireMessage) model() string {
	if m.ModelID != "" {
		return m.ModelID
	}
	return m.Model.ModelID
}

// usage is the usage of an answer. Where a total is given, thinking is counted
// in addition to the output, otherwise within it.
func usage(t *wireTokens, cost float64) *tidemark.Usage {
	if t == nil {
		t = &wireTokens{}
	}
	u := tidemark.Usage{InputTokens: convert.Count(t.Input), OutputTokens: convert.Count(t.Output),
		CacheReadTokens: convert.Count(t.Cache.Read), CacheWriteTokens: convert.Count(t.Cache.Write), CostUSD: cost}
	if t.Total > 0 && t.Total != t.Input+t.Output+t.Cache.Read+t.Cache.Write {
		u.OutputTokens += convert.Count(t.Reasoning)
	}
	if u == (tidemark.Usage{}) {
		return nil
	}
	return &u
}

// sum adds two usages, either of which may be nil.
func sum(a, b *tidemark.Usage) *tidemark.Usage {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return &tidemark.Usage{InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
		CostUSD: a.CostUSD + b.CostUSD}
}

// maxMessage bounds the parts of one message, which are held together.
const maxMessage = 2 * convert.MaxLine

// entries yields the entries of a session: each follows the previous one. An answer is
// final once it was completed, or another one has begun; a prompt once something
// follows it, because its parts are written after it. With made, that is called with
// each message that has entries, and the ID of the last of them.
func entries(ctx context.Context, st store, session string, made func(message, last string)) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		seen := map[string]bool{}
		var held []convert.Entry // those that are not final yet
		answering := false       // the first of them is of an answer
		release := func() bool {
			for _, e := range held {
				if !yield(e, nil) {
					return false
				}
			}
			held, answering = nil, false
			return true
		}
		var last time.Time
		for m, err := range st.messages(ctx, session) {
			if ctx.Err() != nil {
				yield(convert.Entry{}, ctx.Err())
				return
			}
			what := fmt.Sprintf("session %s: message %s", session, m.id)
			var w wireMessage
			switch {
			case err != nil:
			case m.id == "" || seen[m.id]:
				err = convert.Skipf(what, "its id is empty or there twice")
			default:
				if bad := json.Unmarshal(m.data, &w); bad != nil {
					err = &convert.Skip{What: what, Why: tidemark.Invalidf("%w", bad)}
				} else if w.Role != "user" && w.Role != "assistant" {
					err = convert.Skipf(what, "role %.40q is not known", w.Role)
				}
			}
			if err != nil {
				if !yield(convert.Entry{}, err) {
					return
				}
				continue
			}
			seen[m.id] = true
			b, skips := gather(ctx, st, session, m, w, "")
			if b.at.IsZero() {
				b.at = last
			}
			last = b.at
			for _, skip := range skips {
				if !yield(convert.Entry{}, skip) {
					return
				}
			}
			answers := w.Role == "assistant"
			if (answers || !answering) && !release() {
				return
			}
			answering = answering || answers
			held = append(held, b.entries()...)
			if n := len(held); made != nil && n > 0 {
				made(m.id, held[n-1].ID)
			}
			if w.complete() && !release() {
				return
			}
		}
		for i := range held {
			held[i].Draft = true
		}
		release()
	}
}

// gather reads the parts of a message, up to the part until if it is not empty.
func gather(ctx context.Context, st store, session string, m item, w wireMessage, until string) (b *builder, skips []error) {
	b = &builder{id: m.id, at: convert.Milli(w.Time.Created), msg: w, fields: map[string]json.RawMessage{}}
	b.keep(m.data)
	room := maxMessage
	for p, err := range st.parts(ctx, session, m.id) {
		if until != "" && p.id >= until {
			break
		}
		var part wirePart
		if err == nil {
			if room -= len(p.data); room < 0 {
				return b, append(skips, convert.Skipf(fmt.Sprintf("session %s: message %s", session, m.id), "its parts are longer than %d bytes", maxMessage))
			}
			if bad := json.Unmarshal(p.data, &part); bad != nil {
				err = &convert.Skip{What: fmt.Sprintf("session %s: part %s", session, p.id), Why: tidemark.Invalidf("%w", bad)}
			}
		}
		if err != nil {
			skips = append(skips, err)
			continue
		}
		b.add(p, part)
	}
	return b, skips
}

// at finds the entry that a session is at. An undo hides messages; they are
// removed only at the next prompt.
func at(ctx context.Context, st store, s *session) (head string, lost []string) {
	var revert struct {
		MessageID string `json:"messageID"`
		PartID    string `json:"partID"`
	}
	if json.Unmarshal(s.revert, &revert) != nil || revert.MessageID == "" {
		return "", nil
	}
	for m, err := range st.messages(ctx, s.id) {
		var w wireMessage
		if err != nil || json.Unmarshal(m.data, &w) != nil || w.Role != "user" && w.Role != "assistant" {
			continue
		}
		if m.id != revert.MessageID {
			b, _ := gather(ctx, st, s.id, m, w, "")
			if made := b.entries(); len(made) > 0 {
				head = made[len(made)-1].ID
			}
			continue
		}
		if revert.PartID != "" {
			if b, _ := gather(ctx, st, s.id, m, w, revert.PartID); len(b.steps) > 0 || len(b.said) > 0 {
				head = m.id
			}
		}
		if head == "" {
			lost = []string{"that it was taken back to before its first message"}
		}
		return head, lost
	}
	return "", nil
}

// fileBlock returns an attached file: with its bytes if they are in the URL.
func fileBlock(p wirePart) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockFile, Name: p.Filename, MediaType: p.Mime, URL: p.URL}
	if strings.HasPrefix(p.Mime, "image/") {
		b.Type = tidemark.BlockImage
	}
	meta, data, ok := strings.Cut(p.URL, ",")
	if !ok || !strings.HasPrefix(meta, "data:") {
		return b
	}
	if strings.HasSuffix(meta, ";base64") {
		if raw, err := base64.StdEncoding.DecodeString(data); err == nil {
			b.Data, b.URL = raw, ""
		}
	} else if plain, err := url.PathUnescape(data); err == nil {
		b.Data, b.URL = []byte(plain), ""
	}
	return b
}

// unquote removes the quotes that `opencode run` puts around an argument with a
// space.
func unquote(s string) (string, bool) {
	t := strings.TrimSuffix(s, "\n")
	if len(t) < 2 || t[0] != '"' || t[len(t)-1] != '"' {
		return s, false
	}
	inner := t[1 : len(t)-1]
	bare := strings.ReplaceAll(inner, `\"`, "")
	if !strings.Contains(inner, " ") || strings.Contains(bare, `"`) || strings.HasSuffix(inner, `\`) {
		return s, false
	}
	return strings.ReplaceAll(inner, `\"`, `"`), true
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// marshal writes JSON that a person reads as it was typed. Its arguments can
// always be encoded.
func marshal(v any) json.RawMessage {
	b, _ := convert.Encode(v)
	return b
}
