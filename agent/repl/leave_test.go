package repl

import (
	"os"
	"testing"
)

// TestCtrlCAfterTheAnswerIsNotSwallowed: while the answer is only being kept,
// nothing can be stopped, and Ctrl-C is what it is at an idle prompt.
func TestCtrlCAfterTheAnswerIsNotSwallowed(t *testing.T) {
	x := newWaysOut()
	ctx, over := x.busy(t.Context())
	x.answered()
	if x.stops() || ctx.Err() != nil || x.confirmed(false) {
		t.Error("Ctrl-C stopped what had ended, or left at once")
	}
	if x.confirmed(false) || !x.confirmed(true) {
		t.Error("it leaves when it is pressed again, and only then")
	}
	if x.wish(os.Interrupt) || ctx.Err() != nil {
		t.Error("the first wish to leave did not wait for what is being kept")
	}
	if !x.wish(os.Interrupt) {
		t.Error("the second wish to leave had to wait")
	}
	over()

	x = newWaysOut()
	ctx, over = x.busy(t.Context())
	defer over()
	if !x.stops() || ctx.Err() == nil {
		t.Error("Ctrl-C did not stop the turn")
	}
	x.answered() // what had come of it is kept
	if x.stops() || !x.confirmed(false) || !x.wish(os.Interrupt) {
		t.Error("the second Ctrl-C after one that stopped a turn had to wait")
	}
}

// TestTheSecondCtrlCMayComeBeforeTheFirst: each is told by a goroutine of its own.
func TestTheSecondCtrlCMayComeBeforeTheFirst(t *testing.T) {
	x := newWaysOut()
	if x.confirmed(true) || !x.confirmed(false) {
		t.Error("two of them did not leave")
	}
}
