//go:build !windows

package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
)

const (
	up, down     = "\x1b[A", "\x1b[B"
	enter, esc   = "\r", "\x1b"
	ctrlA, ctrlC = "\x01", "\x03"
	ctrlD, ctrlG = "\x04", "\x07"
	ctrlR, ctrlT = "\x12", "\x14"
	ctrlU, ctrlZ = "\x15", "\x1a"
)

func TestTheNewestIsFirstAndEnterPicksIt(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{Heading: "Resume"})
	term.sees("Resume >", "> Why does the lease", "Release notes", "Picnic", "4 · all projects", "end of s1")
	term.press(enter)
	if it, ok, err := term.ends(); it.ID != "s1" || !ok || err != nil {
		t.Errorf("Pick = %v, %v, %v", it, ok, err)
	}
}

func TestKeysMoveThroughTheList(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{})
	term.sees("> Why")
	for _, step := range []struct{ keys, want string }{
		{down, "> Release"}, {"\x0e", "> └ ⑂ Shorter"}, {up, "> Release"}, {"\x10", "> Why"}, {up, "> Why"},
		{"\x1b[F", "> Picnic"}, {down, "> Picnic"}, {"\x1b[H", "> Why"}, {"\x1b[6~", "> Picnic"}, {"\x1b[5~", "> Why"},
	} {
		term.press(step.keys)
		term.sees(step.want)
	}
}

func TestTypingNarrowsTitlesAndFindsContent(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{})
	term.sees("> Why")
	term.press("notes")
	term.sees("> Release notes", "Shorter notes  ⑂ fork of Release", "!Picnic", "!Why does", "2/4")
	term.press(ctrlU + "barnacle")
	term.sees("0/4 +1 by content", "> Picnic  bring the barnacle scraper")
	term.press(enter)
	if it, ok, err := term.ends(); it.ID != "s4" || !ok || err != nil {
		t.Errorf("Pick = %v, %v, %v", it, ok, err)
	}
}

func TestTheRestOfTheListFollowsTheFirstPage(t *testing.T) {
	src := &shelf{}
	for i := range firstPage + 2*nextPage + 1 {
		src.items = append(src.items, Item{ID: strconv.Itoa(i), Title: fmt.Sprintf("session %d.", i)})
	}
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{Filter: "4120."})
	term.sees("> session 4120.", "1/4,121 ·")
	term.press(esc)
	term.sees("> session 0.")
	term.press("\x1b[F")
	term.sees("> session 4120.")
}

func TestEscClearsTheFilterAndThenLeaves(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{Filter: "picnic"})
	term.sees("> Picnic", "!Why")
	term.press(esc)
	term.sees("> Why", "Picnic")
	term.press(esc)
	if it, ok, err := term.ends(); it.ID != "" || ok || err != nil {
		t.Errorf("Pick = %v, %v, %v", it, ok, err)
	}
}

func TestARenamedSessionIsShownAndKept(t *testing.T) {
	src := harbour()
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	term.sees("> Why")
	term.press(down + ctrlR)
	term.sees("Title: Release notes")
	term.press(ctrlU + "Notes of March" + enter)
	term.sees("> Notes of March", "Renamed to")
	if got := src.item("s2").Title; got != "Notes of March" {
		t.Errorf("kept title: %q", got)
	}
	term.press("shorter")
	term.sees("> Shorter notes  ⑂ fork of Notes of")
	src.fail(errBroken)
	term.press(ctrlR + "x" + enter)
	term.sees("Could not rename", "the disk is gone", "> Shorter notes  ⑂")
}

func TestTrashAsksAndCanBeUndone(t *testing.T) {
	src := harbour()
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	term.sees("> Why")
	term.press(down + ctrlD)
	term.sees("Move “Release notes” to the trash? y/n")
	term.press("n")
	term.sees("Left where it is", "> Release")
	term.press("\x1b[3~y") // Del
	term.sees("is in the trash", "> Shorter notes  ⑂ fork of Rel", "!  Release notes ")
	if got := src.item("s2").State; got != "trash" {
		t.Errorf("state after y: %q", got)
	}
	term.press(ctrlT)
	term.sees("> Release notes", "1 · trash", "!Picnic")
	term.press(ctrlT)
	term.sees("Picnic", "!> Release")
	term.press(ctrlZ)
	term.sees("  Release notes", "is back", "└ ⑂ Shorter")
	term.press("\x1b[H" + down + ctrlD + "y")
	term.sees("is in the trash", "!└ ⑂ Shorter")
	term.press(ctrlZ)
	term.sees("> Release notes", "is back", "└ ⑂ Shorter")
	if got := src.item("s2").State; got != "live" {
		t.Errorf("state after undo: %q", got)
	}
	term.press(ctrlZ)
	term.sees("nothing to undo")
}

