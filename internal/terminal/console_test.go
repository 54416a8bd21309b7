//go:build !windows

package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"
)

const (
	upKey, downKey, rightKey, leftKey = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	homeKey, endKey                   = "\x1b[H", "\x1b[F"
)

func pasted(s string) string { return "\x1b[200~" + s + "\x1b[201~" }

func TestKeysEditTheLine(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"typing", "hello", "hello"},
		{"left and right", "hllo" + leftKey + leftKey + leftKey + "e" + rightKey + "x", "helxlo"},
		{"home and end", "b" + homeKey + "a" + endKey + "c", "abc"},
		{"other home and end", "b\x1bOHa\x1bOFc\x1b[1~0\x1b[4~d", "0abcd"},
		{"^A and ^E", "b\x01a\x05c", "abc"},
		{"^K and ^Y", "abcdef" + leftKey + leftKey + "\x0b\x01\x19", "efabcd"},
		{"^U", "abc def\x15x", "x"},
		{"^W takes a word up to a space", "rm /tmp/a-b\x17x", "rm x"},
		{"words with Alt", "one two three\x1bb\x1bbX\x1bfY", "one XtwoY three"},
		{"Alt-D and Alt-Backspace", "one two three\x1bb\x1b\x7f\x1bdx", "one x"},
		{"backspace over wide signs", "漢字👩‍🚀\x7f\x7f!", "漢!"},
		{"a mark typed behind its letter", "e\u0301x" + leftKey + "\x7fa", "ax"},
		{"a flag is one sign", "🇩🇪🇫🇷" + leftKey + "\x7f", "🇫🇷"},
		{"left over wide signs", "漢字" + leftKey + "x", "漢x字"},
		{"delete", "abc\x01\x1b[3~", "bc"},
		{"^D deletes when something is typed", "abc\x01\x04", "bc"},
		{"^J is a newline", "a\nb", "a\nb"},
		{"Alt-Enter is a newline", "a\x1b\rb", "a\nb"},
		{"Shift-Enter is a newline where it is told", "a\x1b[13;2ub\x1b[27;2;13~c", "a\nb\nc"},
		{"a backslash at the end asks for more", "a\\\rb", "a\nb"},
		{"up and down within the line", "ab\ncd\nef" + upKey + upKey + "X" + downKey + "Y", "abX\ncdY\nef"},
		{"a paste keeps its newlines", pasted("one\r\ntwo\rthree\n") + "x", "one\ntwo\nthree\nx"},
		{"a paste does not act", pasted("a\x1b[31mb\x03\x04c\x00"), "a[31mbc"},
		{"a tab in a paste", pasted("a\tb"), "a\tb"},
		{"bytes that are no text", "a\xffb\xc3(", "a\ufffdb\ufffd("},
		{"C1 controls", "a\u009b31mb", "a31mb"},
		{"unknown sequences are ignored whole", "a\x1b[?1;2c\x1b[99~\x1b[1;8P\x1bOQ\x1b]11;rgb:0/0/0\x07\x1bP1$r0m\x1b\\\x1b[[Ab\x1b[<0;3;4M", "ab"},
		{"text as a person writes it", "שלום مرحبا", "שלום مرحبا"},
	} {
		t.Run(test.name, func(t *testing.T) {
			term := open(t, 60, 10, nil)
			term.press(test.keys + "\r")
			term.wantLine(test.want)
		})
	}
}

