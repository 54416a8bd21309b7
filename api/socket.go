package api

import "encoding/json"

// The types of a client's messages over a WebSocket.
const (
	SocketAttach = "attach" // to Session, or with New to a new one; an attached one is closed first
	SocketSend   = "send"   // sends Text, and begins a turn
	SocketAnswer = "answer" // Call is allowed, or not
	SocketCancel = "cancel" // ends the turn
	SocketDetach = "detach" // closes the conversation
	SocketAuth   = "auth"   // continues with another Token of the same user
	SocketPing   = "ping"
)

// SocketRequest is a client's message over a WebSocket.
type SocketRequest struct {
	Type            string `json:"type"`
	ID              string `json:"id,omitempty"` // repeated in its answers
	Session         string `json:"session,omitempty"`
	New             bool   `json:"new,omitempty"`
	ForceNewSession bool   `json:"force_new_session,omitempty"` // with fresh interpreters and buffers
	Model           string `json:"model,omitempty"`
	Text            string `json:"text,omitempty"`
	Call            string `json:"call,omitempty"`
	Allow           bool   `json:"allow,omitempty"`
	Token           string `json:"token,omitempty"`
}

// The types of a server's messages over a WebSocket.
const (
	SocketAttached = "attached" // to Session; nothing of an earlier one is left
	SocketDetached = "detached" // from Session; Reason says why, unless the client asked for it
	SocketEvent    = "event"    // Data is what happened in Session
	SocketEnded    = "ended"    // the turn is over
	SocketProblem  = "problem"  // the request was not carried out
	SocketDone     = "done"     // it was, and there is nothing more to report
	SocketPong     = "pong"
)

// SocketReply is a server's message over a WebSocket.
type SocketReply struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"` // id of the request that it answers
	Session string          `json:"session,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Problem *Problem        `json:"problem,omitempty"`
}