func TestInTheTrashASessionIsRestored(t *testing.T) {
	src := harbour()
	src.items[3].State = "trash"
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{Scope: Scope{Trash: true}})
	term.sees("> Picnic", "1 · trash")
	term.press(ctrlD)
	term.sees("in the trash already")
	term.press(ctrlZ)
	term.sees("the trash is empty", "is back")
	term.press(ctrlT)
	term.sees("> Why", "Picnic")
}

func TestScopeKeysTurnToProjectAndAgent(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 100, 24, PickOptions{Project: "/src/pier"})
	term.sees("> Why", "4 · all projects", "^A this project")
	term.press(ctrlA)
	term.sees("> Release", "2 · pier", "!Picnic", "^A all projects")
	term.press(ctrlA)
	term.sees("> Why", "4 · all projects")
	term.press(ctrlG)
	term.sees("agent demo", "Picnic", "!Release")
	term.press(ctrlG)
	term.sees("Release", "!agent demo")
}

func TestHelpIsShownWhileNothingIsTyped(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{})
	term.sees("> Why")
	term.press("?")
	term.sees("any key goes back", "rename the session")
	term.press("x")
	term.sees("> Why", "!any key")
	term.press("expire?")
	term.sees("> Why", "1/4", "Open > expire?")
}

func TestTheScreenFollowsTheWindow(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{})
	term.sees("> Why", "end of s1")
	for _, size := range []struct {
		cols, rows int
		preview    bool
	}{{40, 10, false}, {300, 100, true}, {120, 12, true}, {20, 3, false}, {60, 30, true}} {
		term.mu.Lock()
		term.screen.Resize(size.cols, size.rows)
		term.mu.Unlock()
		if err := pty.Setsize(term.tty, &pty.Winsize{Cols: uint16(size.cols), Rows: uint16(size.rows)}); err != nil {
			t.Fatal(err)
		}
		// The picker has the terminal as its own, but is no session leader in
		// a test: the kernel has nobody to signal.
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		switch {
		case size.cols < minWidth:
			term.sees("Make the window")
		case size.preview:
			term.sees("> Why", "end of s1")
		default:
			term.sees("> Why", "!end of s1")
		}
		lines := strings.Split(strings.TrimRight(term.text(), "\n"), "\n")
		if len(lines) > size.rows {
			t.Errorf("%d lines on a screen of %d", len(lines), size.rows)
		}
	}
	term.press("\t")
	term.sees("> Why", "!end of s1")
	term.press("\t")
	term.sees("> Why", "end of s1")
}

