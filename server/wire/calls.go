// Package wire serves the calls of a Backend over HTTP, for clients that have
// their own rules and keys. It checks sizes, order and sums, and remembers which
// commits were done, so that one that is sent again is not done again. It does
// not decide who may call: it is given the Backend of each request.
//
//	mux.Handle(api.BackendPath, wire.Handler(open))
package wire

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// longestWait bounds a long poll: shorter than proxies time out.
	longestWait = 25 * time.Second
	// pollEvery is how often a log is polled whose Backend cannot wait.
	pollEvery = 500 * time.Millisecond
	// commitTimeout bounds a commit whose client left: it is finished all the
	// same, so that the client learns the outcome when it asks again.
	commitTimeout = 2 * time.Minute
)

// call is one call: what it accepts, and whether it changes something.
type call struct {
	serve  func(*backendCall) error
	media  string
	most   int64
	writes bool
}

var calls = map[string]call{
	"get":    {serve: get},
	"list":   {serve: list},
	"lines":  {serve: lines},
	"commit": {serve: commit, media: api.MediaLines, most: api.MaxRequestBytes, writes: true},
	"wait":   {serve: wait},
	"walk":   {serve: walk},
	"share":  {serve: share, writes: true},
	"shared": {serve: shared},
}

// Names are all calls, in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(calls)) }

// Writes reports whether a request to one of these calls asks for a
// change, so that its caller can require more than a reader.
func Writes(r *http.Request) bool {
	return calls[strings.TrimPrefix(r.URL.Path, api.BackendPath)].writes
}

// Handler serves the calls of a Backend under api.BackendPath. It asks open
// for the Backend of each request, which also decides whether the request is
// allowed; an error of open is answered before anything is done. The Backend
// stays open: whoever opened it closes it.
func Handler(open func(*http.Request) (tidemark.Backend, error)) http.Handler {
	repeats := newRepeats()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, api.BackendPath)
		call, known := calls[name]
		want := http.MethodPost
		if name == "" {
			want, known = http.MethodGet, true
		}
		switch {
		case !ok || !known:
			request.AnswerProblem(w, tidemark.NotFoundf("%s: no such call", r.URL.Path))
			return
		case r.Method != want:
			w.Header().Set("Allow", want)
			request.AnswerProblem(w, problem(http.StatusMethodNotAllowed, "this call wants "+want))
			return
		}
		q := &backendCall{w: w, r: r, call: call, repeats: repeats}
		defer q.out.release()
		if err := q.run(open); err != nil {
			q.fail(err)
		}
	})
}

func problem(status int, detail string) *api.Problem {
	return &api.Problem{Status: status, Title: http.StatusText(status), Code: "invalid", Detail: detail}
}

// backendCall is one request.
type backendCall struct {
	w       http.ResponseWriter
	r       *http.Request
	be      tidemark.Backend
	call    call
	repeats *repeats
	out     answerStream
}

func (q *backendCall) run(open func(*http.Request) (tidemark.Backend, error)) (err error) {
	if q.be, err = open(q.r); err != nil {
		if errors.Is(err, tidemark.ErrNoStore) || errors.Is(err, tidemark.ErrStorage) {
			p := *api.ProblemOf(err)
			p.Status, p.RetryAfter = http.StatusServiceUnavailable, max(p.RetryAfter, 1)
			p.Title = http.StatusText(p.Status)
			return &p
		}
		return err
	}
	if owner := q.r.URL.Query().Get("owner"); owner != "" {
		if q.be, err = ofOwner(q.be, owner); err != nil {
			return err
		}
		q.w.Header().Set(api.OwnerHeader, owner)
	}
	if q.call.serve == nil {
		about := api.About{Service: api.Service, Format: api.BackendFormat, MaxRequestBytes: api.MaxRequestBytes}
		if s, err := tidemark.Ability[tidemark.Sharer](q.be); err == nil {
			about.Principal, about.Scopes = s.Audience()
		}
		return q.answer(about)
	}
	if err := q.body(); err != nil {
		return err
	}
	return q.call.serve(q)
}

