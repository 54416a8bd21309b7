package watch

import (
	"context"
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

// A home with a session that takes long to read is not said to be silent.
func TestAHomeThatTakesLongToReadSaysSo(t *testing.T) {
	r := newRig(t)
	r.o.AnswerWithin = 400 * time.Millisecond
	claude := filepath.Join(r.home, ".claude")
	hangs, answers := make(chan struct{}), make(chan struct{})
	var w *Watcher
	r.o.hang = func(home string) { // its disk answers, then hangs, then answers
		for home == claude {
			select {
			case <-answers:
				return
			case <-hangs:
				<-answers
				return
			case <-time.After(10 * time.Millisecond):
			}
			w.turn.Lock()
			for _, h := range w.homes {
				h.reads()
			}
			w.turn.Unlock()
		}
	}
	qwen := filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(1)+".jsonl")
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
	r.append(qwen, sayQwen(idOf(1), 0)+sayQwen(idOf(1), 1))
	w = New(r.o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r.until("that a home is being read", func(e Event) bool { return e.State == Reading && e.Path == claude })
	r.append(qwen, sayQwen(idOf(1), 2)+sayQwen(idOf(1), 3))
	for len(kept(t, r.s)[idOf(1)]) < 5 {
		r.until("the next import of the other home", func(e Event) bool { return e.Tool == "qwen-code" })
	}
	if _, told, err := r.control().Now(t.Context(), ""); err != nil || !told { // there is a report then
		t.Errorf("who asks for what is new now is told %v, %v", told, err)
	}
	if lines := strings.Join(r.status().lines(func(time.Time) string { return "noon" }), "\n"); !strings.Contains(lines, claude+" is being read") {
		t.Errorf("the status says %s", lines)
	}
	close(hangs)
	r.until("that its disk hangs", func(e Event) bool { return e.State == Silent && e.Path == claude })
	close(answers)
	r.until("what came of it", func(e Event) bool { return e.State == Following && e.Path == claude && e.Sessions == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOneLookThroughHomesDoesNotWaitForADiskThatHangs(t *testing.T) {
	r := newRig(t)
	r.o.AnswerWithin = 200 * time.Millisecond
	claude := filepath.Join(r.home, ".claude")
	answers := make(chan struct{})
	t.Cleanup(func() { close(answers) })
	r.o.hang = func(home string) {
		if home == claude {
			<-answers
		}
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.append(filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(1)+".jsonl"), sayQwen(idOf(1), 0)+sayQwen(idOf(1), 1))
	all, err := New(r.o).Once(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, e := range all {
		if hung := e.Path == claude; hung != (e.State == Silent) || hung != (len(e.Problems) == 1) || hung != (e.Sessions == 0) {
			t.Errorf("%+v", e)
		}
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
