// Package api has the routes for programs: sessions and their entries, leases,
// items, the fleet, who may do what, streams and the WebSocket of conversations.
// Each route says who may call it, asks for the store of the caller and leaves
// the rules to package store. Errors are problem+json.
//
//	s := api.New(mux, api.Options{Stores: all, Access: access})
package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Options configure the routes. Stores, Access and Shutdown are required; the
// others are those of the server.
type Options struct {
	Stores   *stores.Stores
	Access   *auth.Access
	Shutdown *request.Shutdown

	Holder tidemark.Holder // this server as the holder of leases
	Hosts  request.Hosts   // the names that it answers to
	Limits request.Limits

	Export  func(ctx context.Context, s *store.Store, at store.Point, format string) (mediaType string, write func(io.Writer) error, err error)
	Formats []string
	Import  func(ctx context.Context, s *store.Store, name string, content io.Reader) ([]Imported, error)
	Chat    func(ctx context.Context, s *store.Store, o ChatOptions) (Conversation, error)
	Folder  func(tidemark.Session) string
	// Commands are those of a session whose conversation is not open; nil: none.
	Commands func(tidemark.Session) []slash.Command
	SignIn   auth.SignIn
	MCP      func(MCP) http.Handler
	// Offboarding erases, hands over and exports what people have; nil: nothing does.
	Offboarding *transfer.Offboarding

	NoAudit   bool
	CursorKey []byte // nil: a random one
	Version   string
	Now       func() time.Time
}

// Server answers the calls of programs.
type Server struct {
	o        Options
	huma     huma.API
	mux      *http.ServeMux
	stores   *stores.Stores
	access   *auth.Access
	shutdown *request.Shutdown

	activity activity // what is in progress with single sessions
	sources  sources  // the logs being followed
	talks    talks    // the conversations in this process
}

// New adds the routes to mux.
func New(mux *http.ServeMux, o Options) *Server {
	if o.CursorKey == nil {
		o.CursorKey = newCursorKey()
	}
	s := &Server{o: o, mux: mux, stores: o.Stores, access: o.Access, shutdown: o.Shutdown}
	s.huma = humago.New(mux, humaConfig(o.Version))
	s.sessionRoutes()
	s.entryRoutes()
	s.leaseRoutes()
	s.fleetRoutes()
	s.itemRoutes()
	s.linkRoutes()
	s.adminRoutes()
	s.scimRoutes()
	s.signInRoutes()
	s.socketRoutes()
	s.mcpRoutes()
	return s
}

// Imported is one session that came in.
type Imported struct {
	ID      tidemark.SessionID `json:"id"`
	Title   string             `json:"title,omitempty"`
	Entries int64              `json:"entries"`
	Known   bool               `json:"known"` // it existed already
	Lost    []string           `json:"lost,omitempty"`
}

// ChatOptions say which conversation to open.
type ChatOptions struct {
	Session  tidemark.SessionID // "": a new one
	ForceNew bool               // with fresh interpreters and buffers
	Model    string
	Project  string // of a new one: a work tree on this machine; "": the folder of the server
	// Person means that somebody sits at this machine: the conversation is the one
	// that they would have in a terminal, in the folder of the session.
	Person bool
	// Emit receives what happens between turns. Each emitted value becomes one
	// JSON message.
	Emit func(any) error
}

// Conversation is a session that a client talks to. Nothing of it is left
// after Close.
type Conversation interface {
	ID() tidemark.SessionID
	// Send adds a message of the user, and emits what happens until the turn
	// is over. Each emitted value becomes one JSON message.
	Send(ctx context.Context, text string, emit func(any) error) error
	// Answer answers an emitted question.
	Answer(call string, d chat.Decision) error
	Close(ctx context.Context) error
}

// Typist is a Conversation with a person who types as in a terminal.
type Typist interface {
	// Enter does what they typed: a command, one of the shell, a memory, or a message
	// with images.
	Enter(ctx context.Context, line string, images []tidemark.Block, emit func(any) error) error
	// Commands are the commands that they have, and Complete offers what follows
	// line[:from].
	Commands() []slash.Command
	Complete(ctx context.Context, line string) (from int, found []string)
}