// ofOwner returns a Backend for what one owner keeps.
func ofOwner(be tidemark.Backend, owner string) (tidemark.Backend, error) {
	s, err := tidemark.Ability[tidemark.Sharer](be)
	if err != nil {
		return nil, err
	}
	return s.Of(owner)
}

// fail answers with an error, in the stream when one has begun.
func (q *backendCall) fail(err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		err = problem(http.StatusRequestEntityTooLarge, "the request is larger than this call takes")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = tidemark.Invalidf("the request was cut off")
	case errors.Is(err, tidemark.ErrColdAway):
		err = request.Problem(err) // where the place is stays private
	}
	if q.out.n > 0 {
		if q.out.send(api.Element{Problem: api.ProblemOf(err), End: true}) == nil {
			q.out.finish()
		}
		return
	}
	if late := request.RefusedSince(q.r.Context()); late != nil {
		err = late
	} else if errors.Is(err, context.Canceled) && q.r.Context().Err() != nil {
		return // nobody is there any more
	}
	request.AnswerProblem(q.w, err)
}

// body limits what is read of a request, compressed and decompressed.
func (q *backendCall) body() error {
	media, most := q.call.media, q.call.most
	if media == "" {
		media, most = api.MediaJSON, api.MaxQuestionBytes
	}
	if is, _, err := mime.ParseMediaType(q.r.Header.Get("Content-Type")); err != nil || is != media {
		return problem(http.StatusUnsupportedMediaType, "this call wants "+media)
	}
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, most)
	switch enc := q.r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(q.r.Body)
		if err != nil {
			return tidemark.Invalidf("the request is not what gzip makes: %w", err)
		}
		q.r.Body = http.MaxBytesReader(q.w, z, most)
	default:
		return problem(http.StatusUnsupportedMediaType, "a request may be packed with gzip or not at all")
	}
	by := request.JSONWeights
	if media == api.MediaLines {
		by = request.LineWeights
	}
	q.r.Body = io.NopCloser(request.Weighed(q.r.Context(), q.r.Body, by))
	return nil
}

// question reads a request that is one JSON object.
func (q *backendCall) question(into any) error {
	text, err := io.ReadAll(q.r.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return tidemark.Invalidf("the request is not what it should be: %w", err)
	}
	return nil
}

// answer writes one JSON object.
func (q *backendCall) answer(v any) error {
	q.out.begin(q.w, q.r, api.MediaJSON)
	if err := q.out.send(v); err != nil {
		return err
	}
	q.out.finish()
	return nil
}

func get(q *backendCall) error {
	var k api.KeyQuestion
	if err := q.question(&k); err != nil {
		return err
	}
	if err := k.Key.Check(); err != nil {
		return err
	}
	r, err := q.be.Get(q.r.Context(), k.Key)
	if err != nil {
		return err
	}
	return q.answer(api.Element{Record: api.RecordOf(r)})
}

// sendAll sends what seq yields, item by item, and the end. An unreadable
// element is sent with its problem; any other error ends the answer.
func sendAll[T any](q *backendCall, seq iter.Seq2[T, error], item func(T) api.Element) error {
	for v, err := range seq {
		i := item(v)
		if err != nil {
			if !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			i.Problem = api.ProblemOf(err)
		}
		if err := q.out.send(i); err != nil {
			return err
		}
	}
	return nil
}

// answerAll sends an answer that is one sequence.
func answerAll[T any](q *backendCall, seq iter.Seq2[T, error], item func(T) api.Element) error {
	q.out.begin(q.w, q.r, api.MediaLines)
	if err := sendAll(q, seq, item); err != nil {
		return err
	}
	return q.end()
}

func (q *backendCall) end() error {
	if err := q.out.send(api.Element{End: true}); err != nil {
		return err
	}
	q.out.finish()
	return nil
}

func list(q *backendCall) error {
	var l api.ListQuestion
	if err := q.question(&l); err != nil {
		return err
	}
	query, err := l.Query()
	if err != nil {
		return err
	}
	return answerAll(q, q.be.List(q.r.Context(), query), func(r tidemark.Record) api.Element {
		return api.Element{Record: api.RecordOf(r)}
	})
}