func TestLeavingPutsTheTerminalBack(t *testing.T) {
	for name, leave := range map[string]func(*pickTerminal, context.CancelFunc){
		"with ctrl-c":           func(term *pickTerminal, _ context.CancelFunc) { term.press(ctrlC) },
		"with ctrl-c in a name": func(term *pickTerminal, _ context.CancelFunc) { term.press(ctrlR + "x" + ctrlC) },
		"with enter":            func(term *pickTerminal, _ context.CancelFunc) { term.press(enter) },
		"by the context":        func(_ *pickTerminal, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			src := &slow{shelf: harbour(), asked: make(chan struct{}), stopped: make(chan struct{})}
			terminal := openPick(t, ctx, src, 80, 24, PickOptions{})
			terminal.sees("> Why")
			<-src.asked
			leave(terminal, cancel)
			_, _, err := terminal.ends()
			if ctx.Err() != nil && !errors.Is(err, context.Canceled) || ctx.Err() == nil && err != nil {
				t.Errorf("Pick = %v", err)
			}
			select {
			case <-src.stopped:
			default:
				t.Error("Pick returned while a call of the source was under way")
			}
			after, err := term.GetState(int(terminal.slave.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(terminal.before, after) {
				t.Errorf("terminal settings: %v, before %v", after, terminal.before)
			}
			terminal.until("main screen", func(string) bool {
				terminal.mu.Lock()
				defer terminal.mu.Unlock()
				return terminal.screen.Mode()&vt10x.ModeAltScreen == 0 && terminal.screen.CursorVisible()
			})
			for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?2004h", "\x1b[?2004l"}, {"\x1b[>1u", "\x1b[<1u"}, {"\x1b[6 q", "\x1b[0 q"}} {
				raw := terminal.bytes()
				if on, off := strings.LastIndex(raw, pair[0]), strings.LastIndex(raw, pair[1]); on < 0 || off < on {
					t.Errorf("%q is at %d and %q at %d", pair[0], on, pair[1], off)
				}
			}
		})
	}
}

func TestATerminalThatGoesAwayEndsThePicker(t *testing.T) {
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	ended := make(chan error, 1)
	go func() {
		_, _, err := Pick(t.Context(), harbour(), pickOn(slave))
		ended <- err
	}()
	if _, err := tty.Read(make([]byte, 1)); err != nil { // it has begun to draw
		t.Fatal(err)
	}
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Pick = %v, want ErrUnexpectedEOF", err)
	}
}

// faulty is a shelf whose previews are a mistake in the program.
type faulty struct{ *shelf }

func (faulty) Preview(context.Context, Item) ([]PreviewLine, error) { panic("no such page") }

func TestAPanicPutsTheTerminalBack(t *testing.T) {
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	defer slave.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 120, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, tty)
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	fault := func() (fault any) {
		defer func() { fault = recover() }()
		_, _, _ = Pick(t.Context(), faulty{harbour()}, pickOn(slave))
		return nil
	}()
	if s, _ := fault.(string); !strings.Contains(s, "no such page") || !strings.Contains(s, "Preview") {
		t.Errorf("Pick panicked with %v", fault)
	}
	after, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("terminal settings: %v, before %v", after, before)
	}
}

func TestCtrlCLeavesAListThatTheTerminalDoesNotTake(t *testing.T) {
	keys, typed := io.Pipe()
	o := &PickOptions{In: keys, Out: blocked{t.Context()}, Text: screenText, Raw: func() (func() error, error) { return func() error { return nil }, nil },
		Size: func() (int, int, error) { return 80, 24, nil }}
	ended := make(chan error, 1)
	go func() {
		_, _, err := Pick(t.Context(), harbour(), o)
		ended <- err
	}()
	io.WriteString(typed, ctrlC)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Pick = %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Ctrl-C is not heard")
	}
}

// blocked is a terminal that takes nothing as long as the test lasts.
type blocked struct{ context.Context }

func (b blocked) Write([]byte) (int, error) {
	<-b.Done()
	return 0, b.Err()
}

// slow is a shelf whose previews last until they are given up.
type slow struct {
	*shelf
	asked, stopped chan struct{}
}

func (s *slow) Preview(ctx context.Context, _ Item) ([]PreviewLine, error) {
	close(s.asked)
	<-ctx.Done()
	close(s.stopped)
	return nil, ctx.Err()
}

func TestWhatWasConfirmedIsFinishedBeforeThePickerEnds(t *testing.T) {
	src := harbour()
	src.hold = make(chan struct{})
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	term.sees("> Why")
	term.press(ctrlR + ctrlU + "Kept" + enter)
	term.sees("> Why", "!Title:")
	term.press(down + enter)
	term.sees("Finishing")
	close(src.hold)
	if it, ok, err := term.ends(); it.ID != "s2" || !ok || err != nil {
		t.Errorf("Pick = %v, %v, %v", it, ok, err)
	}
	if got := src.item("s1").Title; got != "Kept" {
		t.Errorf("kept title: %q", got)
	}
}

func TestAFailedLastWriteIsReturned(t *testing.T) {
	src := harbour()
	src.hold = make(chan struct{})
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	term.sees("> Why")
	term.press(ctrlD + "y" + enter)
	term.sees("Finishing")
	src.fail(errBroken)
	close(src.hold)
	if _, _, err := term.ends(); !errors.Is(err, errBroken) {
		t.Errorf("Pick = %v, want %v", err, errBroken)
	}
}

func TestAListThatCannotBeReadIsAnError(t *testing.T) {
	src := harbour()
	src.fail(errBroken)
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	if _, ok, err := term.ends(); ok || !errors.Is(err, errBroken) {
		t.Errorf("Pick = %v, %v, want %v", ok, err, errBroken)
	}
}

func TestASearchThatFailsLeavesTheTitles(t *testing.T) {
	src := harbour()
	term := openPick(t, t.Context(), src, 80, 24, PickOptions{})
	term.sees("> Why")
	src.fail(errBroken)
	term.press("notes")
	term.sees("Content is not searched: the disk is gone", "> Release notes")
}

func TestWithoutTextNothingIsShown(t *testing.T) {
	if _, _, err := Pick(t.Context(), harbour(), nil); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Pick = %v, want ErrInvalid", err)
	}
}

