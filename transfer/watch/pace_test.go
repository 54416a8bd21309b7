package watch

import (
	"testing"
	"time"
)

func TestSlowLooksThatAreOnlyToBeSureKeepADistance(t *testing.T) {
	r := newRig(t)
	r.o.SweepAfter, r.o.SweepAtLeast = 5*time.Second, 5*time.Minute
	w := New(r.o)
	now := time.Now()
	slow := func(name string, due time.Time) *home {
		h := &home{looked: 150 * time.Millisecond, rest: r.o.SweepAfter}
		h.event.Swept = "it has many folders"
		w.restOf(h, false)
		h.sweepAt, w.homes[name] = due, h
		return h
	}
	first, second := slow("a", now.Add(-2*time.Second)), slow("b", now.Add(-time.Second))
	if h, _ := w.next(now); h != first {
		t.Fatal("the one that waited longest is not the first")
	}
	w.pace(first)
	first.sweepAt = time.Now().Add(w.restOf(first, false))
	if least := 149 * time.Second; time.Until(first.sweepAt) < least || w.looksAfter.Sub(now) < least {
		t.Errorf("after a look of 150 ms: the next through that home in %v, and through any in %v; want 150 s", time.Until(first.sweepAt), w.looksAfter.Sub(now))
	}
	if h, at := w.next(now.Add(time.Minute)); h != nil || at.Before(w.looksAfter) && at.Sub(now) < discoverEvery {
		t.Errorf("a home is due at %v, before %v", at, w.looksAfter)
	}
	if h, _ := w.next(w.looksAfter); h != second {
		t.Error("the other home is not due after the pause")
	}
	quick := &home{looked: time.Millisecond, rest: r.o.SweepAfter}
	quick.event.Swept = "it is on a network disk"
	quick.sweepAt = now.Add(w.restOf(quick, false))
	w.homes["c"] = quick
	if h, _ := w.next(now.Add(11 * time.Second)); h != quick {
		t.Error("a home that is looked through quickly waits for the others")
	}
	second.changedAt = now
	if h, _ := w.next(now.Add(time.Second)); h != second {
		t.Error("a change waits for the next look")
	}
}
