package runner

import (
	"context"
	"encoding/json"

	"github.com/coder/acp-go-sdk"
)

// acpClient is this side of the protocol: it answers permission requests,
// and offers nothing else.
type acpClient struct{ c *acpTalk }

var _ acp.Client = acpClient{}

// RequestPermission passes the question to the task. When the run is
// cancelled meanwhile, the protocol requires that as the answer.
func (a acpClient) RequestPermission(_ context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	cancelled := acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}
	// A call in a permission request has the same fields as one in an update.
	b, err := json.Marshal(p.ToolCall)
	var u acpUpdate
	if err != nil || json.Unmarshal(b, &u) != nil {
		return cancelled, nil
	}
	q, events := a.c.stream.asked(u)
	a.c.emit(events)
	t, ctx := a.c.r.t, a.c.r.alive
	var answer Answer
	if t.Ask != nil {
		if answer, err = t.Ask(ctx, q); err != nil {
			answer = Answer{}
		}
	}
	if ctx.Err() != nil {
		return cancelled, nil
	}
	id, ok := option(p.Options, answer)
	if !ok {
		return cancelled, nil // the request offers no matching option
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(id)}, nil
}

// option finds the option that matches the answer. "Allow once" is never
// turned into "allow always"; "always" may become "once", and a refusal may
// be of either kind.
func option(options []acp.PermissionOption, a Answer) (acp.PermissionOptionId, bool) {
	kinds := []acp.PermissionOptionKind{acp.PermissionOptionKindRejectOnce, acp.PermissionOptionKindRejectAlways}
	switch {
	case a.Allow && a.Always:
		kinds = []acp.PermissionOptionKind{acp.PermissionOptionKindAllowAlways, acp.PermissionOptionKindAllowOnce}
	case a.Allow:
		kinds = []acp.PermissionOptionKind{acp.PermissionOptionKindAllowOnce}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return o.OptionId, true
			}
		}
	}
	return "", false
}

// SessionUpdate is never called: acpTalk.line handles these notifications
// itself.
func (acpClient) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

func (acpClient) ReadTextFile(context.Context, acp.ReadTextFileRequest) (r acp.ReadTextFileResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodFsReadTextFile)
}

func (acpClient) WriteTextFile(context.Context, acp.WriteTextFileRequest) (r acp.WriteTextFileResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodFsWriteTextFile)
}

func (acpClient) CreateTerminal(context.Context, acp.CreateTerminalRequest) (r acp.CreateTerminalResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodTerminalCreate)
}

func (acpClient) KillTerminal(context.Context, acp.KillTerminalRequest) (r acp.KillTerminalResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodTerminalKill)
}

func (acpClient) TerminalOutput(context.Context, acp.TerminalOutputRequest) (r acp.TerminalOutputResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodTerminalOutput)
}

func (acpClient) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (r acp.ReleaseTerminalResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodTerminalRelease)
}

func (acpClient) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (r acp.WaitForTerminalExitResponse, err error) {
	return r, acp.NewMethodNotFound(acp.ClientMethodTerminalWaitForExit)
}
