//go:build !windows

package terminal

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestHeldLinesAreShownAndCanBeTakenBack(t *testing.T) {
	term := open(t, 60, 10, nil)
	term.c.Hold(func(in Input) bool { return in.Kind == Line && in.Text != "/now" })
	term.press("first\rsecond\r")
	const hint = "  sent when this is done; Up takes the last one back"
	term.shows("» first", "» second", hint, ">")
	term.press(upKey)
	term.shows("» first", hint, "> second")
	term.press("!\r")
	term.shows("» first", "» second!", hint, ">")
	term.press("/now\r")
	term.wantLine("/now")
	term.c.Hold(nil)
	term.wantLine("first")
	term.wantLine("second!")
	term.c.Hold(func(Input) bool { return true })
	term.press("third\r/now\r")
	term.sees("» /now")
	if got := term.c.TakeLines(func(in Input) bool { return in.Text != "/now" }, true); fmt.Sprint(got) != "[third]" {
		t.Errorf("waiting were %q", got)
	}
	term.c.Hold(nil)
	term.wantLine("/now") // nobody else's
	term.shows("> /now", "> first", "> second!", "> third", "> /now", ">")
}

func TestCtrlCIsHeardWhileLinesAreHeld(t *testing.T) {
	heard := make(chan struct{}, 1)
	term := open(t, 60, 10, func(o *Options) { o.Interrupt = func(Input) { heard <- struct{}{} } })
	term.c.Hold(func(in Input) bool { return in.Kind == Line })
	term.press("later\r")
	term.sees("» later")
	term.press("\x03")
	<-heard // nobody reads
	go func() {
		term.until("somebody who reads", func() bool { term.c.mu.Lock(); defer term.c.mu.Unlock(); return term.c.waiting > 0 })
		term.press("\x03")
	}()
	term.tickle()
	if in := term.reads(); in.Kind != Interrupt {
		t.Errorf("Ctrl-C was read as %v", in)
	}
}

func TestProgressIsShownAndLeavesNothing(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.c.Progress("▸ bash: make test · 3 s", "  ok one")
	term.shows("▸ bash: make test · 3 s", "  ok one", ">")
	fmt.Fprintln(term.c, "said meanwhile")
	term.c.Progress("▸ bash: make test · 4 s", "  "+strings.Repeat("long ", 20))
	term.shows("said meanwhile", "▸ bash: make test · 4 s", "  long long long long long long long l…", ">")
	term.c.Progress()
	term.shows("said meanwhile", ">")
}

func TestTheStatusLeavesOffWhatDoesNotFit(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.c.Status("ask", "", "12% of 200k", "claude-something", "main in ~/project")
	term.shows(">", "ask · 12% of 200k · claude-something")
	term.resize(80, 10)
	term.shows(">", "ask · 12% of 200k · claude-something · main in ~/project")
	term.resize(20, 10)
	term.shows(">", "ask · 12% of 200k")
}

// A row that did not change is not written again while others do.
func TestOnlyRowsThatChangedAreDrawnAgain(t *testing.T) {
	term := open(t, 40, 10, nil)
	term.c.Status("quiet")
	term.c.Progress("▸ 1 s")
	term.shows("▸ 1 s", ">", "quiet")
	before := len(term.bytes())
	for _, s := range []string{"▸ 2 s", "▸ 3 s"} {
		term.c.Progress(s)
		term.shows(s, ">", "quiet")
	}
	if again := term.bytes()[before:]; strings.Contains(again, "quiet") || !strings.Contains(again, "▸ 3 s") {
		t.Errorf("written for two new rows: %q", again)
	}
	term.press("typed")
	term.shows("▸ 3 s", "> typed", "quiet")
	if x, y := term.cursor(); x != 7 || y != 1 {
		t.Errorf("the cursor is at %d, %d", x, y)
	}
}

func TestAWordIsCompletedAsItIsTyped(t *testing.T) {
	files := []string{"@main.go ", "@main_test.go ", "@make/rules "}
	term := open(t, 40, 10, func(o *Options) {
		o.Eager = func(word, first string) bool { return strings.HasPrefix(word, "@") || first == "/pick" }
		o.Complete = func(_ context.Context, line string, pos int) (from int, found []string) {
			from = strings.LastIndex(line[:pos], " ") + 1
			for _, f := range files {
				if strings.Contains(f, line[from+1:pos]) {
					found = append(found, f)
				}
			}
			return from, found
		}
	})
	term.press("see @ma")
	term.shows("> see @ma", "@main.go       @main_test.go", "@make/rules")
	term.press("in")
	term.shows("> see @main", "@main.go       @main_test.go")
	term.press("\t")
	term.shows("> see @main.go", "@main.go       @main_test.go")
	term.press("\t")
	term.shows("> see @main_test.go", "@main.go       @main_test.go")
	term.press("now")
	term.shows("> see @main_test.go now")
	term.press(" @rul")
	term.shows("> see @main_test.go now @rul", "@make/rules")
	term.press("\x1b")
	term.shows("> see @main_test.go now @rul")
	term.press("\r")
	term.wantLine("see @main_test.go now @rul")
}

func TestCtrlGEditsTheLineElsewhere(t *testing.T) {
	fails := false
	term := open(t, 40, 10, func(o *Options) {
		o.Edit = func(text string) (string, error) {
			if fails {
				return "", fmt.Errorf("no editor")
			}
			return text + " and\nmore\n", nil
		}
	})
	term.press("this\x07")
	term.shows("> this and", "  more")
	fails = true
	term.press("\x07")
	term.shows("> this and", "  more", "no editor")
	term.press("\r")
	term.wantLine("this and\nmore")
}
