package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

const (
	// quietFor is how long a server may send nothing while a call waits for it.
	// It is more than its longest poll.
	quietFor = 60 * time.Second
	// maxTries bounds how often a call is tried without any progress.
	maxTries = 12
	// firstPause and longestPause bound the time between two tries.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// packFrom is the size from which a request is compressed.
	packFrom = 16 << 10
	// problemBytes bounds an error that a server sends.
	problemBytes = 4 << 20
)

// call is one request.
type call struct {
	name     string
	get      bool
	media    string
	body     []byte
	attempt  string // identifies one call of Commit
	failFast bool   // the very first request, for which somebody waits
}

func question(name string, v any) (call, error) {
	body, err := json.Marshal(v)
	if len(body) > api.MaxQuestionBytes && err == nil {
		err = tidemark.Invalidf("a question of %d bytes, at most %d can be sent to a server", len(body), api.MaxQuestionBytes)
	}
	return call{name: name, media: api.MediaJSON, body: body}, err
}

// answer is a reply whose body is still to be read.
type answer struct {
	*http.Response
	body   *watchedBody
	cancel context.CancelFunc
}

func (a *answer) close() {
	a.cancel()
	a.Body.Close()
}

// do makes one request, and a second one if the token has to be renewed. Its
// error is a *cut when trying again may help.
func (b *Backend) do(ctx context.Context, c call) (*answer, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, err
	}
	a, err := b.send(ctx, c, token)
	var p *api.Problem
	if b.o.Token == nil || !errors.As(err, &p) || p.Status != http.StatusUnauthorized {
		return a, err
	}
	again, tokenErr := b.token(ctx)
	if tokenErr != nil || again == token {
		return a, err
	}
	return b.send(ctx, c, again)
}

func (b *Backend) token(ctx context.Context) (string, error) {
	if b.o.Token == nil {
		return "", nil
	}
	return b.o.Token(ctx)
}

func (b *Backend) send(ctx context.Context, c call, token string) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := b.request(traced, c, token)
	if err != nil {
		cancel()
		return nil, err
	}
	named := b.seen.name(req.Header)
	watch := time.AfterFunc(quietFor, cancel)
	res, err := b.http.Do(req)
	quietly := !watch.Stop()
	if err != nil {
		cancel()
		if quietly {
			err = fmt.Errorf("said nothing for %s", quietFor)
		}
		return nil, b.broken(err, sent.Load())
	}
	b.seen.note(res.Header, named)
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		b.ahead.Store(int64(time.Until(at)))
	}
	a := &answer{Response: res, cancel: cancel}
	a.body = &watchedBody{in: res.Body, watch: time.AfterFunc(quietFor, cancel)}
	a.body.watch.Stop()
	if res.StatusCode == http.StatusOK && res.Header.Get(api.OwnerHeader) == b.owner {
		return a, nil
	}
	defer a.close()
	if res.StatusCode == http.StatusOK {
		// An older server ignores the owner and returns what the id alone leads
		// to.
		return nil, tidemark.Unsupportedf("%s: cannot be asked for what one owner keeps; a later version can", b.base)
	}
	return nil, b.refusal(a)
}