func TestHostileTextReachesTheTerminalOnlyAsText(t *testing.T) {
	evil := []string{"\x1b]0;owned\x07", "\x1b[666mred", "\x1bPq#0\x1b\\", "\x9b666m", "\u009b666m", "\u202egnp.exe", "\u2066a\u2069", "\u200b", "\U000e0041",
		"\r\nsecond", "\xff\xfe", "\x1b]52;c;aGk=\x1b\\", "\a\b\v\x00\x7f", "\u2028", "\ufeff", "\x1b_G\x1b\\", "\x1b^pm\x1b\\", "\u061c"}
	src := &shelf{content: map[string]string{}}
	for i, e := range evil {
		id := string(rune('a'+i)) + e
		src.items = append(src.items, Item{ID: id, Title: "title " + e, Agent: e, Model: e, Project: "/src/" + e, Tags: []string{e}, Live: true,
			ForkOf: Fork{ID: "gone" + e, Title: e}})
		src.content[id] = "said " + e
	}
	term := openPick(t, t.Context(), src, 200, 50, PickOptions{Heading: "Open" + evil[0], Project: evil[1], Filter: ""})
	term.sees("> ● title", `\x1b]0;owned\x07`)
	for range evil {
		term.press(down)
		term.press(ctrlR)
		term.sees("Title: ")
		term.press("\r")
		term.press(ctrlD)
		term.sees("y/n")
		term.press("n")
		term.sees("Left where")
	}
	for _, e := range evil {
		// A paste, since a key cannot be a control; what ends it cannot be in it.
		term.press("\x1b[200~" + strings.ReplaceAll(e, "\x1b[", "") + "\x1b[201~" + ctrlU)
	}
	term.press("said")
	term.sees("by content")
	src.fail(errors.New("bad " + strings.Join(evil, " ")))
	term.press(ctrlU + "title" + ctrlD + "y")
	term.sees("Could not trash")
	term.press(ctrlA)
	term.press(ctrlC)
	term.ends()
	onlyText(t, term.bytes())
}

// onlyText fails unless a stream holds nothing but text and the sequences that
// draw: no string that sets something, no control, no hidden character.
func onlyText(t *testing.T, raw string) {
	t.Helper()
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRuneInString(raw[i:])
		around := raw[max(i-40, 0):min(i+40, len(raw))]
		switch {
		case r == utf8.RuneError && n == 1:
			t.Fatalf("a byte that is no text in %q", around)
		case r == '\x1b':
			rest, ok := strings.CutPrefix(raw[i:], "\x1b[")
			if !ok {
				t.Fatalf("a sequence that does not draw in %q", around)
			}
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			if strings.Contains(rest[:end], "666") {
				t.Fatalf("a sequence of a session in %q", around)
			}
			n = 2 + end + 1
		case strings.ContainsRune("\r\n\b\t", r):
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			t.Fatalf("%U in %q", r, around)
		}
		i += n
	}
}

func TestAPlainScreenHasNoLooks(t *testing.T) {
	term := openPick(t, t.Context(), harbour(), 80, 24, PickOptions{Plain: true})
	term.sees("> Why", "end of s1")
	term.press("notes")
	term.sees("> Release", "2/4", "!searching")
	term.press(ctrlC)
	term.ends()
	var looks []string
	for _, part := range strings.Split(term.bytes(), "\x1b[")[1:] {
		end := strings.IndexFunc(part, func(r rune) bool { return r >= '@' && r <= '~' })
		if seq := part[:end+1]; seq[end] == 'm' && !slices.Contains([]string{"m", "0m", ">4;2m", ">4m", ">4;0m"}, seq) {
			looks = append(looks, seq)
		}
	}
	if len(looks) > 0 {
		t.Errorf("looks on a plain screen: %q", looks)
	}
}