func TestWhatWasTypedBeforeTheStartIsKept(t *testing.T) {
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	defer slave.Close()
	go io.Copy(io.Discard, tty)
	io.WriteString(tty, "hello\rwor")
	c, err := Open(ofFiles(slave, slave))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(tty, "ld\r")
	for _, want := range []string{"hello", "world"} {
		if in, err := c.Read(t.Context()); in.Text != want || err != nil {
			t.Errorf("Read = %v, %v, want %s", in, err, want)
		}
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	term := open(t, 40, 10, nil)
	errs := make(chan error, 2)
	go func() { _, err := term.c.Read(t.Context()); errs <- err }()
	go func() { _, err := term.c.Ask(t.Context(), "Run it?", Choice{'y', "yes"}); errs <- err }()
	term.sees("[y] yes")
	term.close()
	for range 2 {
		if err := <-errs; !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

func TestTheLineIsDrawnWithTheCursorInIt(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.press("one two")
	term.shows("> one two")
	term.press(leftKey + leftKey + leftKey)
	term.until("cursor", func() bool { x, y := term.cursor(); return x == 6 && y == 0 })
	term.press(endKey + strings.Repeat("x", 40))
	term.shows("> one two"+strings.Repeat("x", 30), "  "+strings.Repeat("x", 10))
	term.press("\x15multi\nline")
	term.shows("> multi", "  line")
	term.c.Status("2 workers")
	term.shows("> multi", "  line", "2 workers")
	term.c.SetPrompt("w1> ")
	term.shows("w1> multi", "    line", "2 workers")
	term.c.Status("")
	term.c.Offer("other")
	term.shows("w1> other")
}

func TestALineIsShownAboveOnceItIsRead(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.press("first\rsecond\nhalf\rthi")
	term.shows("» first", "» second …", "> thi")
	term.wantLine("first")
	term.wantLine("second\nhalf")
	term.shows("> first", "> second", "  half", "> thi")
	term.press("rd\r")
	term.wantLine("third")
}

func TestOutputStreamsAboveWhatIsTyped(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.press("typed")
	term.shows("> typed")
	for _, s := range []string{"Hel", "lo \x1b[1mbold", " word\x1b[m.", "\nNext"} {
		io.WriteString(term.c, s)
		term.press("!")
	}
	term.shows("Hello bold word.", "Next", "> typed!!!!")
	io.WriteString(term.c, strings.Repeat("z", 40))
	term.shows("Hello bold word.", "Next"+strings.Repeat("z", 36), "zzzz", "> typed!!!!")
	io.WriteString(term.c, " end\n")
	term.shows("Hello bold word.", "Next"+strings.Repeat("z", 36), "zzzz end", "> typed!!!!")
}

func TestOutputLongerThanTheScreenScrollsAway(t *testing.T) {
	term := open(t, 40, 5, nil)
	for i := range 1000 {
		fmt.Fprintf(term.c, "line %d\n", i)
	}
	term.shows("line 996", "line 997", "line 998", "line 999", ">")
	// Every line is written once, however often the prompt is drawn.
	if n := strings.Count(term.bytes(), "line 500\r\n"); n != 1 {
		t.Errorf("line 500 was written %d times", n)
	}
}

func TestARowThatIsExactlyFullGoesOnBelow(t *testing.T) {
	term := open(t, 10, 6, nil)
	io.WriteString(term.c, "0123456789")
	term.shows("0123456789", ">")
	io.WriteString(term.c, "ab")
	term.shows("0123456789", "ab", ">")
	io.WriteString(term.c, "cdefghij")
	if err := term.c.Flush(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(term.c, "\nnew\n")
	term.shows("0123456789", "abcdefghij", "new", ">")
}

func TestOutputCannotActOnTheTerminal(t *testing.T) {
	term := open(t, 40, 6, nil)
	io.WriteString(term.c, "a\x1b]0;title\x07b\x1b[2Jc\x1b[?1049hd\x1b]52;c;eA")
	io.WriteString(term.c, "==\x1b\\e\x9b\x07\x08\rf\n")
	term.shows("abcde\ufffdf", ">")
	for _, bad := range []string{"]0;", "[2J", "1049", "]52"} {
		if strings.Contains(term.bytes(), bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
}

func TestWithoutColourNoneIsWritten(t *testing.T) {
	term := open(t, 40, 6, func(o *Options) { o.Color = false })
	io.WriteString(term.c, "\x1b[31mred\x1b[m\n")
	term.c.Status("busy")
	term.press("x")
	term.shows("red", "> x", "busy")
	if strings.Contains(term.bytes(), "m") {
		t.Errorf("a style was written: %q", term.bytes())
	}
}

func TestAResizeMidStreamKeepsEverything(t *testing.T) {
	term := open(t, 40, 8, nil)
	io.WriteString(term.c, "a stream of words")
	term.press("typed")
	term.shows("a stream of words", "> typed")
	term.resize(20, 8)
	io.WriteString(term.c, " that goes on")
	term.shows("a stream of words th", "at goes on", "> typed")
	term.resize(60, 4)
	io.WriteString(term.c, "\nand on\n")
	term.until("the end", func() bool {
		l := term.lines()
		return len(l) > 1 && l[len(l)-2] == "and on" && l[len(l)-1] == "> typed"
	})
	if got := term.c.Columns(); got != 60 {
		t.Errorf("Columns = %d", got)
	}
}

func TestALineHigherThanTheScreenIsShownAroundTheCursor(t *testing.T) {
	term := open(t, 20, 6, nil)
	io.WriteString(term.c, "above\n")
	term.press(pasted("1\n2\n3\n4\n5\n6\n7\n8\n9"))
	term.shows("above", "  8", "  9")
	term.press(strings.Repeat(upKey, 8))
	term.shows("above", "> 1", "  2")
	term.press("\r")
	term.wantLine("1\n2\n3\n4\n5\n6\n7\n8\n9")
}

func TestAHugePasteIsOneSignInTheLine(t *testing.T) {
	term := open(t, 60, 8, nil)
	huge := strings.Repeat("漢字 and words\n", 10<<20/17)
	go term.press("see " + pasted(huge))
	term.sees("lines of text]")
	term.press(".\r")
	term.wantLine("see " + huge + ".")
	if n := len(term.bytes()); n > 10_000 {
		t.Errorf("%d bytes were drawn for it", n)
	}
}

func TestWhatStandsForAPasteIsOneSign(t *testing.T) {
	term := open(t, 60, 8, func(o *Options) {
		o.Paste = func(s string) ([]string, string) {
			switch s {
			case "/a.png /b.png":
				return []string{"[image: a.png]", "[image: b.png]"}, ""
			case "/big.png":
				return nil, "too big"
			}
			return nil, ""
		}
	})
	term.press("see" + pasted("/a.png /b.png") + "é")
	term.shows("> see [image: a.png] [image: b.png] é")
	term.press("\x7f\x7f\x7f") // é, the blank, the second image
	term.shows("> see [image: a.png]")
	term.press(pasted("/big.png"))
	term.sees("too big")
	term.press(leftKey + strings.Repeat(leftKey, 10) + "x")
	term.shows("> seex [image: a.png] /big.png")
	term.press("\r")
	term.wantLine("seex [image: a.png] /big.png")
}

func TestCtrlVPastesWhatATerminalCannot(t *testing.T) {
	pastes := [][]string{{"[image: clipboard.png]"}, nil}
	term := open(t, 60, 8, func(o *Options) {
		o.PasteImage = func() (signs []string, notice string) {
			if signs, pastes = pastes[0], pastes[1:]; signs == nil {
				notice = "there is no image"
			}
			return signs, notice
		}
	})
	term.press("see\x16")
	term.shows("> see [image: clipboard.png]")
	term.press("\x16")
	term.sees("there is no image")
	term.press("\r")
	term.wantLine("see [image: clipboard.png] ")
}

func TestHistoryIsWalkedAndSearched(t *testing.T) {
	sent := []string{"make test", "make test", "git status", "two\nlines"}
	term := open(t, 40, 10, func(o *Options) { o.Earlier = func(context.Context) []string { return sent } })
	term.press("draft" + upKey)
	term.shows("> two", "  lines")
	term.press(upKey + upKey)
	term.shows("> git status")
	term.press(upKey + upKey + upKey)
	term.shows("> make test")
	term.press("\x0e\x0e\x0e")
	term.shows("> draft")
	term.press("\x12t")
	term.shows("search t: two", "          lines")
	term.press("\x12")
	term.shows("search t: git status")
	term.press("est")
	term.shows("search test: make test")
	term.press("q")
	term.shows("nothing with testq: make test")
	term.press("\x07")
	term.shows("> draft")
	term.press("\x12make\r")
	term.wantLine("make test")
	term.press(upKey + upKey + "\r")
	term.wantLine("two\nlines")
}

func TestTabCompletes(t *testing.T) {
	words := []string{"/branch ", "/help ", "/history ", "日本 "}
	term := open(t, 40, 10, func(o *Options) {
		o.Complete = func(_ context.Context, line string, pos int) (from int, found []string) {
			from = strings.LastIndex(line[:pos], " ") + 1
			for _, w := range words {
				if strings.HasPrefix(w, line[from:pos]) {
					found = append(found, w)
				}
			}
			return from, found
		}
	})
	term.press("/b\t")
	term.shows("> /branch")
	term.press("\x15/\t")
	term.shows("> /", "/branch   /help     /history")
	term.press("h\t")
	term.shows("> /h", "/help     /history")
	term.press("\t\t")
	term.shows("> /history", "/help     /history")
	term.press("\x1b[Z")
	term.shows("> /help", "/help     /history")
	term.press("x")
	term.shows("> /help x")
	term.press("\x15a 日\t")
	term.shows("> a 日本")
	term.press("b\r")
	term.wantLine("a 日本 b")
}

func TestKeysThatAreNotAboutTheLineAreReturned(t *testing.T) {
	for _, test := range []struct {
		keys string
		want Kind
	}{
		{"\x1d", NextView}, {"\x1b[1;3C", NextView}, {"\x1b\x1b[C", NextView},
		{"\x1c", PreviousView}, {"\x1b[1;3D", PreviousView}, {"\x1b", LeaveView}, {"\x1b[5~", Older},
		{"\x0f", Unfold}, {"\x1b[Z", NextMode},
		{"\x04", EOF}, {"\x03", Interrupt},
	} {
		t.Run(test.want.String(), func(t *testing.T) {
			term := open(t, 40, 10, nil)
			term.press(test.keys)
			if got := term.reads(); got.Kind != test.want {
				t.Errorf("%q is %v", test.keys, got)
			}
		})
	}
}

func TestCtrlCIsHeardByWhoeverIsThere(t *testing.T) {
	called := make(chan struct{}, 1)
	var idle atomic.Bool
	term := open(t, 40, 10, func(o *Options) { o.Interrupt, o.Idle = func(Input) { called <- struct{}{} }, idle.Load })
	term.press("half")
	term.shows("> half")
	term.press("\x03")
	<-called
	go func() {
		term.until("somebody who reads", func() bool { term.c.mu.Lock(); defer term.c.mu.Unlock(); return term.c.waiting > 0 })
		term.press("\x03")
	}()
	term.tickle()
	if got := term.reads(); got != (Input{Kind: Interrupt, Again: true}) {
		t.Errorf("Read = %v", got)
	}
	term.shows("> half")
	idle.Store(true)
	term.press("\x03other")
	<-called
	term.shows("> other")
	term.c.Notice("once more leaves")
	term.shows("> other", "once more leaves")
	term.press("x")
	term.shows("> otherx")
	term.c.Interrupt()
	<-called
	select {
	case <-called:
		t.Error("an interruption that was read was told as well")
	default:
	}
}

// tickle makes until look once more, for what is not on the screen.
func (term *terminal) tickle() {
	go func() {
		for {
			select {
			case <-term.done:
				return
			case term.changed <- struct{}{}:
			}
		}
	}()
}

// stuck is a terminal that takes nothing until it is let go.
type stuck struct {
	io.Writer
	busy, free chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.busy <- struct{}{}:
	default:
	}
	<-s.free
	return s.Writer.Write(p)
}

func TestCtrlCIsHeardWhenTheTerminalTakesNothing(t *testing.T) {
	s := &stuck{busy: make(chan struct{}, 1), free: make(chan struct{})}
	called := make(chan struct{}, 1)
	term := open(t, 40, 10, func(o *Options) {
		s.Writer, o.Out = o.Out, s
		o.Interrupt = func(Input) { called <- struct{}{} }
	})
	<-s.busy
	term.press("abc\x03")
	<-called
	close(s.free)
	term.shows("> abc")
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.c.Status("busy")
	io.WriteString(term.c, "\x1b[1mlast words")
	term.press("half a line\nand more")
	term.sees("and more")
	term.close()
	term.shows("last words")
	if x, y := term.cursor(); x != 0 || y != 1 {
		t.Errorf("the cursor is at %d, %d", x, y)
	}
	if !term.screen.CursorVisible() {
		t.Error("the cursor is hidden")
	}
	raw := term.bytes()
	for _, mode := range []string{"2004", "2026", "7"} {
		on, off := strings.LastIndex(raw, "[?"+mode+"h"), strings.LastIndex(raw, "[?"+mode+"l")
		if want := mode == "7"; (on > off) != want {
			t.Errorf("mode %s is left behind", mode)
		}
	}
	after, err := getState(term.slave)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(term.before), fmt.Sprint(after)); diff != "" {
		t.Errorf("the terminal is not as it was: %s", diff)
	}
	if _, err := term.c.Read(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Read = %v", err)
	}
	if _, err := term.c.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write = %v", err)
	}
}

func getState(f *os.File) (*term.State, error) { return term.GetState(int(f.Fd())) }

func TestALentTerminalIsAsItWasAndItsKeysAreFree(t *testing.T) {
	term := open(t, 40, 10, nil)
	io.WriteString(term.c, "before\n")
	term.press("draft")
	term.shows("before", "> draft")
	err := term.c.Lend(func() error {
		during, err := getState(term.slave)
		if err != nil || fmt.Sprint(during) != fmt.Sprint(term.before) {
			t.Errorf("it is %v, %v", during, err)
		}
		io.WriteString(term.c, "meanwhile\n")
		io.WriteString(term.slave, "name? ")
		term.press("ada\n")
		p := make([]byte, 20)
		n, err := term.slave.Read(p)
		if got := string(p[:n]); got != "ada\n" || err != nil {
			t.Errorf("the other program read %q, %v", got, err)
		}
		ofFiles(term.slave, term.slave).Raw() // and leaves it like that
		return io.ErrNoProgress
	})
	if err != io.ErrNoProgress {
		t.Errorf("Lend = %v", err)
	}
	term.shows("before", "name? ada", "meanwhile", "> draft")
	term.press("!\r")
	term.wantLine("draft!")
	term.close()
	if after, err := getState(term.slave); err != nil || fmt.Sprint(after) != fmt.Sprint(term.before) {
		t.Errorf("in the end it is %v, %v", after, err)
	}
}

func TestEnterTypedBeforeTheTerminalIsTakenBackIsEnter(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.c.Lend(func() error {
		term.press("ahead\r") // the line discipline makes a newline of it
		for typedAhead(term.slave.Fd()) == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	term.wantLine("ahead")
}

func TestCtrlZLendsTheTerminalToTheShell(t *testing.T) {
	stopped := make(chan struct{})
	term := open(t, 40, 10, func(o *Options) {
		o.Suspend = func() { fmt.Fprint(o.Out.(*os.File), "[stopped]\r\n"); close(stopped) }
	})
	term.press("draft\x1a")
	<-stopped
	term.press("!")
	term.shows("[stopped]", "> draft!")
}

func TestCtrlLClearsTheScreen(t *testing.T) {
	term := open(t, 40, 10, nil)
	io.WriteString(term.c, "old\nhalf")
	term.press("x")
	term.shows("old", "half", "> x")
	term.press("\x0c")
	term.shows("half", "> x")
}

func TestATerminalThatGoesAwayEndsTheInput(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.press("bye\r")
	term.wantLine("bye")
	term.tty.Close()
	if in, err := term.c.Read(t.Context()); err != nil || in.Kind != Hangup {
		t.Errorf("Read = %v, %v", in, err)
	}
}

// Whoever hears Ctrl-C may close the console, though that waits for the
// goroutine that hears the keys.
func TestCtrlCMayCloseTheConsole(t *testing.T) {
	closed := make(chan error)
	var term *terminal
	term = open(t, 40, 10, func(o *Options) { o.Interrupt = func(Input) { closed <- term.c.Close() } })
	term.press("\x03")
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Abandon needs nobody: not who has the terminal, not a terminal that takes
// something.
func TestAbandonWaitsForNobody(t *testing.T) {
	s := &stuck{busy: make(chan struct{}, 1), free: make(chan struct{})}
	term := open(t, 40, 10, func(o *Options) { s.Writer, o.Out = o.Out, s })
	<-s.busy
	term.c.lending.Lock()
	term.c.Abandon("bye\n")
	after, err := getState(term.slave)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(term.before), fmt.Sprint(after)); diff != "" {
		t.Errorf("the terminal is not as it was: %s", diff)
	}
	term.c.lending.Unlock()
	close(s.free)
}

func TestCtrlDLeavesAQuestionAndIsRead(t *testing.T) {
	term := open(t, 40, 10, nil)
	answer := make(chan error)
	go func() {
		_, err := term.c.Ask(t.Context(), "May I?", Choice{'y', "yes"})
		answer <- err
	}()
	term.sees("May I?")
	term.press("\x04")
	if err := <-answer; !errors.Is(err, io.EOF) {
		t.Errorf("Ask = %v", err)
	}
	if in, err := term.c.Read(t.Context()); err != nil || in.Kind != EOF {
		t.Errorf("Read = %v, %v", in, err)
	}
}

func TestNothingIsLostWhileAllHappensAtOnce(t *testing.T) {
	term := open(t, 40, 10, func(o *Options) { o.Suspend = func() {} })
	const writers, lines = 4, 200
	var busy sync.WaitGroup
	for w := range writers {
		busy.Go(func() {
			for i := range lines {
				fmt.Fprintf(term.c, "w%d-%d.\n", w, i)
				if i%50 == 0 {
					term.c.Lend(func() error { return nil })
					term.c.Status(fmt.Sprint("line ", i))
				}
			}
		})
	}
	busy.Go(func() {
		for i := range 100 {
			term.press("x")
			term.c.Resize()
			if i%20 == 0 {
				term.c.SetPrompt(fmt.Sprint(i, "> "))
			}
		}
	})
	busy.Wait()
	term.press("\r")
	term.wantLine(strings.Repeat("x", 100))
	term.close()
	for w := range writers {
		for i := range lines {
			if line := fmt.Sprintf("w%d-%d.\r\n", w, i); strings.Count(term.bytes(), line) != 1 {
				t.Fatalf("%q was written %d times", line, strings.Count(term.bytes(), line))
			}
		}
	}
}

func TestAnAnswerIsTypedAndTheLineBeforeComesBack(t *testing.T) {
	term := open(t, 60, 10, nil)
	term.press("half a message")
	term.shows("> half a message")
	answers := make(chan string)
	ask := func(asked time.Time) {
		t.Helper()
		go func() {
			text, err := term.c.AskText(t.Context(), "Where to?")
			answers <- fmt.Sprintf("%q %v", text, err)
		}()
		term.sees("[Enter] answer")
		term.c.mu.Lock()
		term.c.question.asked = asked
		term.c.mu.Unlock()
	}
	ask(time.Now().Add(time.Hour))
	term.press("\rUlm") // Enter so soon was meant for the message
	term.sees("> Ulm")
	term.c.mu.Lock()
	term.c.question.asked = time.Time{}
	term.c.mu.Unlock()
	term.press("\r")
	if got := <-answers; got != `"Ulm" <nil>` {
		t.Errorf("AskText = %s", got)
	}
	term.sees("> half a message")
	ask(time.Time{})
	term.press("x\x1b")
	if got := <-answers; got != `"" interrupted` {
		t.Errorf("with Esc, AskText = %s", got)
	}
	term.sees("> half a message")
	term.press(" and more\r")
	if in, err := term.c.Read(t.Context()); err != nil || in.Text != "half a message and more" {
		t.Errorf("Read = %v, %v", in, err)
	}
}