// lines reads span by span, because a client that continues after an
// interruption needs to know in which one it was.
func lines(q *backendCall) error {
	var l api.LinesQuestion
	if err := q.question(&l); err != nil {
		return err
	}
	if err := l.Key.Check(); err != nil {
		return err
	}
	if len(l.Spans) > api.MaxSpans {
		return tidemark.Invalidf("%d spans, at most %d are allowed", len(l.Spans), api.MaxSpans)
	}
	q.out.begin(q.w, q.r, api.MediaLines)
	for i, s := range l.Spans {
		err := sendAll(q, q.be.Lines(q.r.Context(), l.Key, tidemark.Span(s)), func(l tidemark.Line) api.Element {
			return api.Element{Span: i, Line: api.LineOf(l)}
		})
		if err != nil {
			return err
		}
	}
	return q.end()
}

func commit(q *backendCall) error {
	sum := sha256.New()
	batch, err := api.DecodeBatch(io.TeeReader(q.r.Body, sum))
	if err != nil {
		return err
	}
	// The end of the batch was read; anything after it is ignored.
	commit := func() (tidemark.Receipt, error) {
		ctx, stop := context.WithTimeout(context.WithoutCancel(q.r.Context()), commitTimeout)
		defer stop()
		return q.be.Commit(ctx, batch)
	}
	receipt, repeated, err := q.repeats.commitOnce(q.r, [sha256.Size]byte(sum.Sum(nil)), commit)
	if repeated {
		q.w.Header().Set(api.RepeatedHeader, "true")
	}
	if err != nil {
		return api.ProblemOf(err).WithReceipt(receipt)
	}
	return q.answer(api.Done{Done: true, Batch: batch.ID})
}

func wait(q *backendCall) error {
	var k api.KeyQuestion
	if err := q.question(&k); err != nil {
		return err
	}
	if err := k.Key.Check(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(q.r.Context(), longestWait)
	defer stop()
	err := q.be.Wait(ctx, k.Key, k.After)
	if errors.Is(err, tidemark.ErrUnsupported) {
		err = poll(ctx, q.be, k)
	}
	if errors.Is(err, context.DeadlineExceeded) && q.r.Context().Err() == nil {
		return q.answer(api.Grown{})
	}
	if err != nil {
		return err
	}
	return q.answer(api.Grown{Longer: true})
}

// poll waits for growth by polling.
func poll(ctx context.Context, be tidemark.Backend, k api.KeyQuestion) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		r, err := be.Get(ctx, k.Key)
		switch {
		case err != nil && !errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrCorrupt):
			return err
		case r.Head.Length > k.After:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func walk(q *backendCall) error {
	var wq api.WalkQuestion
	if err := q.question(&wq); err != nil {
		return err
	}
	return answerAll(q, q.be.Walk(q.r.Context(), wq.After), func(k tidemark.Key) api.Element { return api.Element{Key: &k} })
}

// sharer returns the ability to share, and the session that is asked about.
func (q *backendCall) sharer() (tidemark.Sharer, tidemark.SessionID, *tidemark.Scope, error) {
	var sq api.ShareQuestion
	if err := q.question(&sq); err != nil {
		return nil, "", nil, err
	}
	id, err := tidemark.ParseSessionID(sq.Session)
	if err != nil {
		return nil, "", nil, err
	}
	s, err := tidemark.Ability[tidemark.Sharer](q.be)
	return s, id, sq.With, err
}

func share(q *backendCall) error {
	s, id, with, err := q.sharer()
	if err != nil {
		return err
	}
	if with == nil {
		return tidemark.Invalidf("share: with whom?")
	}
	if err := s.Share(q.r.Context(), id, *with); err != nil {
		return err
	}
	return q.answer(api.Done{Done: true})
}

func shared(q *backendCall) error {
	s, id, _, err := q.sharer()
	if err != nil {
		return err
	}
	with, owner, err := s.Shared(q.r.Context(), id)
	if err != nil {
		return err
	}
	return q.answer(api.SharedAnswer{With: with, Owner: owner})
}
