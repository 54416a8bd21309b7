package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
)

const (
	loopback   = "a bare round trip over loopback"
	overHTTP   = "over HTTP"
	inProcess  = "in process"
	inProcess1 = inProcess + " + " + loopback
)

// serving is two nodes in front of the database.
type serving struct {
	*teamPlace
	at     *nodes.Place
	nodes  []*nodes.Node
	client *nodes.Client
}

// teamServers measures real servers, in processes of their own.
func (r *run) teamServers(ctx context.Context, t *teamPlace) error {
	if !r.hasProgram() {
		return nil
	}
	long := t.logs[1]
	r.say("making %s entries in PostgreSQL", short(long))
	var err error
	if t.with.session, err = t.with.converse(ctx, long); err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "nodes")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := &nodes.Place{Program: r.program, Dir: dir, Env: os.Environ(), Store: teamURL(t.db.Server), Flags: []string{"--quiet"}}
	v := &serving{teamPlace: t, at: at}
	defer func() {
		for _, n := range v.nodes {
			n.Kill()
		}
	}()
	for range 2 {
		n, err := at.Start(ctx)
		if n != nil {
			v.nodes = append(v.nodes, n)
		}
		if err != nil {
			return err
		}
	}
	if v.client, err = at.Client(t.followers); err != nil {
		return err
	}
	defer v.client.Close()
	for _, measure := range []func(context.Context, *serving) error{r.teamCalls, r.teamPair, r.teamShares, r.teamFollowers} {
		if err := measure(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// sent is say in its wire form.
func sent(seq int64) api.NewEntry {
	e := say(seq)
	return api.NewEntry{Role: e.Role, Blocks: e.Blocks}
}

// lent is a session whose lease a client over HTTP holds.
type lent struct {
	node, token string
	id          tidemark.SessionID
	seq         int64
}

func (v *serving) lend(ctx context.Context, node string) (*lent, error) {
	id, err := v.client.Create(ctx, node, "bench")
	if err != nil {
		return nil, err
	}
	token, err := v.client.Lease(ctx, node, id)
	return &lent{node: node, token: token, id: id}, err
}

func (v *serving) append(ctx context.Context, l *lent) error {
	l.seq++
	_, err := v.client.AppendUnder(ctx, l.node, l.id, l.token, sent(l.seq))
	return err
}

func (v *serving) renew(ctx context.Context, l *lent) error {
	return v.client.Renew(ctx, l.node, l.id, l.token)
}

// teamCalls measures one call at a time: an append under a lease, one that
// takes the lease for itself, and a tail, each compared with the same in
// process and with an empty round trip.
func (r *run) teamCalls(ctx context.Context, v *serving) error {
	r.say("calls over HTTP")
	node := v.nodes[0].URL
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"seqs":[1]}`))
	}))
	defer echo.Close()
	own, err := v.with.writers(ctx, 1)
	if err != nil {
		return err
	}
	defer closeAll(ctx, own)
	l, err := v.lend(ctx, node)
	if err != nil {
		return err
	}
	id, err := v.client.Create(ctx, node, "bench")
	if err != nil {
		return err
	}
	body := api.Appending{Entries: []api.NewEntry{sent(1)}}
	here, n := v.with.session, v.appends
	s, err := r.compareTimes(ctx, v.reps,
		contender{loopback, oneByOne(n, func() error { _, err := v.client.Post(ctx, echo.URL, body); return err })},
		contender{"append " + inProcess, appendContender(ctx, own, n)},
		contender{"append " + overHTTP, together(1, n, func(int) error { return v.renew(ctx, l) }, func(int) error { return v.append(ctx, l) })},
		contender{"attach " + inProcess, oneByOne(n, func() error { return v.with.attachAndAppend(ctx, id) })},
		contender{"attach " + overHTTP, oneByOne(n, func() error { _, err := v.client.Append(ctx, node, id, "", sent(1)); return err })},
		contender{"tail " + inProcess, oneByOne(v.tails, func() error { return v.with.tail(ctx) })},
		contender{"tail " + overHTTP, oneByOne(v.tails, func() error {
			got, err := v.client.Tail(ctx, node, here, shown)
			return errors.Join(err, count(len(got)))
		})})
	if err != nil {
		return err
	}
	r.table.add(row{what: loopback, time: s.time(loopback)})
	for _, c := range []struct{ name, what, goal string }{
		{"append ", "append under a lease: ", "P13"}, {"attach ", "attach, append, close: ", ""}, {"tail ", fmt.Sprintf("tail of %d: ", shown), "P13"},
	} {
		both := c.name + inProcess1
		for i, one := range s[c.name+inProcess] {
			s[both] = append(s[both], sample{each: one.each + s[loopback][i].each})
		}
		w := want{}
		if c.goal != "" {
			w = want{ratioAtMost: 2.5}
		}
		r.table.add(row{what: c.what + inProcess, time: s.time(c.name + inProcess)})
		r.table.add(row{goal: c.goal, what: c.what + overHTTP, time: s.time(c.name + overHTTP), against: inProcess1, ratio: s.ratio(c.name+overHTTP, both), want: w})
	}
	return nil
}

// attachAndAppend is what a call without a lease amounts to.
func (p *place) attachAndAppend(ctx context.Context, id tidemark.SessionID) error {
	w, err := p.Attach(ctx, id, p.who)
	if err != nil {
		return err
	}
	_, err = w.Append(ctx, say(1))
	return errors.Join(err, w.Close(ctx))
}

// appendsASecond is what one node is to take.
const appendsASecond = 4000

// The names of what is measured with one node and with two.
const oneNode, twoNodes = "one node", "two nodes"

// pair returns the contenders of two nodes: all writers at the first alone, and as many
// at each of the two at the same time.
func (v *serving) pair(ctx context.Context, all []*nodes.Node) ([]contender, error) {
	n := max(v.shared/v.writers, 1)
	var here, both []*lent
	for i := range 3 * v.writers {
		node := all[0]
		if i >= 2*v.writers {
			node = all[1]
		}
		l, err := v.lend(ctx, node.URL)
		if err != nil {
			return nil, err
		}
		if i < v.writers {
			here = append(here, l)
		} else {
			both = append(both, l)
		}
	}
	of := func(all []*lent) func() (sample, error) {
		return together(len(all), n, func(d int) error { return v.renew(ctx, all[d]) }, func(d int) error { return v.append(ctx, all[d]) })
	}
	two := of(both)
	return []contender{{oneNode, of(here)}, {twoNodes, func() (sample, error) {
		s, err := two()
		s.each *= 2 // each of the two did half of the work
		return s, err
	}}}, nil
}

// teamPair measures two nodes at once against one alone. They share the machine with
// the database and the load, and one alone may have all that these leave.
func (r *run) teamPair(ctx context.Context, v *serving) error {
	r.say("two nodes")
	contenders, err := v.pair(ctx, v.nodes)
	if err != nil {
		return err
	}
	bare, err := v.serveBare(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	body := api.Appending{Entries: []api.NewEntry{sent(1)}}
	s, err := r.compareTimes(ctx, v.reps, append(contenders,
		contender{barelyServed, together(v.writers, max(v.shared/v.writers, 1), nil, func(int) error { _, err := v.client.Post(ctx, bare.URL, body); return err })})...)
	if err != nil {
		return err
	}
	work := v.work()
	r.table.add(row{what: work + barelyServed + s.rate(barelyServed), time: s.time(barelyServed)})
	r.table.add(row{goal: "P13", what: work + oneNode + s.rate(oneNode), time: s.time(oneNode), against: barelyServed, ratio: s.ratio(oneNode, barelyServed),
		want: want{timeAtMost: 1e9 / appendsASecond, text: "≥ 4000 a second"}})
	r.table.add(row{what: work + "each of " + twoNodes + " on the machine that one can fill" + s.rate(twoNodes), time: s.time(twoNodes), against: "one alone", ratio: s.faster(twoNodes, oneNode), faster: true, fine: true})
	return nil
}

// work says what the nodes do.
func (v *serving) work() string { return fmt.Sprintf("append over HTTP, %d at once: ", v.writers) }

// rate is how often a contender did it in a second.
func (s samples) rate(name string) string {
	return fmt.Sprintf(" (%s a second)", number(1e9/s.time(name).median))
}

// nodesToFill is how many nodes would fill the machine if each had the share that
// teamShares gives it. With two of them there is as much left as the database and the
// load need.
const nodesToFill = 8

// teamShares measures what a second node costs the first where each has a machine of its
// own, as far as one machine can tell: a node gets the same small share of the cores
// whether it is alone or not, and the database and the load have enough for two. What is
// left to slow it down is what nodes share: the database, and rows that others lock.
func (r *run) teamShares(ctx context.Context, v *serving) (err error) {
	r.say("two nodes, each with its share of the machine")
	milli := 1000 * runtime.NumCPU() / nodesToFill
	var all []*nodes.Node
	for range 2 {
		n, err := v.at.Start(ctx)
		if n != nil {
			defer n.Kill()
		}
		if err != nil {
			return err
		}
		free, err := n.Confine(milli)
		if err != nil {
			r.table.skip("%s", err)
			return nil
		}
		defer func() { err = errors.Join(err, n.Kill(), free()) }()
		all = append(all, n)
	}
	contenders, err := v.pair(ctx, all)
	if err != nil {
		return err
	}
	s, err := r.compareTimes(ctx, v.reps, contenders...)
	if err != nil {
		return err
	}
	share := fmt.Sprintf(" with %d %% of a core each", milli/10)
	r.table.add(row{what: v.work() + oneNode + share + s.rate(oneNode), time: s.time(oneNode)})
	r.table.add(row{goal: "P13", what: v.work() + "each of " + twoNodes + share + s.rate(twoNodes), time: s.time(twoNodes), against: "one alone", ratio: s.faster(twoNodes, oneNode), faster: true, fine: true,
		want: want{ratioAtLeast: 0.7}})
	return nil
}

// teamFollowers measures how long an entry takes to reach its followers,
// from when it is sent: many sessions with few followers each, and all in
// one.
func (r *run) teamFollowers(ctx context.Context, v *serving) error {
	for _, sessions := range []int{max(v.followers/10, 1), 1} {
		r.say("%d followers of %d", v.followers, sessions)
		a, err := v.gather(ctx, sessions)
		if err == nil {
			err = r.teamFollowed(ctx, v, a, sessions)
		}
		a.leave()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) teamFollowed(ctx context.Context, v *serving, a *audience, sessions int) error {
	turn := 0
	s, err := r.compareTimes(ctx, v.reps, contender{overHTTP, func() (sample, error) {
		var all []time.Duration
		begin := time.Now()
		for range v.events {
			lags, err := a.tell(ctx, a.sessions[turn%sessions], int64(turn+1))
			if err != nil {
				return sample{}, err
			}
			turn, all = turn+1, append(all, lags...)
		}
		return sampleOf(time.Since(begin), all), nil
	}})
	if err != nil {
		return err
	}
	half := s.of(overHTTP, p50)
	r.table.add(row{goal: "P13", what: fmt.Sprintf("from append to arrival, p99: %d SSE followers, %d of each session", v.followers, a.each),
		time: s.of(overHTTP, func(one sample) float64 { return one.p99 }), against: "p50, " + duration(half.median),
		ratio: s.of(overHTTP, func(one sample) float64 { return one.p99 / one.p50 }), want: want{timeAtMost: 100e6}})
	return nil
}

// audience is the followers, and what they follow.
type audience struct {
	v        *serving
	sessions []tidemark.SessionID
	each     int            // followers of one session
	heard    chan time.Time // when an entry arrived somewhere
	errs     chan error
	stop     context.CancelFunc
	wait     sync.WaitGroup
}

// gather starts the followers and waits until all are connected. It returns
// the audience also with an error.
func (v *serving) gather(ctx context.Context, sessions int) (*audience, error) {
	a := &audience{v: v, each: v.followers / sessions, heard: make(chan time.Time, v.followers), errs: make(chan error, v.followers)}
	ctx, a.stop = context.WithCancel(ctx)
	there := make(chan struct{}, v.followers)
	for range sessions {
		id, err := v.client.Create(ctx, v.nodes[0].URL, "bench")
		if err != nil {
			return a, err
		}
		a.sessions = append(a.sessions, id)
		for range a.each {
			a.wait.Go(func() {
				a.errs <- v.client.Follow(ctx, v.nodes[0].URL, id, "", func(e nodes.Event) error {
					switch {
					case e.Name != "":
						return fmt.Errorf("a stream says %s: %s", e.Name, e.Data)
					case e.Data == nil:
						there <- struct{}{}
					default:
						a.heard <- time.Now()
					}
					return nil
				})
			})
		}
	}
	for range a.each * sessions {
		select {
		case <-there:
		case err := <-a.errs:
			return a, err
		}
	}
	return a, nil
}

// tell appends to a session and returns how long that took to reach each
// follower.
func (a *audience) tell(ctx context.Context, id tidemark.SessionID, seq int64) (lags []time.Duration, err error) {
	begin := time.Now()
	if _, err := a.v.client.Append(ctx, a.v.nodes[0].URL, id, "", sent(seq)); err != nil {
		return nil, err
	}
	for range a.each {
		select {
		case at := <-a.heard:
			lags = append(lags, at.Sub(begin))
		case err := <-a.errs:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return lags, nil
}

func (a *audience) leave() {
	a.stop()
	a.wait.Wait()
}
