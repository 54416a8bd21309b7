package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/render"
)

// screenText is what cmd fills in.
var screenText = Text{Clean: render.CleanLine, Width: render.Width}

// inPipe opens a console whose input is a text.
func inPipe(t *testing.T, in string, change func(*Options)) (*Console, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o := Options{In: strings.NewReader(in), Out: &out, Text: screenText, Prompt: "> "}
	if change != nil {
		change(&o)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, &out
}

// all reads to the end.
func all(t *testing.T, c *Console) (lines []string) {
	t.Helper()
	for {
		in, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if in.Kind == EOF {
			return lines
		}
		lines = append(lines, in.Text)
	}
}

func TestInAPipeLinesAreReadAsTheyCome(t *testing.T) {
	c, out := inPipe(t, "one\r\n\n  \ntwo\\\nmore\nthr\x1bee\xff\x00\nlast", nil)
	want := []string{"one", "two\nmore", "three\ufffd", "last"}
	if diff := cmp.Diff(want, all(t, c)); diff != "" {
		t.Error(diff)
	}
	if in, err := c.Read(t.Context()); in.Kind != EOF || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
	io.WriteString(c, "\x1b[1mas it is")
	c.Status("hidden")
	if got := out.String(); got != "\x1b[1mas it is" {
		t.Errorf("written: %q", got)
	}
}

func TestAPlainTerminalHasAPromptAndNoSequences(t *testing.T) {
	c, out := inPipe(t, "one\n\ntwo\n", func(o *Options) { o.Terminal, o.Plain = true, true })
	for range 2 {
		if _, err := c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "answer")
	}
	c.Read(t.Context())
	if got, want := out.String(), "> answer\n> > answer\n> "; got != want {
		t.Errorf("written: %q, want %q", got, want)
	}
}

func TestAPipeOfTenMegabytesIsOneLine(t *testing.T) {
	huge := strings.Repeat("words ", 10<<20/6)
	c, _ := inPipe(t, huge+"x\n", nil)
	if got := all(t, c); len(got) != 1 || got[0] != huge+"x" {
		t.Errorf("%d lines", len(got))
	}
}