func (b *Backend) request(ctx context.Context, c call, token string) (*http.Request, error) {
	method, body, packed := http.MethodPost, c.body, false
	if c.get {
		method = http.MethodGet
	}
	if b.packs && len(body) >= packFrom {
		body, packed = pack(body), true
	}
	address := b.base.String() + api.BackendPath + c.name
	if b.owner != "" {
		address += "?owner=" + b.owner
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, tidemark.Invalidf("server address: %w", err)
	}
	h := req.Header
	h.Set("Accept", api.MediaLines+", "+api.MediaJSON)
	if !c.get {
		h.Set("Content-Type", c.media)
	}
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	if !b.packs {
		h.Set("Accept-Encoding", "identity")
	}
	if c.attempt != "" {
		h.Set(api.AttemptHeader, c.attempt)
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

func pack(body []byte) []byte {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	z.Write(body)
	z.Close()
	return buf.Bytes()
}

// watchedBody cancels the request when the server sends nothing for too long
// while somebody is reading. Time in which nobody reads does not count.
type watchedBody struct {
	in    io.Reader
	watch *time.Timer
}

func (w *watchedBody) Read(p []byte) (int, error) {
	w.watch.Reset(quietFor)
	defer w.watch.Stop()
	return w.in.Read(p)
}

// refusal returns the error of an unsuccessful response.
func (b *Backend) refusal(a *answer) error {
	media, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if media == "application/problem+json" {
		text, err := io.ReadAll(io.LimitReader(a.body, problemBytes))
		if err != nil {
			return b.broken(err, true)
		}
		p, err := api.ReadProblem(text)
		if err != nil {
			return b.badAnswer("%w", err)
		}
		p.Status = a.StatusCode
		if after, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && p.RetryAfter == 0 {
			p.RetryAfter = after
		}
		if a.Header.Get(api.RepeatedHeader) != "" {
			return &repeat{p.Err()}
		}
		return p.Err()
	}
	switch s := a.StatusCode; {
	case s >= 300 && s < 400:
		return tidemark.Storagef("%s: sends callers elsewhere; if that is right, use the address it names", b.base)
	case s == http.StatusBadGateway, s == http.StatusServiceUnavailable, s == http.StatusGatewayTimeout, s == http.StatusTooManyRequests:
		return &cut{fmt.Errorf("%s: status %d from something before the server", b.base, s), true}
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return tidemark.Deniedf("%s: refused with status %d, not by a Tidemark server", b.base, s)
	default:
		return tidemark.Storagef("%s: answers with status %d, but not as a Tidemark server does", b.base, s)
	}
}

// repeat is the response to an earlier try of the same call.
type repeat struct{ error }

func (r *repeat) Unwrap() error { return r.error }

// tries counts and limits the tries of one call.
type tries struct {
	b     *Backend
	until time.Time
	n     int
	pause time.Duration
}

func (b *Backend) tries() *tries {
	return &tries{b: b, until: time.Now().Add(b.o.RetryFor), pause: firstPause}
}

// progress says that something came: the count starts over.
func (t *tries) progress() { *t = *t.b.tries() }

// again waits before another try, or returns why there is none.
func (t *tries) again(ctx context.Context, err error) error {
	wait, ok := worthwhile(err)
	if t.n++; !ok || t.n >= maxTries {
		return err
	}
	if wait == 0 && t.n > 1 { // the first failure is most likely an old connection
		// Clients that were cut off together should not come back at the same
		// time.
		wait = t.pause/2 + rand.N(t.pause/2)
		t.pause = min(2*t.pause, longestPause)
	}
	if time.Now().Add(wait).After(t.until) {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// worthwhile reports whether a call that failed with err is worth retrying, and
// how long the server asks to wait.
func worthwhile(err error) (wait time.Duration, ok bool) {
	var p *api.Problem
	if errors.As(err, &p) {
		busy := p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests
		return time.Duration(min(p.RetryAfter, 3600)) * time.Second, busy && p.RetryAfter > 0
	}
	var c *cut
	return 0, errors.As(err, &c)
}

// ended returns the error of ctx when it ended, else err.
func (b *Backend) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if b.life.Err() != nil {
		return errClosed
	}
	return err
}

// roundTrip makes a call whose response is one JSON object, and retries it until there
// is one.
func (b *Backend) roundTrip(ctx context.Context, c call, most int) ([]byte, error) {
	within, stop, err := b.use(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	for t := b.tries(); ; {
		reply, err := b.roundTripOnce(within, c, most)
		if err == nil {
			return reply, nil
		}
		var lost *cut
		if c.failFast && errors.As(err, &lost) && !lost.sent {
			return nil, b.ended(ctx, err)
		}
		if err := t.again(within, err); err != nil {
			return nil, b.ended(ctx, err)
		}
	}
}

func (b *Backend) roundTripOnce(ctx context.Context, c call, most int) ([]byte, error) {
	a, err := b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	defer a.close()
	return b.readAll(a, most)
}

// readAll reads a whole response. An incomplete one is an error.
func (b *Backend) readAll(a *answer, most int) ([]byte, error) {
	reply, err := io.ReadAll(io.LimitReader(a.body, int64(most)+1))
	switch {
	case err != nil:
		return nil, b.broken(err, true)
	case len(reply) > most:
		return nil, b.badAnswer("more than %d bytes", most)
	}
	return reply, nil
}

// roundTripInto makes a call and decodes its response.
func (b *Backend) roundTripInto(ctx context.Context, name string, v, into any, most int) error {
	c, err := question(name, v)
	if err != nil {
		return err
	}
	reply, err := b.roundTrip(ctx, c, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return b.badAnswer("%s: %w", name, err)
	}
	return nil
}
