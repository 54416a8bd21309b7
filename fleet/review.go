package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// A review is a question of a running job: may this call of a tool be made? The
// process that runs the job asks and waits; anybody with access to the store may
// answer, once. Both commits require that the job is running, so nobody asks or
// answers for a job that has ended. A review is removed when its job ends; the
// output of the job says what was asked and who answered.

// The states of a review.
const (
	ReviewWaiting  = "waiting"
	ReviewApproved = "approved"
	ReviewDenied   = "denied"
)

// Review is a call of a tool that waits for somebody's answer, or has it.
type Review struct {
	Job        string          `json:"job"`
	Agent      string          `json:"agent,omitempty"`
	Call       string          `json:"call"` // names it within the job
	Tool       string          `json:"tool"`
	Title      string          `json:"title,omitempty"` // what it would do, in the words of the agent's program
	Input      json.RawMessage `json:"input,omitempty"`
	InputBytes int             `json:"input_bytes,omitempty"` // length of the whole input, if Input is only its beginning, as a string
	Text       string          `json:"text,omitempty"`        // everything that would be done, as it is shown to people
	State      string          `json:"state"`
	AskedAt    time.Time       `json:"asked_at"`
	UntilAt    time.Time       `json:"until_at,omitzero"` // when it is denied if nobody answers
	AnsweredAt time.Time       `json:"answered_at,omitzero"`
	By         tidemark.Holder `json:"by,omitzero"`
	Reason     string          `json:"reason,omitempty"` // told to the agent when it is denied
	// Shown is the Digest of this review, for approving exactly what was shown.
	Shown string `json:"shown,omitempty"`
}

// Digest returns the SHA-256 of what a person is shown of a call. An approval is
// bound to it, so a call that is changed in the store afterwards is not approved.
func (v Review) Digest() string {
	var input any
	if json.Unmarshal(v.Input, &input) != nil { // decoded, because backends may change white space
		input = string(v.Input)
	}
	what := []any{v.Job, v.Call, v.Tool, v.Title, input, v.InputBytes}
	if v.Text != "" { // reviews of earlier releases have none
		what = append(what, v.Text)
	}
	encoded, err := json.Marshal(what)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// The bounds of a review: a person reads it, and the process that waits for the
// answer reads it four times a second.
const (
	maxReviewInput = 16 << 10
	maxReviewText  = 1 << 10
)

func (s *Store) reviewKey(job, call string) tidemark.Key {
	return tidemark.Key{Kind: kindReview, ID: job + "." + s.k.Hash("review", call)}
}

func (s *Store) reviewRecord(v Review, version int64) (tidemark.Record, error) {
	r, err := records.Put(s.reviewKey(v.Job, v.Call), version, v)
	r.Group, r.State = v.Job, v.State
	return r, err
}

// truncated cuts what is too long, and turns an input that is not JSON into a
// JSON string.
func (v Review) truncated() Review {
	v.Tool, v.Title, v.Text = clipText(v.Tool, maxReviewText), clipText(v.Title, maxReviewText), clipText(v.Text, tidemark.MaxApprovalBytes)
	if len(v.Input) == 0 || len(v.Input) <= maxReviewInput && json.Valid(v.Input) {
		return v
	}
	if len(v.Input) > maxReviewInput {
		v.InputBytes = len(v.Input)
	}
	// A string can always be encoded as JSON.
	v.Input, _ = records.Encode(clipText(string(v.Input), maxReviewInput))
	return v
}

// clipText returns the beginning of a text, cut between characters.
func clipText(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// requireRunning returns the precondition that a job is running: ErrConflict when
// it is not.
func (s *Store) requireRunning(ctx context.Context, job string) (tidemark.Precondition, error) {
	j, version, err := s.job(ctx, job)
	if err == nil && j.Status != tidemark.JobRunning {
		err = records.Final(tidemark.Conflictf("job %s is %s", job, j.Status))
	}
	return tidemark.Precondition{Key: jobKey(job), Version: version}, err
}

// Shown returns a review as it is kept and shown: what is too long is cut, and
// secrets are masked.
func (s *Store) Shown(v Review) Review {
	v, _ = s.masked(v)
	return v
}

func (s *Store) masked(v Review) (Review, vault.Values) {
	v = v.truncated()
	values := s.vault.Redact(v.Job, []*string{&v.Title, &v.Text}, &v.Input)
	return v, values
}

// AskReview adds a review, which waits from then on, cut and masked as Shown
// does. ErrExists when the job asked about a call of that name before, so that an
// answer never counts for another question; ErrConflict when the job is not
// running, ErrNotFound when there is no such job.
func (s *Store) AskReview(ctx context.Context, v Review) error {
	if v.Call == "" {
		return tidemark.Invalidf("a review of job %s needs the name of a call", v.Job)
	}
	v, secrets := s.masked(v)
	if err := s.vault.Keep(ctx, v.Job, secrets); err != nil {
		return err
	}
	v.State, v.AnsweredAt, v.By, v.Reason, v.Shown = ReviewWaiting, time.Time{}, tidemark.Holder{}, "", v.Digest()
	return records.Retry(ctx, func() error {
		running, err := s.requireRunning(ctx, v.Job)
		if err != nil {
			return err
		}
		old, err := s.k.Get(ctx, s.reviewKey(v.Job, v.Call), &Review{})
		if err != nil {
			return err
		}
		if old.Version > 0 {
			return tidemark.Existsf("job %s: the call %s was asked about before", v.Job, v.Call)
		}
		b := tidemark.Batch{At: s.k.Now(), Require: []tidemark.Precondition{running}}
		v.AskedAt = b.At
		r, err := s.reviewRecord(v, 0)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// Review returns one review: ErrNotFound, also when its job has ended.
func (s *Store) Review(ctx context.Context, job, call string) (Review, error) {
	v, _, err := s.review(ctx, job, call)
	return v, err
}

func (s *Store) review(ctx context.Context, job, call string) (Review, int64, error) {
	var v Review
	r, err := s.k.Get(ctx, s.reviewKey(job, call), &v)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("job %s: no call %s waits for an answer", job, call)
	}
	return v, r.Version, err
}

// Reviews lists the reviews of a job, answered or not, or those of all running
// jobs if job is "", in the order in which they were asked.
func (s *Store) Reviews(ctx context.Context, job string) ([]Review, error) {
	return s.reviews(ctx, tidemark.Query{Kind: kindReview, Group: job})
}

// WaitingReviews is Reviews without the answered ones.
func (s *Store) WaitingReviews(ctx context.Context, job string) ([]Review, error) {
	return s.reviews(ctx, tidemark.Query{Kind: kindReview, Group: job, State: ReviewWaiting})
}

func (s *Store) reviews(ctx context.Context, q tidemark.Query) ([]Review, error) {
	var all []Review
	for v, err := range records.List[Review](ctx, s.k, q) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Review) int {
		return cmp.Or(a.AskedAt.Compare(b.AskedAt), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Call, b.Call))
	})
	return all, nil
}

// ApproveShown approves a call that a person was shown, provided that it still
// has that Digest: ErrConflict when it has changed, and as AnswerReview.
func (s *Store) ApproveShown(ctx context.Context, job, call, digest string, by tidemark.Holder) error {
	if digest == "" {
		return tidemark.Invalidf("job %s: an approval says what was shown", job)
	}
	return s.answer(ctx, job, call, Review{State: ReviewApproved, By: by, Shown: digest})
}

// AnswerReview answers one waiting call of a job, or all of them if call is "";
// several are only denied together. It returns the number of calls answered.
// ErrNotFound when nothing waits, ErrConflict when the call was answered before
// or the job is no longer running.
func (s *Store) AnswerReview(ctx context.Context, job, call string, allow bool, by tidemark.Holder, reason string) (int, error) {
	reason, err := s.vault.RedactText(ctx, job, reason)
	if err != nil {
		return 0, err
	}
	answer := Review{State: ReviewDenied, By: by, Reason: clipText(reason, maxReviewText)}
	if allow {
		answer.State, answer.Reason = ReviewApproved, ""
	}
	if allow && call == "" {
		waiting, err := s.WaitingReviews(ctx, job)
		if err == nil && len(waiting) > 1 {
			err = tidemark.Invalidf("job %s asks about %d calls: each is approved by itself", job, len(waiting))
		}
		if err != nil {
			return 0, err
		}
	}
	if call != "" {
		if err := s.answer(ctx, job, call, answer); err != nil {
			return 0, err
		}
		return 1, nil
	}
	if _, err := s.Job(ctx, job); err != nil {
		return 0, err
	}
	waiting, err := s.WaitingReviews(ctx, job)
	if err != nil {
		return 0, err
	}
	answered := 0
	for _, v := range waiting {
		err := s.answer(ctx, job, v.Call, answer)
		if errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrNotFound) {
			continue // somebody else answered first, or it no longer waits
		}
		if err != nil {
			return answered, err
		}
		answered++
	}
	if answered == 0 {
		return 0, tidemark.NotFoundf("job %s: nothing waits for an answer", job)
	}
	return answered, nil
}

