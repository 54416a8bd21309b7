package api

import "encoding/json"

// The types of what a client says over a WebSocket.
const (
	SocketAttach = "attach" // to Session, or with New to a new one; what was attached is closed first
	SocketSend   = "send"   // says Text, and begins a turn
	SocketAnswer = "answer" // Call is allowed, or not
	SocketCancel = "cancel" // ends the turn
	SocketDetach = "detach" // closes the conversation
	SocketAuth   = "auth"   // goes on with another Token of the same user
	SocketPing   = "ping"
)

// SocketRequest is what a client says over a WebSocket.
type SocketRequest struct {
	Type            string `json:"type"`
	ID              string `json:"id,omitempty"` // repeated in what answers it
	Session         string `json:"session,omitempty"`
	New             bool   `json:"new,omitempty"`
	ForceNewSession bool   `json:"force_new_session,omitempty"` // with fresh interpreters and buffers
	Model           string `json:"model,omitempty"`
	Text            string `json:"text,omitempty"`
	Call            string `json:"call,omitempty"`
	Allow           bool   `json:"allow,omitempty"`
	Token           string `json:"token,omitempty"`
}

// The types of what a server says over a WebSocket.
const (
	SocketAttached = "attached" // to Session; nothing of an earlier one is left
	SocketDetached = "detached" // from Session; Reason says why, unless the client asked for it
	SocketEvent    = "event"    // Data is what happened in Session
	SocketEnded    = "ended"    // the turn is over
	SocketProblem  = "problem"  // what was asked for was not done
	SocketDone     = "done"     // it was, and there is nothing more to say
	SocketPong     = "pong"
)

// SocketReply is what a server says over a WebSocket.
type SocketReply struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"` // of the request that it answers
	Session string          `json:"session,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Problem *Problem        `json:"problem,omitempty"`
}
