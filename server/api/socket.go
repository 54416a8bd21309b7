package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// A WebSocket is one caller who talks in one session at a time. Attaching to
// another session replaces everything: the turn is ended, the conversation
// closed, its lease released, and only then is the next one opened. The caller
// stays the same for the lifetime of the connection.

const (
	socketProtocol = "tidemark"
	tokenProtocol  = "bearer." // followed by the token, for browsers, which cannot set a header
)

const (
	// socketBytes bounds a message of a client.
	socketBytes = 1 << 20
	// socketQueue is how many messages of a client are queued before it has to
	// wait.
	socketQueue = 16
	// closeTimeout is how long a conversation may take to end.
	closeTimeout = 30 * time.Second
)

// Ender is a Conversation that can end by itself: its lease was lost, or
// somebody else asked for the session.
type Ender interface {
	// Gone receives an error once the conversation cannot continue.
	Gone() <-chan error
}

func (s *Server) socketRoutes() {
	o := op("GET", request.SocketPath, "open-socket", "Talk in sessions over a WebSocket", "chat", request.Writer)
	o.Description = "Messages are JSON: {type: attach|send|answer|cancel|detach|auth|ping, id, …} one way, {type: attached|detached|event|ended|problem|done|pong, id, …} the other. " +
		"Attaching to another session closes the first one whole, before it. A browser sends its token as a protocol: Sec-WebSocket-Protocol: tidemark, bearer.TOKEN."
	o.Responses = map[string]*huma.Response{"101": {Description: "a WebSocket"}}
	huma.Register(s.huma, o, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		if s.o.Chat == nil {
			return nil, request.Fail(ctx, tidemark.Unsupportedf("this server holds no conversations: chat where you are, with it as the store"))
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			s.serveSocket(w, r)
		}}, nil
	})
}

// LiftToken returns a WebSocket request with the token in its usual
// header: browsers can send it only as the name of a protocol.
func LiftToken(r *http.Request) *http.Request {
	if r.URL.Path != request.SocketPath || r.Header.Get("Authorization") != "" {
		return r
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(name), tokenProtocol); ok {
				return withToken(r, token)
			}
		}
	}
	return r
}

func withToken(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !request.Hosts(s.o.Hosts).OurOrigin(r) {
		request.AnswerProblem(w, tidemark.ErrDenied)
		return
	}
	if !s.shutdown.Enter() {
		request.AnswerProblem(w, request.Unavailable("the server is going down"))
		return
	}
	defer s.shutdown.Leave()
	// The origin was checked above, by the names of this server.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{socketProtocol}, InsecureSkipVerify: true})
	if err != nil {
		request.Note(r.Context(), "error", err.Error())
		return
	}
	conn.SetReadLimit(socketBytes)
	ctx, stop := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer stop(nil)
	k := &socket{s: s, conn: conn, ctx: ctx, stop: stop, caller: request.CallerOf(ctx), proof: LiftToken(r)}
	code, reason := k.serve()
	k.detach()
	conn.Close(code, reason)
}

// socket is one connection. Unless noted otherwise, fields belong to the
// goroutine of serve.
type socket struct {
	s      *Server
	conn   *websocket.Conn
	ctx    context.Context
	stop   context.CancelCauseFunc
	caller request.Caller
	proof  *http.Request // has a token that proves who the caller is
	now    *attached     // nil if nothing is attached
}

// errAway means that the client is gone.
var errAway = errors.New("the client is gone")