// answer gives a review its one answer.
func (s *Store) answer(ctx context.Context, job, call string, answer Review) error {
	return records.Retry(ctx, func() error {
		running, err := s.requireRunning(ctx, job)
		if err != nil {
			return err
		}
		v, version, err := s.review(ctx, job, call)
		if err != nil {
			return err
		}
		if v.State != ReviewWaiting {
			return records.Final(tidemark.Conflictf("job %s: the call %s was %s by %s", job, call, v.State, v.By))
		}
		if answer.Shown != "" && answer.Shown != v.Digest() {
			return records.Final(tidemark.Conflictf("job %s: the call %s is not what was shown any more", job, call))
		}
		b := tidemark.Batch{At: s.k.Now(), Require: []tidemark.Precondition{running}}
		v.State, v.By, v.Reason, v.AnsweredAt, v.Shown = answer.State, answer.By, answer.Reason, b.At, v.Digest()
		r, err := s.reviewRecord(v, version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// EndReviews removes the reviews of a job that has ended: ErrConflict while it is
// pending or running. It is no error if the job has no reviews, or was removed.
func (s *Store) EndReviews(ctx context.Context, job string) error {
	j, err := s.Job(ctx, job)
	if err == nil && (j.Status == tidemark.JobRunning || j.Status == tidemark.JobPending) {
		return tidemark.Conflictf("job %s is %s: what it asks is still open", job, j.Status)
	}
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return err
	}
	return records.Retry(ctx, func() error {
		var keys []tidemark.Precondition
		for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindReview, Group: job}) {
			if err != nil {
				return err
			}
			keys = append(keys, tidemark.Precondition{Key: r.Key, Version: r.Version})
		}
		for some := range slices.Chunk(keys, 100) {
			if _, err := s.k.Commit(ctx, tidemark.Batch{Deletes: some}); err != nil {
				return err
			}
		}
		return nil
	})
}
