package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const leasePath = request.SessionsPath + "/{id}/lease"

func (s *Server) leaseRoutes() {
	huma.Register(s.huma, op("GET", leasePath, "get-lease", "Who writes to a session", "leases", request.Reader), s.getLease)
	huma.Register(s.huma, status(s.takes(op("POST", leasePath, "acquire-lease", "Become the one who writes to a session", "leases", request.Writer)), http.StatusCreated), s.acquireLease)
	huma.Register(s.huma, s.takes(op("PUT", leasePath, "renew-lease", "Say that the holder is alive", "leases", request.Writer)), s.renewLease)
	huma.Register(s.huma, s.takes(op("POST", leasePath+"/hand-over", "hand-over-lease", "Give a lease to somebody else, or ask its holder for it", "leases", request.Writer)), s.handOverLease)
	huma.Register(s.huma, op("DELETE", leasePath, "release-lease", "Stop writing to a session", "leases", request.Writer), s.releaseLease)
}

// holderOf is a client as the holder of a lease: a name, and the caller.
// There is no process behind it.
func holderOf(ctx context.Context, name string) tidemark.Holder {
	if name == "" {
		name = "a client"
	}
	return tidemark.Holder{Program: name, Host: request.CallerOf(ctx).Name}
}

// HolderText names a holder for people.
func HolderText(h tidemark.Holder) string {
	if h.PID != 0 {
		return h.String()
	}
	return h.Program + " of " + h.Host
}

type leaseOutput struct {
	Body api.LeaseInfo
}

func leaseOf(st *store.Store, l store.Lease) *leaseOutput {
	if !l.Held {
		return &leaseOutput{}
	}
	return &leaseOutput{api.LeaseInfo{Held: !l.Dead && !l.Expired, Holder: HolderText(l.Holder), Since: l.Since, HeardAt: l.HeardAt,
		ExpiresAt: l.HeardAt.Add(st.LeaseTime())}}
}

func (s *Server) getLease(ctx context.Context, in *SessionInput) (*leaseOutput, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	l, err := st.Lease(ctx, v.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return leaseOf(st, l), nil
}

type acquireInput struct {
	SessionInput
	ForceNew bool `query:"force_new_session" doc:"as in the body"`
	Body     *struct {
		Holder   string `json:"holder,omitempty" maxLength:"100" doc:"a name for people who find the session held"`
		ForceNew bool   `json:"force_new_session,omitempty" doc:"clear what the interpreter held: the history stays, the sandbox is a new one"`
	}
}

func (s *Server) acquireLease(ctx context.Context, in *acquireInput) (*leaseOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	name, fresh := "", in.ForceNew
	if in.Body != nil {
		name, fresh = in.Body.Holder, fresh || in.Body.ForceNew
	}
	token, l, err := st.IssueToken(ctx, i.ID, holderOf(ctx, name))
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if fresh {
		err := st.WithToken(ctx, i.ID, token, func(w *store.Writer) error { return freshen(ctx, st, w) })
		if err != nil {
			return nil, request.Fail(ctx, errors.Join(err, st.ReturnToken(context.WithoutCancel(ctx), i.ID, token)))
		}
	}
	out := leaseOf(st, l)
	out.Body.Token, out.Body.Fresh = token, fresh
	return out, nil
}

// kindInterpreter is the entry that says why the interpreter is fresh, as
// chat writes it.
const kindInterpreter = "interpreter"

// freshen clears what the interpreter of a session held: its sandbox, its
// workspace, and the shell's directory. The conversation and its files stay.
func freshen(ctx context.Context, st *store.Store, w *store.Writer) error {
	c, err := st.Checkpoint(ctx, w.ID(), "")
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return err
	}
	if err == nil {
		c.Interpreter = store.Interpreter{}
		c.Extra = withoutShell(c.Extra)
		if err := w.SaveCheckpoint(ctx, c); err != nil {
			return err
		}
	}
	_, err = w.Append(ctx, tidemark.Entry{Kind: kindInterpreter, Blocks: []tidemark.Block{tidemark.Text("asked for with force_new_session")}})
	return err
}

// withoutShell removes chat's shell state from the extra of a
// checkpoint.
func withoutShell(extra json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if len(extra) == 0 || json.Unmarshal(extra, &fields) != nil {
		return extra
	}
	delete(fields, "shell")
	out, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return out
}

type renewInput struct {
	SessionInput
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"100"`
	}
}

func (s *Server) renewLease(ctx context.Context, in *renewInput) (*leaseOutput, error) {
	st, id, err := s.leased(ctx, in.ID, in.Body.Token)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	l, asked, err := st.RenewToken(ctx, id, in.Body.Token)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out := leaseOf(st, l)
	if asked != nil {
		out.Body.AskedBy = HolderText(asked.From)
	}
	return out, nil
}

type handOverInput struct {
	SessionInput
	Body struct {
		Token string `json:"token,omitempty" maxLength:"100" doc:"with it the lease goes to the new holder at once; without it the holder is asked, and decides"`
		To    string `json:"to,omitempty" maxLength:"100" doc:"a name for the new holder"`
	}
}

type handOverOutput struct {
	Status int
	Body   api.LeaseInfo
}

func (s *Server) handOverLease(ctx context.Context, in *handOverInput) (*handOverOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	to := holderOf(ctx, in.Body.To)
	if in.Body.Token == "" {
		if err := st.RequestHandover(ctx, i.ID, to); err != nil {
			return nil, request.Fail(ctx, err)
		}
		l, err := st.Lease(ctx, i.ID)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		body := leaseOf(st, l).Body
		body.AskedBy = HolderText(to)
		return &handOverOutput{http.StatusAccepted, body}, nil
	}
	token, l, err := st.TransferToken(ctx, i.ID, in.Body.Token, to)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	body := leaseOf(st, l).Body
	body.Token = token
	return &handOverOutput{http.StatusOK, body}, nil
}

type releaseInput struct {
	SessionInput
	Lease string `header:"Lease-Token" maxLength:"100" doc:"the token of the lease; without it only a lease ends whose holder is dead or silent"`
	Force bool   `query:"force" doc:"end any lease; its holder is refused from then on"`
}

func (s *Server) releaseLease(ctx context.Context, in *releaseInput) (*okOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Lease != "" {
		err = st.ReturnToken(ctx, i.ID, in.Lease)
	} else {
		err = st.Release(ctx, i.ID, in.Force)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return ok(), nil
}
