package server

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

// metricsType is the text format that Prometheus reads. It is so simple that
// its library, which links much more, is not worth it here.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// metrics are the server's counters. They name routes, never a tenant, a
// session or its content.
type metrics struct {
	version         string
	began           time.Time
	limited         *request.Limited
	active, streams atomic.Int64

	mu       sync.Mutex
	requests map[outcome]int64
	seconds  map[string]*histogram
}

// buckets are the upper bounds, in seconds, of the histogram of answers.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// outcome is what requests are counted by.
type outcome struct {
	method, route string
	status        int
}

func (a outcome) compare(b outcome) int {
	return cmp.Or(cmp.Compare(a.method, b.method), cmp.Compare(a.route, b.route), cmp.Compare(a.status, b.status))
}

type histogram struct {
	below []int64 // as many as buckets
	sum   float64
	count int64
}

func newMetrics(version string) *metrics {
	return &metrics{version: version, began: time.Now(), requests: make(map[outcome]int64), seconds: make(map[string]*histogram)}
}

// answered counts one answer.
func (m *metrics) answered(method, route string, status int, took time.Duration, stream bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[outcome{method, route, status}]++
	if stream {
		return // how long a stream stays open means nothing
	}
	h := m.seconds[route]
	if h == nil {
		h = &histogram{below: make([]int64, len(buckets))}
		m.seconds[route] = h
	}
	s := took.Seconds()
	for i, end := range buckets {
		if s <= end {
			h.below[i]++
		}
	}
	h.sum += s
	h.count++
}

// label writes the value of a label.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// write writes everything that was counted.
func (m *metrics) write(w io.Writer, more []Measure) error {
	var b bytes.Buffer
	about := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	about("tidemark_build_info", "gauge", "Which version this is.")
	fmt.Fprintf(&b, "tidemark_build_info{version=%s} 1\n", label(m.version))
	about("tidemark_http_requests_active", "gauge", "Requests that are being answered.")
	fmt.Fprintf(&b, "tidemark_http_requests_active %d\n", m.active.Load())
	about("tidemark_http_streams_active", "gauge", "Streams that are open.")
	fmt.Fprintf(&b, "tidemark_http_streams_active %d\n", m.streams.Load())
	m.mu.Lock()
	about("tidemark_http_requests_total", "counter", "Requests answered.")
	for _, a := range slices.SortedFunc(maps.Keys(m.requests), outcome.compare) {
		fmt.Fprintf(&b, "tidemark_http_requests_total{method=%s,route=%s,status=%s} %d\n", label(a.method), label(a.route), label(strconv.Itoa(a.status)), m.requests[a])
	}
	about("tidemark_http_request_seconds", "histogram", "How long answers took, streams left out.")
	for _, route := range slices.Sorted(maps.Keys(m.seconds)) {
		h, on := m.seconds[route], label(route)
		for i, end := range buckets {
			fmt.Fprintf(&b, "tidemark_http_request_seconds_bucket{route=%s,le=\"%g\"} %d\n", on, end, h.below[i])
		}
		fmt.Fprintf(&b, "tidemark_http_request_seconds_bucket{route=%s,le=\"+Inf\"} %d\n", on, h.count)
		fmt.Fprintf(&b, "tidemark_http_request_seconds_sum{route=%s} %g\ntidemark_http_request_seconds_count{route=%s} %d\n", on, h.sum, on, h.count)
	}
	m.mu.Unlock()
	about("tidemark_limited_total", "counter", "Requests that were refused because of a limit.")
	for _, l := range []struct {
		name string
		n    *atomic.Int64
	}{{"requests", &m.limited.Rate}, {"at_once", &m.limited.AtOnce}, {"streams", &m.limited.Streams}, {"bytes", &m.limited.Bytes}, {"sessions", &m.limited.Sessions}, {"storage", &m.limited.Storage}} {
		fmt.Fprintf(&b, "tidemark_limited_total{limit=%s} %d\n", label(l.name), l.n.Load())
	}
	for _, one := range append(m.process(), more...) {
		about(one.Name, one.Kind, one.Help)
		for _, v := range one.Values {
			fmt.Fprintf(&b, "%s%s %s\n", one.Name, v.Labels, strconv.FormatFloat(v.Value, 'g', -1, 64))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Measure is one metric that somebody else measures.
type Measure struct {
	Name   string
	Kind   string // gauge or counter
	Help   string
	Values []Value
}

// Value is one value of a metric. Labels are as they are written, such as
// {state="idle"}; "" is none.
type Value struct {
	Labels string
	Value  float64
}

// One returns a Measure of one value.
func One(name, kind, help string, value float64) Measure {
	return Measure{name, kind, help, []Value{{"", value}}}
}

// storesMeasured returns what is to be known of the stores that are open.
func storesMeasured(f stores.Figures) []Measure {
	return []Measure{
		One("tidemark_stores_open", "gauge", "Users whose store is open here.", float64(f.Open)),
		One("tidemark_stores_unindexed", "gauge", "Stores with something that is not in the search index yet.", float64(f.Unread)),
		One("tidemark_index_lag_seconds", "gauge", "How long the oldest of it has waited.", f.IndexLag.Seconds()),
		One("tidemark_leases_kept", "gauge", "Leases that clients append under through this server.", float64(f.Writers)),
		One("tidemark_audit_waiting", "gauge", "Lines that are not chained into the audit log yet.", float64(f.Audits)),
		One("tidemark_audit_failures_total", "counter", "How often such lines could not be written, and were put off.", float64(f.Failed)),
	}
}

// process returns what is to be known of this process, under the names that
// dashboards for Go programs know.
func (m *metrics) process() []Measure {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	all := []Measure{
		One("go_goroutines", "gauge", "Goroutines that exist.", float64(runtime.NumGoroutine())),
		One("go_memstats_heap_alloc_bytes", "gauge", "Bytes of the heap that are in use.", float64(mem.HeapAlloc)),
		One("go_memstats_sys_bytes", "gauge", "Bytes that Go got from the system.", float64(mem.Sys)),
		One("go_memstats_alloc_bytes_total", "counter", "Bytes that were allocated, freed ones included.", float64(mem.TotalAlloc)),
		One("go_gc_cycles_total", "counter", "Garbage collections.", float64(mem.NumGC)),
		One("process_start_time_seconds", "gauge", "When the process began, since 1970.", float64(m.began.UnixMilli())/1000),
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		all = append(all, One("process_open_fds", "gauge", "Files and connections that are open.", float64(len(files))))
	}
	return all
}