func TestALineWithoutEndIsAnError(t *testing.T) {
	c, _ := inPipe(t, "", func(o *Options) { o.In = endless{} })
	if in, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Errorf("Read = %v, %v", in.Kind, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

var approval = []Choice{{'y', "once"}, {'a', "always"}, {'n', "deny"}}

func TestInAPipeTheNextLineIsTheAnswer(t *testing.T) {
	c, out := inPipe(t, "hello\nmaybe\n\nALWAYS\nrest\nn", nil)
	if in, _ := c.Read(t.Context()); in.Text != "hello" {
		t.Fatal(in)
	}
	key, err := c.Ask(t.Context(), "Run\x1b[2J this?\nSure?", approval...)
	if key != 'a' || err != nil {
		t.Errorf("Ask = %c, %v", key, err)
	}
	if in, _ := c.Read(t.Context()); in.Text != "rest" {
		t.Errorf("Read = %v", in)
	}
	if key, err := c.Ask(t.Context(), "Again?", approval...); key != 'n' || err != nil {
		t.Errorf("Ask = %c, %v", key, err)
	}
	if _, err := c.Ask(t.Context(), "Again?", approval...); err != io.EOF {
		t.Errorf("at the end, Ask = %v", err)
	}
	if got := out.String(); strings.Contains(got, "\x1b") || !strings.HasPrefix(got, "Run\\x1b[2J this?\nSure?\n[y] once  [a] always  [n] deny\n") {
		t.Errorf("written: %q", got)
	}
}

func TestInAPipeTheNextLineAnswersAQuestionForText(t *testing.T) {
	c, _ := inPipe(t, "Ulm \n\nrest\n", nil)
	for _, want := range []string{"Ulm ", ""} {
		if got, err := c.AskText(t.Context(), "Where?"); got != want || err != nil {
			t.Errorf("AskText = %q, %v, want %q", got, err, want)
		}
	}
	if in, _ := c.Read(t.Context()); in.Text != "rest" {
		t.Errorf("Read = %v", in)
	}
	if _, err := c.AskText(t.Context(), "Where?"); err != io.EOF {
		t.Errorf("at the end, AskText = %v", err)
	}
}

func TestACancelledReadLosesNothing(t *testing.T) {
	r, w := io.Pipe()
	c, _ := inPipe(t, "", func(o *Options) { o.In = r })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := c.Read(ctx); err != io.ErrClosedPipe {
		t.Errorf("Read = %v", err)
	}
	go w.Write([]byte("kept\n"))
	if in, err := c.Read(t.Context()); in.Text != "kept" || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
}

func TestASignalEndsAReadInAPipe(t *testing.T) {
	r, _ := io.Pipe()
	c, _ := inPipe(t, "", func(o *Options) { o.In = r })
	c.Interrupt()
	if in, err := c.Read(t.Context()); in.Kind != Interrupt || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
}

func TestAPlainTerminalSaysANoticeAndPromptsAgain(t *testing.T) {
	r, w := io.Pipe()
	c, out := inPipe(t, "", func(o *Options) { o.In, o.Terminal, o.Plain = r, true, true })
	c.Interrupt()
	if in, err := c.Read(t.Context()); in != (Input{Kind: Interrupt}) || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
	c.Notice("once more leaves")
	go w.Write([]byte("go on\n"))
	if in, err := c.Read(t.Context()); in.Text != "go on" || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
	c.Interrupt()
	if in, err := c.Read(t.Context()); in != (Input{Kind: Interrupt}) || err != nil {
		t.Errorf("a line came between, and Read = %v, %v", in, err)
	}
	c.Interrupt()
	if in, err := c.Read(t.Context()); in != (Input{Kind: Interrupt, Again: true}) || err != nil {
		t.Errorf("Read = %v, %v", in, err)
	}
	if !strings.Contains(out.String(), "\nonce more leaves\n") {
		t.Errorf("%q", out.String())
	}
}

// typist is a console with a keyboard and a screen in memory, so that its time
// is that of the test.
type typist struct {
	*Console
	keys *io.PipeWriter
}

func newTypist(t *testing.T) typist {
	t.Helper()
	r, w := io.Pipe()
	c, err := Open(Options{In: r, Out: io.Discard, Terminal: true, Text: screenText,
		Raw:  func() (func() error, error) { return func() error { return nil }, nil },
		Size: func() (int, int, error) { return 80, 24, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return typist{c, w}
}

// press types keys one after the other, with a pause before each.
func (p typist) press(pause time.Duration, keys string) {
	for _, k := range keys {
		time.Sleep(pause)
		p.keys.Write([]byte(string(k)))
	}
	synctest.Wait()
}

func (p typist) close() {
	p.Close()
	p.keys.Close()
	synctest.Wait()
}

// ask asks, and returns where the answer will be.
func (p typist) ask(ctx context.Context) chan answer {
	got := make(chan answer, 1)
	go func() {
		key, err := p.Ask(ctx, "Run it?", approval...)
		got <- answer{key: key, err: err}
	}()
	synctest.Wait()
	return got
}

func TestAKeyAnswersOnceThePersonHasSeenTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTypist(t)
		defer p.close()
		// Somebody types "any" without looking while the question appears.
		p.press(50*time.Millisecond, "in a")
		got := p.ask(t.Context())
		p.press(50*time.Millisecond, "ny case, yay")
		select {
		case a := <-got:
			t.Fatalf("typing answered %v", a)
		default:
		}
		p.press(2*time.Second, "x") // no choice: it is typing
		p.press(2*time.Second, "\r")
		p.press(time.Second, "Y")
		if a := <-got; a != (answer{key: 'y'}) {
			t.Errorf("Ask = %v", a)
		}
		if in, err := p.Read(t.Context()); in.Text != "in any case, yayx" || err != nil {
			t.Errorf("Read = %v, %v", in, err)
		}
	})
}

func TestAQuestionIsLeftWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTypist(t)
		defer p.close()
		got := p.ask(t.Context())
		p.press(time.Second, "\r")
		p.press(time.Second, "\x03")
		if a := <-got; a.err != ErrInterrupted {
			t.Errorf("after Ctrl-C, Ask = %v", a)
		}
		got = p.ask(t.Context())
		p.press(50*time.Millisecond, "\x1b")
		if a := <-got; a.err != ErrInterrupted {
			t.Errorf("after Esc, Ask = %v", a)
		}
		got = p.ask(t.Context())
		p.press(time.Second, "\x04")
		if a := <-got; a.err != io.EOF {
			t.Errorf("after Ctrl-D, Ask = %v", a)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		got = p.ask(ctx)
		cancel(io.ErrNoProgress)
		if a := <-got; a.err != io.ErrNoProgress {
			t.Errorf("after cancel, Ask = %v", a)
		}
		first, second := p.ask(t.Context()), p.ask(t.Context())
		p.press(time.Second, "n")
		if a := <-first; a != (answer{key: 'n'}) {
			t.Errorf("Ask = %v", a)
		}
		synctest.Wait()
		p.press(time.Second, "a")
		if a := <-second; a != (answer{key: 'a'}) {
			t.Errorf("the second Ask = %v", a)
		}
	})
}

