package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrInterrupted means that a question was left with Ctrl-C or Esc.
var ErrInterrupted = errors.New("interrupted")

const (
	// calmEmpty is how long nobody may have typed before a key counts as an
	// answer: nobody reads a question and answers it faster. calmTyping is the
	// same while a line is half typed, which people do with pauses. An earlier
	// key belongs to the line, so that nothing is approved by accident.
	calmEmpty  = 300 * time.Millisecond
	calmTyping = time.Second
)

// Choice is one answer to a question: the key and what it means.
type Choice struct {
	Key  rune // a lower-case letter
	Text string
}

// question is one that waits for its answer.
type question struct {
	choices []Choice
	asked   time.Time
	answers chan answer

	typed    bool   // a line answers it, and not a choice
	draft    string // what was typed before
	gaveBack bool   // the draft is in the line again
}

type answer struct {
	key  rune
	text string
	err  error
}

// Ask shows a question above the prompt and returns the key of the choice that
// the person makes. Enter chooses nothing. In a pipe and on a plain
// terminal the next line is the answer. Questions are asked one after the
// other.
//
// Ctrl-C and Esc are ErrInterrupted; Ctrl-D, which Read returns as well, and the end of
// the input are io.EOF; a cancelled ctx is its cause, a closed console
// fs.ErrClosed.
func (c *Console) Ask(ctx context.Context, text string, choices ...Choice) (rune, error) {
	q := &question{choices: c.cleaned(choices)}
	a, err := c.answered(ctx, text, q)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, ch := range choices {
		if ch.Key == a.key && c.editing {
			c.say(c.styled("2", q.choices[i].Text) + "\n")
		}
	}
	return a.key, nil
}

// AskText shows a question above the prompt and returns the line that the person
// types, which may be empty. What they had typed before is in the line again
// afterwards. Otherwise it behaves like Ask.
func (c *Console) AskText(ctx context.Context, text string) (string, error) {
	a, err := c.answered(ctx, text, &question{typed: true})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.editing {
		c.say(c.styled("2", c.text.Clean(a.text)) + "\n")
	}
	return a.text, nil
}

// answered poses a question and waits for its answer.
func (c *Console) answered(ctx context.Context, text string, q *question) (a answer, err error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
	q.asked, q.answers = time.Now(), make(chan answer, 1)
	c.mu.Lock()
	if err := c.pose(text, q); err != nil {
		c.mu.Unlock()
		return a, err
	}
	c.mu.Unlock()
	select {
	case a = <-q.answers:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.question == q {
		c.question = nil
	}
	q.giveBack(c)
	select {
	case late := <-q.answers: // an answer at the same instant was consumed by this question
		if late.err != nil {
			a = late
		}
	default:
	}
	c.paint.touch()
	return a, a.err
}

// giveBack puts what was typed before a question back into the line.
func (q *question) giveBack(c *Console) {
	if q.typed && !q.gaveBack && c.editing {
		c.line.set(q.draft)
	}
	q.gaveBack = true
}

func (c *Console) cleaned(choices []Choice) []Choice {
	clean := make([]Choice, len(choices))
	for i, ch := range choices {
		clean[i] = Choice{ch.Key, c.text.Clean(ch.Text)}
	}
	return clean
}

// pose shows a question. All of it is above the prompt, however long it is:
// nobody should approve what they cannot see.
func (c *Console) pose(text string, q *question) error {
	switch {
	case c.closed:
		return fs.ErrClosed
	case c.ended != nil:
		return c.ended
	}
	var b strings.Builder
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(c.text.Clean(l) + "\n")
	}
	c.say(b.String())
	c.question = q
	c.menu, c.search = nil, nil
	if q.typed && c.editing {
		q.draft = c.line.String()
		c.line.set("")
	}
	if c.editing {
		c.paint.touch()
		return nil
	}
	c.say(strings.Join(q.words(), "  ") + "\n")
	c.wantLine()
	return nil
}

// words are the choices as they are shown.
func (q *question) words() []string {
	if q.typed {
		return []string{"[Enter] answer", "[Esc] decline"}
	}
	words := make([]string, len(q.choices))
	for i, ch := range q.choices {
		words[i] = fmt.Sprintf("[%c] %s", ch.Key, ch.Text)
	}
	return words
}

// calm reports whether nobody has typed for so long that a key is an answer.
func (c *Console) calm() bool {
	wait := calmEmpty
	if len(c.line.cells) > 0 {
		wait = calmTyping
	}
	return time.Since(c.question.asked) >= wait && time.Since(c.lastKey) >= wait
}

// write takes a key as the end of a line that answers. A key right after the
// question belongs to what was typed before.
func (q *question) write(c *Console, k key) bool {
	switch {
	case k.name == "esc":
		q.end(0, ErrInterrupted)
	case k.name == "enter" && time.Since(q.asked) < calmEmpty:
	case k.name == "enter":
		q.reply(c.line.String())
		q.giveBack(c)
	default:
		return false
	}
	return true
}

// reply answers with a line.
func (q *question) reply(text string) {
	select {
	case q.answers <- answer{text: text}:
	default:
	}
}

// answer takes a key as the answer, if it is one.
func (q *question) answer(k key, calm bool) bool {
	switch {
	case k.name == "esc":
		q.end(0, ErrInterrupted)
		return true
	case !calm:
		return false
	case k.name != "" || utf8.RuneCountInString(k.text) != 1:
		return false
	}
	return q.choose(k.text)
}

// choose answers with a text that is a choice's key or words.
func (q *question) choose(s string) bool {
	s = strings.TrimSpace(s)
	first, size := utf8.DecodeRuneInString(s)
	for _, ch := range q.choices {
		if size == len(s) && unicode.ToLower(first) == ch.Key || size > 0 && strings.EqualFold(s, ch.Text) {
			q.end(ch.Key, nil)
			return true
		}
	}
	return false
}

func (q *question) answered() bool { return len(q.answers) > 0 }

// end answers the question, unless it has been answered.
func (q *question) end(key rune, err error) {
	select {
	case q.answers <- answer{key: key, err: err}:
	default:
	}
}