// serve handles the client's messages until it leaves, may not stay, or
// the server drains, and returns how to close the connection.
func (k *socket) serve() (websocket.StatusCode, string) {
	inbox := make(chan api.SocketRequest, socketQueue)
	go k.read(inbox)
	go k.keepAlive()
	recheck := time.NewTicker(k.s.o.Limits.Recheck)
	defer recheck.Stop()
	for {
		changed := k.s.access.Wait()
		again := false
		select {
		case m := <-inbox:
			if err := k.handle(m); err != nil {
				k.tell(api.SocketReply{Type: api.SocketProblem, ID: m.ID, Problem: request.Problem(err)})
			}
		case err := <-k.now.gone():
			k.drop(err)
		case <-recheck.C:
			again = true
		case <-changed:
			again = true
		case <-k.s.shutdown.Begun():
			return websocket.StatusGoingAway, "the server is going down"
		case <-k.ctx.Done():
			switch cause := context.Cause(k.ctx); {
			case errors.Is(cause, websocket.ErrMessageTooBig):
				return websocket.StatusMessageTooBig, "a message is too big"
			case errors.Is(cause, tidemark.ErrDenied):
				return websocket.StatusPolicyViolation, "another user"
			case errors.Is(cause, tidemark.ErrInvalid):
				return websocket.StatusUnsupportedData, "a message is not JSON"
			case errors.Is(cause, errStuck):
				return websocket.StatusInternalError, "a conversation did not end"
			}
			return websocket.StatusNormalClosure, ""
		}
		if !again {
			continue
		}
		switch err := k.mayStay(k.proof); {
		case errors.Is(err, request.ErrOtherRights):
			return websocket.StatusServiceRestart, "what the caller may do has changed"
		case err != nil:
			k.tell(api.SocketReply{Type: api.SocketProblem, Problem: request.Problem(request.Refused(err))})
			return websocket.StatusPolicyViolation, "the token is not valid any more"
		}
	}
}

// read reads the client's messages. A client that sends faster than they are
// handled has to wait.
func (k *socket) read(inbox chan<- api.SocketRequest) {
	for {
		kind, b, err := k.conn.Read(context.WithoutCancel(k.ctx)) // a ctx that ends would close the connection without a reason
		if err != nil {
			k.stop(err)
			return
		}
		var m api.SocketRequest
		if kind != websocket.MessageText || json.Unmarshal(b, &m) != nil {
			k.stop(tidemark.Invalidf("a message that is not JSON"))
			return
		}
		select {
		case inbox <- m:
		case <-k.ctx.Done():
			return
		}
	}
}

// keepAlive notices when the other side is gone without closing.
func (k *socket) keepAlive() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-beat.C:
		}
		ctx, stop := context.WithTimeout(k.ctx, writeTimeout)
		err := k.conn.Ping(ctx)
		stop()
		if err != nil {
			k.stop(errAway)
			return
		}
	}
}

// tell sends a message. A client that does not read is gone. It may be
// called concurrently.
func (k *socket) tell(m api.SocketReply) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if k.ctx.Err() != nil && !errors.Is(context.Cause(k.ctx), tidemark.ErrDenied) {
		return errAway
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(k.ctx), writeTimeout)
	defer stop()
	if err := k.conn.Write(ctx, websocket.MessageText, b); err != nil {
		k.stop(errAway)
		return errAway
	}
	return nil
}

// mayStay checks again who the caller is. ErrDenied: unknown, somebody else, or
// no longer allowed to talk. If the check is not possible just now, no
// conversation ends.
func (k *socket) mayStay(proof *http.Request) error {
	was := k.caller
	was.Role = request.Writer // more rights are not needed here
	return k.s.access.Recheck(proof.WithContext(k.ctx), was, request.Writer)
}

// handle handles one request of the client.
func (k *socket) handle(m api.SocketRequest) error {
	switch m.Type {
	case api.SocketAttach:
		return k.attach(m)
	case api.SocketSend:
		return k.send(m)
	case api.SocketDetach:
		k.detach()
		return k.tell(api.SocketReply{Type: api.SocketDetached, ID: m.ID})
	case api.SocketPing:
		return k.tell(api.SocketReply{Type: api.SocketPong, ID: m.ID})
	case api.SocketAuth:
		return k.prove(m)
	case api.SocketAnswer, api.SocketCancel:
		if k.now == nil {
			return errDetached()
		}
		if m.Type == api.SocketCancel {
			k.now.cancel()
		} else if err := k.now.answer(m.Call, m.Allow); err != nil {
			return err
		}
		return k.tell(api.SocketReply{Type: api.SocketDone, ID: m.ID, Session: k.now.id()})
	}
	return tidemark.Invalidf("type %.40q: want attach, send, answer, cancel, detach, auth or ping", m.Type)
}

func errDetached() error {
	return tidemark.Conflictf("no session is attached; attach to one first")
}

// prove continues with another token of the same caller. A token of somebody
// else ends everything.
func (k *socket) prove(m api.SocketRequest) error {
	proof := withToken(k.proof, m.Token)
	if err := k.mayStay(proof); err != nil {
		k.detach()
		k.stop(tidemark.ErrDenied)
		return request.Refused(err)
	}
	k.proof = proof
	return k.tell(api.SocketReply{Type: api.SocketDone, ID: m.ID})
}
