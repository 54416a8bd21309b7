package acp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

// The options of an editor's question about what a session proposes.
const (
	grantAll  sdk.PermissionOptionId = "grant-all"
	grantSome sdk.PermissionOptionId = "grant-some"
	grantOne  sdk.PermissionOptionId = "grant-one"
	grantNone sdk.PermissionOptionId = "grant-none"
)

// consent asks the person in the editor, once and in one list, about what the
// session proposes and was not granted on this machine. Without an answer
// nothing is granted, and they are asked again.
func (s *session) consent(ctx context.Context) error {
	c := s.chat()
	var open []chat.Proposal
	for _, p := range c.Proposals() {
		if !p.Declined {
			open = append(open, p)
		}
	}
	if len(open) == 0 || s.asked {
		return nil
	}
	s.asked = true
	title := fmt.Sprintf("This session brings %d thing(s) that were not granted on this machine", len(open))
	var all []string
	for _, p := range open {
		all = append(all, proposalText(p))
	}
	answer, err := s.poll(ctx, "grants", title, strings.Join(all, "\n"),
		sdk.PermissionOption{OptionId: grantAll, Kind: sdk.PermissionOptionKindAllowAlways, Name: "Grant all"},
		sdk.PermissionOption{OptionId: grantSome, Kind: sdk.PermissionOptionKindAllowOnce, Name: "Choose one by one"},
		sdk.PermissionOption{OptionId: grantNone, Kind: sdk.PermissionOptionKindRejectAlways, Name: "Grant none"})
	if err != nil {
		return err
	}
	var yes []chat.Proposal
	switch answer {
	case grantAll:
		yes = open
	case grantNone:
	case grantSome:
		for i, p := range open {
			one, err := s.poll(ctx, fmt.Sprintf("grants-%d", i+1), fmt.Sprintf("Grant %s", p.Kind), proposalText(p),
				sdk.PermissionOption{OptionId: grantOne, Kind: sdk.PermissionOptionKindAllowAlways, Name: "Grant"},
				sdk.PermissionOption{OptionId: grantNone, Kind: sdk.PermissionOptionKindRejectAlways, Name: "Do not grant"})
			if err != nil || one == "" {
				return err
			}
			if one == grantOne {
				yes = append(yes, p)
			}
		}
	default:
		return nil
	}
	if err := c.Accept(ctx, yes); err != nil {
		return err
	}
	s.screen.note("%d of %d granted to this session on this machine.", len(yes), len(open))
	return nil
}

// proposalText is a proposal as an editor shows it: made harmless, and
// complete.
func proposalText(p chat.Proposal) string { return fmt.Sprintf("%s: %s", p.Kind, render.Clean(p.Text)) }

// poll asks a question that belongs to no call; it returns "" without an
// answer.
func (s *session) poll(ctx context.Context, id, title, about string, options ...sdk.PermissionOption) (sdk.PermissionOptionId, error) {
	r, err := sdk.SendRequest[sdk.RequestPermissionResponse](s.a.conn, ctx, sdk.ClientMethodSessionRequestPermission, sdk.RequestPermissionRequest{
		SessionId: sdk.SessionId(s.id), Options: options,
		ToolCall: sdk.ToolCallUpdate{ToolCallId: sdk.ToolCallId(id), Title: sdk.Ptr(title), Kind: sdk.Ptr(sdk.ToolKindOther), Status: sdk.Ptr(sdk.ToolCallStatusPending),
			Content: []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(fenced(about)))}},
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil || r.Outcome.Selected == nil:
		return "", nil // an editor that cannot ask grants nothing
	}
	return r.Outcome.Selected.OptionId, nil
}
