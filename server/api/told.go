package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Talk is a conversation in this process, as somebody sees it who looks on.
type Talk struct {
	// Here means that people talk in it from pages; another one belongs to a
	// client.
	Here bool

	conv  Conversation
	ready chan struct{} // closed when it is open, or could not be opened
	over  chan struct{} // closed when nothing of it is left
	err   error         // why it could not be opened; set before ready
	rest  *time.Timer   // ends it when nobody has said anything for a while

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	shape   int           // grows with every change but that the last piece got longer
	running bool
	shell   bool   // what runs, or ran last, is a command of the person
	turn    string // names the turn that runs, or the last one
	closing bool
	cancel  context.CancelFunc
	acked   chan error // receives whether the message of this turn was kept
	pieces  []Piece
	asked   []Question
	notice  string
}

// Question is a call that waits for an answer.
type Question struct {
	agent.RemoteEvent
	Shown string // the digest of what is shown, which an answer names: models reuse the ids of calls
}

// commandPiece is what a command tells the person. It is kept nowhere, and shown until
// they say something else.
const commandPiece = "command"

// Piece is a part of what is being said.
type Piece struct {
	Kind string // text, thinking, output, command
	Text string // set by Look
	Kept int64  // the entry that has it; 0: it is not kept yet
	text []byte
}

// TalkState is what a conversation is saying.
type TalkState struct {
	Here, Running bool
	Shell         bool   // what runs is a command of the person, and no answer
	Turn          string // names the turn, for who stops it
	Pieces        []Piece
	Questions     []Question
	Notice        string
}

// Seen is how much of a conversation somebody was told.
type Seen struct {
	talk   *Talk
	shape  int
	length int
}

// Look returns the state of a conversation for somebody who was told what seen
// says: the whole, or, when only its last piece got longer, what was added. wait
// is closed at the next change.
func (t *Talk) Look(seen Seen) (whole *TalkState, more string, now Seen, wait <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = Seen{talk: t, shape: t.shape}
	var last []byte
	if n := len(t.pieces); n > 0 {
		last = wholeRunes(t.pieces[n-1].text)
		now.length = len(last)
	}
	if seen.talk == t && seen.shape == t.shape {
		return nil, string(last[seen.length:]), now, t.changed
	}
	whole = &TalkState{Here: t.Here, Running: t.running, Shell: t.running && t.shell, Turn: t.turn, Questions: slices.Clone(t.asked), Notice: t.notice}
	for _, p := range t.pieces {
		whole.Pieces = append(whole.Pieces, Piece{Kind: p.Kind, Text: string(wholeRunes(p.text)), Kept: p.Kept})
	}
	return whole, "", now, t.changed
}

// wholeRunes is a text without a last character of which only a part has come.
func wholeRunes(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// note wakes those who look on. The caller has mu.
func (t *Talk) note(reshaped bool) {
	if reshaped {
		t.shape++
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// hear takes what a conversation emits.
func (t *Talk) hear(v any) error {
	e, ok := v.(agent.RemoteEvent)
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.Type == "question":
		shown, err := json.Marshal([]any{e.Worker, e.Call, e.Tool, e.Input, e.Lines, e.Always})
		if err != nil {
			return err // it stays unanswered
		}
		sum := sha256.Sum256(shown)
		t.asked = append(t.asked, Question{e, hex.EncodeToString(sum[:])})
		t.note(true)
	case e.Type == "call":
		t.answered(e.Call)
	case e.Worker != "":
		// Its log is another page.
	case e.Type == "delta" && e.Subtype == "thinking":
		t.add("thinking", e.Text, draftBytes)
	case e.Type == "delta":
		t.add("text", e.Text, draftBytes)
	case e.Type == "output":
		t.add("output", e.Text, outputBytes)
	case e.Type == "system" && e.Subtype == "command":
		t.add(commandPiece, e.Text, draftBytes)
	case e.Type == "system" && (e.Subtype == "notice" || e.Subtype == "retry"):
		t.notice = e.Text
		t.note(true)
	case e.Entry != nil:
		if t.acked != nil && e.Entry.Role == tidemark.User {
			t.acked <- nil
			t.acked = nil
		}
		for i := range t.pieces {
			if t.pieces[i].Kept == 0 && t.pieces[i].Kind != commandPiece {
				t.pieces[i].Kept = e.Entry.Seq
			}
		}
		t.note(true)
	}
	return nil
}

// add adds to what is being said. The caller has mu.
func (t *Talk) add(kind, text string, most int) {
	// What is kept was shown to whoever looked on.
	t.pieces = slices.DeleteFunc(t.pieces, func(p Piece) bool { return p.Kept > 0 && p.Kind == kind })
	n := len(t.pieces)
	reshaped := n == 0 || t.pieces[n-1].Kind != kind || t.pieces[n-1].Kept > 0
	if reshaped {
		t.pieces = append(t.pieces, Piece{Kind: kind})
		n++
	}
	if p := &t.pieces[n-1]; len(p.text) < most {
		p.text = append(p.text, text...)
		t.note(reshaped || kind == commandPiece) // words are added to an answer only
	}
}

// answered drops a question. The caller has mu.
func (t *Talk) answered(call string) {
	n := len(t.asked)
	if t.asked = slices.DeleteFunc(t.asked, func(q Question) bool { return q.Call == call }); len(t.asked) < n {
		t.note(true)
	}
}

// began marks the begin of a turn.
func (t *Talk) began() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running, t.notice, t.pieces = true, "", nil
	t.turn = rand.Text()
	t.note(true)
}

// ended marks the end of a turn.
func (t *Talk) ended(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running, t.cancel, t.asked = false, nil, nil
	t.pieces = slices.DeleteFunc(t.pieces, func(p Piece) bool { return p.Kept == 0 && p.Kind != commandPiece })
	if err != nil {
		t.notice = request.Problem(err).Detail
	}
	if t.acked != nil {
		if err == nil {
			err = tidemark.Conflictf("it was stopped before it was kept")
		}
		t.acked <- err
		t.acked = nil
	}
	if t.rest != nil && !t.closing {
		t.rest.Reset(talkIdle)
	}
	t.note(true)
}

func newTalk(here bool) *Talk {
	return &Talk{Here: here, ready: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{})}
}
