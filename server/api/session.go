package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// SessionInput is the session that a call is about. Like all inputs that are
// embedded in others it is exported because huma fills no others.
type SessionInput struct {
	ID string `path:"id" doc:"the id of a session; OWNER:ID for one that OWNER shared"`
}

// Session returns the caller's store, as seen by the owner that the call names,
// and the id. An invalid id gives the same error as the id of a session that
// does not exist, or is not shared.
func (s *Server) Session(ctx context.Context, name string) (*store.Store, tidemark.SessionID, error) {
	owner, id := tidemark.CutOwner(name)
	parsed, err := tidemark.ParseSessionID(id)
	if err != nil {
		return nil, "", tidemark.NotFoundf("session %.80s: not found", name)
	}
	st, err := s.stores.Mine(ctx)
	if err == nil {
		st, err = st.Of(owner)
	}
	if errors.Is(err, tidemark.ErrUnsupported) {
		err = tidemark.NotFoundf("session %s: not found", parsed) // nobody else has one here
	}
	return st, parsed, err
}

// View returns the session that a call names, for reading, and the store as
// seen by its owner.
func (s *Server) View(ctx context.Context, name string) (*store.Store, *store.View, error) {
	st, id, err := s.Session(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	v, err := st.View(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return v.Store(), v, nil
}

// Owned returns the session that a call names, for changing. ErrDenied: it
// belongs to somebody else and was only shared with the caller.
func (s *Server) Owned(ctx context.Context, id string) (*store.Store, store.Info, error) {
	st, parsed, err := s.Session(ctx, id)
	if err != nil {
		return nil, store.Info{}, err
	}
	i, err := st.Session(ctx, parsed)
	if err != nil {
		return nil, i, err
	}
	if i.Owner != "" {
		return nil, i, fmt.Errorf("session %s is another's, and shared with you to read: %w", parsed, tidemark.ErrDenied)
	}
	return st, i, nil
}

// leased is Owned for a call that comes with the token of a lease; "" if it has
// none. If the store still has the Writer of an earlier call, it knows whose the
// session is.
func (s *Server) leased(ctx context.Context, name, token string) (*store.Store, tidemark.SessionID, error) {
	if st, id, err := s.Session(ctx, name); err == nil && st.HasToken(id, token) {
		return st, id, nil
	}
	st, i, err := s.Owned(ctx, name)
	return st, i.ID, err
}

// infoOf is a session in its wire form.
func infoOf(i store.Info) api.SessionInfo {
	out := api.SessionInfo{Session: i.Session, State: i.State, UpdatedAt: i.UpdatedAt, Messages: i.Messages, Nodes: i.Nodes, Entries: i.Entries,
		Owner: i.Owner, Machine: i.Machine, Status: "active", ModelName: i.Model, ExternalSessionID: i.ForeignID}
	if i.State != store.Live {
		out.Status = "archived"
	}
	return out
}

// detailOf is a session in its wire form, with details that need further reads.
func detailOf(ctx context.Context, st *store.Store, i store.Info) (api.SessionInfo, error) {
	one := []store.Info{i}
	err := st.SetMachines(ctx, one)
	out := infoOf(one[0])
	if err != nil {
		return out, err
	}
	v, err := st.ViewOf(i)
	if err != nil {
		return out, err
	}
	n, err := v.TurnCount(ctx)
	out.TurnCount = &n
	return out, err
}

// tagOf is the ETag of the content and the description of a session: it
// changes when either does.
func tagOf(i store.Info) string { return fmt.Sprintf(`"%d-%d"`, i.Version(), i.Entries) }

// matches reports whether the value of If-Match or If-None-Match names a tag.
func matches(header, tag string, same func(a, b string) bool) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == "*" || same(part, tag) {
			return true
		}
	}
	return false
}

func equal(a, b string) bool { return a == b }

// sameVersion compares only the description of a session: renaming it
// does not depend on whether the conversation continued.
func sameVersion(a, b string) bool {
	about, _, _ := strings.Cut(a, "-")
	want, _, _ := strings.Cut(b, "-")
	return about == want
}

// unchanged reports whether the client already has what it asks for.
func unchanged(ifNoneMatch, tag string) bool {
	return ifNoneMatch != "" && matches(ifNoneMatch, tag, equal)
}

// outdated is the answer to a change based on an outdated version.
func outdated(what string) error {
	return &api.Problem{Status: http.StatusPreconditionFailed, Title: "Precondition Failed", Code: "conflict",
		Detail: what + " has changed since", Hint: "get it again, and send its ETag as If-Match"}
}

// takes sets the limits of a call's body.
func (s *Server) takes(o huma.Operation) huma.Operation {
	o.MaxBodyBytes = s.o.Limits.Body
	o.BodyReadTimeout = s.o.Limits.BodyTimeout
	return o
}

// status makes a call answer with another status than 200.
func status(o huma.Operation, code int) huma.Operation {
	o.DefaultStatus = code
	return o
}

// okOutput is the answer of calls without a result.
type okOutput struct {
	Body struct {
		OK bool `json:"ok"`
	}
}

func ok() *okOutput {
	var out okOutput
	out.Body.OK = true
	return &out
}

// sessionOutput is one session. Without a body the client has it already.
type sessionOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *api.SessionInfo
}

// answerSession answers with a session as it is now.
func answerSession(ctx context.Context, st *store.Store, i store.Info, status int) (*sessionOutput, error) {
	body, err := detailOf(ctx, st, i)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &sessionOutput{Status: status, ETag: tagOf(i), Body: &body}, nil
}

// timeOf reads a time of a query: RFC 3339, or a date.
func timeOf(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, tidemark.Invalidf("%s: want a date or RFC 3339", name)
}