// Ctrl-C that comes when the question is ending anyway is still a wish of its
// own: nobody else hears of it.
func TestCtrlCAtTheEndOfAQuestionIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTypist(t)
		defer p.close()
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			got := p.ask(ctx)
			p.Console.mu.Lock()
			cancel()
			p.Console.interrupt()
			p.Console.mu.Unlock()
			if a := <-got; a.err != ErrInterrupted {
				t.Fatalf("Ask = %v", a)
			}
		}
	})
}

func TestAnEscapeIsAKeyOnlyWhenNothingFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTypist(t)
		defer p.close()
		p.press(50*time.Millisecond, "a\x1b[Db\x1b")
		p.press(200*time.Millisecond, "[\r")
		if in, _ := p.Read(t.Context()); in.Kind != LeaveView {
			t.Errorf("Read = %v", in)
		}
		if in, _ := p.Read(t.Context()); in.Text != "b[a" {
			t.Errorf("Read = %v", in)
		}
	})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for _, o := range []Options{
		{},
		{In: strings.NewReader(""), Out: io.Discard},
		{In: strings.NewReader(""), Out: io.Discard, Text: screenText, Terminal: true},
		{In: strings.NewReader(""), Out: io.Discard, Text: screenText, Terminal: true, Size: func() (int, int, error) { return 0, 0, nil },
			Raw: func() (func() error, error) { return nil, errors.New("no terminal") }},
	} {
		if c, err := Open(o); err == nil {
			t.Errorf("Open(%+v) = %v", o, c)
		}
	}
}

// A worker asks while the conversation waits for its next line: the answer goes
// to the question, every other line to whoever reads, and none is lost.
func TestAQuestionDoesNotTakeLinesThatAreForOthers(t *testing.T) {
	in, feed := io.Pipe()
	c, err := Open(Options{In: in, Out: io.Discard, Text: screenText})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := make(chan Input)
	go func() {
		for {
			in, err := c.Read(t.Context())
			if err != nil {
				return
			}
			read <- in
			if in.Kind == EOF {
				return
			}
		}
	}()
	waits := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waiting > 0
	}
	asked := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.question != nil
	}
	for !waits() {
		runtime.Gosched()
	}
	answer := make(chan rune)
	go func() {
		key, err := c.Ask(t.Context(), "may it?", Choice{'y', "yes"}, Choice{'n', "no"})
		if err != nil {
			t.Error(err)
		}
		answer <- key
	}()
	for !asked() {
		runtime.Gosched()
	}
	go func() {
		io.WriteString(feed, "a message\ny\nanother message\n")
		feed.Close()
	}()
	if got := <-read; got.Text != "a message" {
		t.Errorf("read %+v", got)
	}
	if key := <-answer; key != 'y' {
		t.Errorf("answer %q", key)
	}
	if got := <-read; got.Text != "another message" {
		t.Errorf("read %+v", got)
	}
	if got := <-read; got.Kind != EOF {
		t.Errorf("read %+v", got)
	}
}
