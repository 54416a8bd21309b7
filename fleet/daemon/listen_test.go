package daemon

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// statusAt returns the status of a GET at an address, 0 when nobody listens.
func statusAt(t *testing.T, w *watch, address, path string) int {
	t.Helper()
	p := w.open[address]
	if p == nil {
		return 0
	}
	resp, err := http.Get("http://" + p.address.String() + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestAReloadMovesListenersAndKeepsTheOldOneOfABrokenAddress(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(called(), "one", nil)
	w := &watch{g: g, secret: secrets(keys), open: make(map[string]*door), failed: make(chan error, 1)}
	defer w.close()
	const a, b, both = "127.0.0.1:0", "localhost:0", "[::ffff:127.0.0.1]:0" // each its own port
	if errs := w.move(t.Context(), places{a, b}); len(errs) > 0 {
		t.Fatal(errs)
	}
	if hooks, metrics := statusAt(t, w, a, "/hooks/a/push"), statusAt(t, w, b, "/metrics"); hooks != http.StatusMethodNotAllowed || metrics != http.StatusOK {
		t.Fatalf("%d, %d", hooks, metrics)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	old := w.open[a].address.String()
	errs := w.move(t.Context(), places{taken.Addr().String(), both})
	if len(errs) != 1 || w.at.hooks != a || statusAt(t, w, a, "/hooks/a/push") != http.StatusMethodNotAllowed || w.open[a].address.String() != old {
		t.Errorf("a taken address: %v, %+v", errs, w.at)
	}
	if statusAt(t, w, both, "/metrics") != http.StatusOK || w.open[b] != nil {
		t.Errorf("the metrics did not move: %v", w.open)
	}
	// One address for both, which served one of them before.
	if errs := w.move(t.Context(), places{a, a}); len(errs) > 0 || statusAt(t, w, a, "/metrics") != http.StatusOK || statusAt(t, w, a, "/hooks/a/push") != http.StatusMethodNotAllowed {
		t.Errorf("both at one: %v", errs)
	}
	if errs := w.move(t.Context(), places{"", a}); len(errs) > 0 || statusAt(t, w, a, "/hooks/a/push") != http.StatusNotFound {
		t.Errorf("no webhooks any more: %v", errs)
	}
	if errs := w.move(t.Context(), places{}); len(errs) > 0 || len(w.open) != 0 {
		t.Errorf("%v is open, %v", w.open, errs)
	}
	w.wg.Wait()
	if _, err := net.Dial("tcp", old); err == nil {
		t.Error("the old address is still listened to")
	}
}

func TestAFileThatIsReloadedIsServed(t *testing.T) {
	s := newStage(t)
	f := called()
	d := s.daemon(f, "one")
	served := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- d.Serve(ctx, secrets(keys)) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	next := called()
	next.Metrics.Listen = address
	d.Reload(next)
	for {
		resp, err := http.Get("http://" + address + "/metrics")
		if err == nil {
			resp.Body.Close()
			break
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
