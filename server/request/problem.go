package request

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// coldRetry is how many seconds it takes until older lines are asked for again at a
// place that did not answer.
const coldRetry = 6

// Problem is an error in the form for clients.
func Problem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	p = api.ProblemOf(err)
	if p.Code == "storage" && !errors.Is(err, syscall.ENOSPC) {
		// Usually the database is unreachable for a moment, and a retry
		// succeeds. Where it is stays private.
		p = Unavailable("the store cannot be reached; nothing was changed by halves").(*api.Problem)
		if errors.Is(err, tidemark.ErrColdAway) {
			p.Detail, p.RetryAfter = "the older lines of this session are kept elsewhere, and cannot be reached now; everything else is here", coldRetry
		}
	}
	var database interface{ SQLState() string }
	if errors.As(err, &database) {
		// The message of a database names it, its tables and its role.
		switch {
		case p.Status < 500:
			p.Detail = "the store does not take this"
		case p.Code == "storage" && p.Status == http.StatusInsufficientStorage:
			p.Detail = "the disk of the store is full"
		case p.Code == "corrupt":
			p.Detail = "the store is damaged"
		}
	}
	return p
}

// Fail returns an error for huma to write. Internal errors go to the log; a
// client sees only what it can act on.
func Fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if late := RefusedSince(ctx); late != nil && errors.Is(err, context.Canceled) {
		err = late
	}
	p := Named(Problem(err), ID(ctx))
	if p.Status >= 500 {
		Note(ctx, "error", err.Error())
	}
	return p
}

// Named returns p with the id of the request, by which the operator finds it
// in the log.
func Named(p *api.Problem, request string) *api.Problem {
	if p.Instance != "" {
		return p
	}
	q := *p // some are shared
	q.Instance = request
	return &q
}

// AnswerProblem answers any request with an error.
func AnswerProblem(w http.ResponseWriter, err error) {
	p := Named(Problem(err), w.Header().Get("X-Request-Id"))
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidemark"`)
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// ErrOtherRights means that a caller's rights changed since an answer
// began: a new request gets the right answer.
var ErrOtherRights = Unavailable("what the caller may do has changed; ask again")

// RefusedSince is the problem of a caller who lost the right to continue, nil
// when that is not why ctx ended.
func RefusedSince(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrOtherRights) || errors.Is(cause, tidemark.ErrDenied) {
		return Refused(cause)
	}
	return nil
}

// BodyProblem explains an error while reading a body: it is the client's.
func BodyProblem(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return TooLarge(large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &api.Problem{Status: http.StatusRequestTimeout, Title: "Request Timeout", Code: "invalid", Detail: "the body took too long to arrive"}
	}
	return tidemark.Invalidf("the body did not arrive whole")
}

// Refused is the answer to an unknown caller. It does not say why: the
// operator finds that in the log.
func Refused(err error) error {
	p := Problem(err)
	if !errors.Is(err, tidemark.ErrDenied) {
		return p // the database is unreachable, which is not the caller's fault
	}
	if known := new(api.Problem); errors.As(err, &known) {
		return p // the caller is known, and is told what is not allowed
	}
	return &api.Problem{Status: http.StatusUnauthorized, Title: "Unauthorized", Code: "denied", Detail: "no valid token was sent",
		Hint: "send Authorization: Bearer TOKEN"}
}

// TooMany is the answer to a caller who exceeded a limit, and when to retry.
func TooMany(what string, after int) error {
	return &api.Problem{Status: http.StatusTooManyRequests, Title: "Too Many Requests", Code: "limited", Detail: what, RetryAfter: after}
}

// TooLarge is the answer to a body that exceeds a limit.
func TooLarge(limit int64) *api.Problem {
	return &api.Problem{Status: http.StatusRequestEntityTooLarge, Title: "Request Entity Too Large", Code: "invalid",
		Detail: "the body is larger than this server takes", Errors: []api.FieldError{{Where: "body", What: "at most " + bytesText(limit)}}}
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	case n >= 1<<20:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n >= 1<<10:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// Unavailable is the answer while the server cannot work.
func Unavailable(detail string) error {
	return &api.Problem{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Code: "storage", Detail: detail, RetryAfter: 2}
}
