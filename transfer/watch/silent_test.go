package watch

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A disk may hang at any step: when a home is found, looked through, or read.
func TestAHomeWhoseDiskHangsKeepsNoOtherOut(t *testing.T) {
	for at := range 5 {
		t.Run(fmt.Sprintf("at step %d", at), func(t *testing.T) {
			r := newRig(t)
			r.o.AnswerWithin = 200 * time.Millisecond
			claude := filepath.Join(r.home, ".claude")
			var mu sync.Mutex
			steps, answers := 0, make(chan struct{})
			r.o.hang = func(home string) {
				if home != claude {
					return
				}
				mu.Lock()
				hangs := steps >= at
				steps++
				mu.Unlock()
				if hangs {
					<-answers
				}
			}
			qwen := filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(1)+".jsonl")
			r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
			r.append(qwen, sayQwen(idOf(1), 0)+sayQwen(idOf(1), 1))
			stop := r.run()
			r.until("that a home does not answer", func(e Event) bool { return e.State == Silent && e.Path == claude })
			r.append(qwen, sayQwen(idOf(1), 2)+sayQwen(idOf(1), 3))
			for len(kept(t, r.s)[idOf(1)]) < 5 {
				r.until("the next import of the other home", func(e Event) bool { return e.Tool == "qwen-code" })
			}
			homes, told, err := r.control().Now(t.Context(), "")
			if err != nil || !told || len(homes) != 2 {
				t.Errorf("who asks for what is new now gets %+v, %v, %v", homes, told, err)
			}
			if lines := strings.Join(r.status().lines(func(time.Time) string { return "noon" }), "\n"); !strings.Contains(lines, claude+" does not answer, since noon") {
				t.Errorf("the status says %s", lines)
			}
			close(answers)
			for len(kept(t, r.s)[idOf(0)]) < 3 {
				r.until("what came of the home that hung", func(e Event) bool { return e.Path == claude && e.State == Following })
			}
			stop()
		})
	}
}

func TestAWatcherEndsWhileADiskHangs(t *testing.T) {
	r := newRig(t)
	r.o.AnswerWithin = 200 * time.Millisecond
	answers := make(chan struct{})
	t.Cleanup(func() { close(answers) })
	r.o.hang = func(string) { <-answers }
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	stop := r.run()
	r.until("that the home does not answer", in(Silent))
	stop()
}
