package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// manifest is the default format of an export: the one that fleet-rlm reads.
const manifest = "fleet-rlm"

// transferRoutes are those for exporting, importing and sharing sessions.
func (s *Server) transferRoutes() {
	export := op("POST", request.SessionsPath+"/{id}/export", "export-session", "Write a session in a format", "exchange", request.Reader)
	export.Description = "The manifest of fleet-rlm unless a format is named. Formats: " + strings.Join(s.o.Formats, ", ") + "."
	export.Responses = streamed("application/octet-stream", "the session; its media type is that of the format")
	huma.Register(s.huma, export, s.exportSession)
	// A link on a page can only use GET.
	export.Method, export.OperationID = http.MethodGet, "download-session"
	huma.Register(s.huma, export, s.exportSession)
	bring := op("POST", request.ImportPath, "import-sessions", "Take in what another tool or another store wrote", "exchange", request.Writer)
	bring.RequestBody = rawBody("a session file or an archive, of any tool that is known; what comes in replaces the state that a session had")
	huma.Register(s.huma, bring, s.importSessions)
	huma.Register(s.huma, op("GET", request.SessionsPath+"/{id}/share", "get-share", "Who else may read a session", "exchange", request.Reader), s.getShare)
	huma.Register(s.huma, s.takes(op("PUT", request.SessionsPath+"/{id}/share", "share-session", "Say who else may read a session", "exchange", request.Writer)), s.ShareSession)
}

type exportInput struct {
	SessionInput
	Format string `query:"format" maxLength:"64" doc:"the manifest of fleet-rlm when absent"`
	At     string `query:"at" maxLength:"1000" doc:"up to this node (n3), entry (12) or label; the head when absent"`
}

func (s *Server) exportSession(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	mediaType, write, err := s.Exported(ctx, in.ID, in.Format, in.At)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", mediaType)
		// A page that somebody else wrote is saved and not shown: it would
		// have our origin.
		hc.SetHeader("Content-Disposition", "attachment")
		hc.SetStatus(http.StatusOK)
		Cut(ctx, write(hc.BodyWriter()))
	}}, nil
}

// Exported returns the media type of a session in a format, and what writes it. at is a
// node, an entry or a label; the head if it is "".
func (s *Server) Exported(ctx context.Context, name, format, at string) (string, func(io.Writer) error, error) {
	st, v, err := s.View(ctx, name)
	if err != nil {
		return "", nil, err
	}
	if format == "" {
		format = manifest
	}
	if s.o.Export == nil || !slices.Contains(s.o.Formats, format) {
		return "", nil, tidemark.Invalidf("format %.40q: want one of %s", format, strings.Join(s.o.Formats, ", "))
	}
	seq, err := v.At(ctx, at)
	if err != nil {
		return "", nil, err
	}
	return s.o.Export(ctx, st, store.Point{View: v, Seq: seq}, format)
}

type importInput struct {
	BodyInput
	Name string `query:"name" maxLength:"255" doc:"the name of the file, where the tool can be told by it"`
}

type importOutput struct {
	Body struct {
		Sessions []Imported `json:"sessions" nullable:"false"`
	}
}

func (s *Server) importSessions(ctx context.Context, in *importInput) (*importOutput, error) {
	if s.o.Import == nil {
		return nil, request.Fail(ctx, tidemark.Unsupportedf("this server takes nothing in"))
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	content, err := request.WeighedImport(ctx, in.Name, in.body)
	var brought []Imported
	if err == nil {
		brought, err = s.o.Import(ctx, st, in.Name, content)
	}
	if over := new(api.Problem); errors.As(err, &over) && in.body.err == nil {
		_, _ = io.Copy(io.Discard, in.body) // a client that is still sending does not read the answer
	}
	if err != nil {
		return nil, request.Fail(ctx, in.explain(err))
	}
	var out importOutput
	out.Body.Sessions = append([]Imported{}, brought...)
	return &out, nil
}

// ShareBody says with whom a session is shared.
type ShareBody struct {
	With      string `json:"with" enum:"private,workspace,tenant"`
	Workspace string `json:"workspace,omitempty" maxLength:"64" doc:"with workspace: which; the only one that you are in when absent"`
	Owner     string `json:"owner,omitempty" doc:"whose the session is; told, not taken"`
}

// ShareInput says with whom to share.
type ShareInput struct {
	SessionInput
	Body ShareBody
}

type shareOutput struct {
	Body ShareBody
}

func (s *Server) getShare(ctx context.Context, in *SessionInput) (*shareOutput, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	with, owner, err := st.Shared(ctx, v.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &shareOutput{ShareBody{With: with.With, Workspace: with.Workspace, Owner: owner}}, nil
}

// ShareSession sets who else may read a session.
func (s *Server) ShareSession(ctx context.Context, in *ShareInput) (*shareOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	with, err := shareScope(request.CallerOf(ctx), in.Body)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := st.Share(ctx, i.ID, with); err != nil {
		return nil, request.Fail(ctx, err)
	}
	s.activity.ended(request.CallerOf(ctx).Tenant, i.ID) // some may no longer be allowed to read it
	return s.getShare(ctx, &in.SessionInput)
}

// shareScope returns with whom the caller wants to share. Nobody can share
// with a workspace that they are not in.
func shareScope(c request.Caller, b ShareBody) (tidemark.Scope, error) {
	if b.With != tidemark.InWorkspace {
		if b.Workspace != "" {
			return tidemark.Scope{}, tidemark.Invalidf("workspace: goes with %q", tidemark.InWorkspace)
		}
		return tidemark.Scope{With: b.With}, nil
	}
	switch {
	case b.Workspace == "" && len(c.Workspaces) == 1:
		b.Workspace = c.Workspaces[0]
	case b.Workspace == "":
		return tidemark.Scope{}, tidemark.Invalidf("workspace: want one of yours, of which there are %d", len(c.Workspaces))
	case !slices.Contains(c.Workspaces, b.Workspace):
		return tidemark.Scope{}, fmt.Errorf("workspace: you are not in it: %w", tidemark.ErrDenied)
	}
	return tidemark.Scope{With: b.With, Workspace: b.Workspace}, nil
}
