package pages

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

func TestATaskRunsOnceGoesOnAndKeepsItsTrouble(t *testing.T) {
	s := &Site{o: Options{Now: time.Now}, shutdown: request.NewShutdown()}
	hold, runs := make(chan struct{}), atomic.Int64{}
	run := func(_ context.Context, progress func(int64)) (any, error) {
		runs.Add(1)
		progress(7)
		<-hold
		return "result", errors.New("the end")
	}
	ctx, stop := context.WithCancel(t.Context())
	one := s.Begin(ctx, "x", run)
	stop() // whoever asked goes away
	if two := s.Begin(t.Context(), "x", run); two != one || two.wait(t.Context(), time.Millisecond) {
		t.Error("it was begun twice, or is over")
	}
	close(hold)
	<-one.done
	v := taskView(one)
	if v.Running || v.Done != 7 || v.Trouble == "" || runs.Load() != 1 || one.fresh(time.Now()) {
		t.Errorf("%+v after %d runs", v, runs.Load())
	}
	if got, err := taskResult[string](one); got != "result" || err == nil {
		t.Errorf("%q %v", got, err)
	}
	for i := range maxTasks + 10 {
		<-s.Begin(t.Context(), "y"+strings.Repeat("z", i), func(context.Context, func(int64)) (any, error) { return nil, nil }).done
	}
	if n := len(s.tasks.of); n > maxTasks {
		t.Errorf("%d are remembered", n)
	}
}

func TestDamageIsShownWithoutWhatATerminalWouldObey(t *testing.T) {
	d := damageView(&tidemark.Damage{Key: tidemark.Key{Kind: "session", ID: "7f3a0c1e-0000-4000-8000-000000000001"}, Seq: 12, What: "\x1b[31mbroken"})
	if d.Session == "" || d.Seq != 12 || strings.Contains(d.What, "\x1b") {
		t.Errorf("%+v", d)
	}
}
