package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/resume"
)

func (r *room) writingTools(s *sdk.Server) {
	keeps, destroys := false, true
	tool(r, s, sdk.Tool{Name: "write_memory", Title: "Write down what was learned", Annotations: &sdk.ToolAnnotations{DestructiveHint: &destroys, IdempotentHint: true},
		Description: `Keeps something that later sessions of this project should know; they are told. With id it takes the place of what is there. Secrets are masked as the store is configured to.`}, r.writeMemory)
	tool(r, s, sdk.Tool{Name: "remove_memory", Title: "Forget something", Annotations: &sdk.ToolAnnotations{DestructiveHint: &destroys, IdempotentHint: true},
		Description: `Removes something that was learned, for good: what is wrong by now, or was handed over and is done.`}, r.removeMemory)
	tool(r, s, sdk.Tool{Name: "hand_over", Title: "Hand a session over", Annotations: &sdk.ToolAnnotations{DestructiveHint: &keeps},
		Description: `Leaves a session to somebody else, with a note that says what is done and what is not. For an agent of the fleet, the note becomes a job of that agent. For anybody else it becomes a memory of the session's project, which later sessions there are told, until it is removed. Whoever has the session open is asked to let it go; what they have is kept.`}, r.handOver)
}

// refuseWriting says why a tool that changes something is missing: a client
// may know it from elsewhere.
func refuseWriting(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if call, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && slices.Contains([]string{"write_memory", "remove_memory", "hand_over", answerReview}, call.Name) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: call.Name + " is not allowed: this server only reads for you. Who runs it can change that: tidemark mcp --allow-write, or on a team server the role writer."}
		}
		return next(ctx, method, req)
	}
}

// doing announces a call that is about to change something.
func (r *room) doing(ctx context.Context, tool string) context.Context {
	if r.o.Doing == nil {
		return ctx
	}
	return r.o.Doing(ctx, tool)
}

// wrote reports a call that was meant to change something.
func (r *room) wrote(ctx context.Context, tool, thing string, err error) {
	if r.o.Wrote != nil {
		r.o.Wrote(ctx, tool, thing, err)
	}
}

type handOverIn struct {
	Session  string `json:"session" jsonschema:"which session, as read_session takes it; with @12, where in it"`
	Note     string `json:"note" jsonschema:"what is done, what is not, and what to do next"`
	Agent    string `json:"agent,omitempty" jsonschema:"the agent of the fleet that is to go on"`
	To       string `json:"to,omitempty" jsonschema:"who is to go on, when it is no agent of the fleet; absent: whoever comes next"`
	In       string `json:"in,omitempty" jsonschema:"the tool on their machine to go on in, such as claude-code or codex; absent: the chat of Tidemark"`
	KeepOpen bool   `json:"keep_open,omitempty" jsonschema:"do not ask whoever has the session open to let it go"`
}

type handOverOut struct {
	Session  string `json:"session"`
	Job      string `json:"job,omitempty" jsonschema:"the job of the agent that it was handed over to"`
	Memory   string `json:"memory,omitempty" jsonschema:"the memory that tells of it; remove it when that is done"`
	Asked    string `json:"asked,omitempty" jsonschema:"who has the session open and was asked to let it go"`
	NotAsked string `json:"not_asked,omitempty" jsonschema:"why whoever has it open could not be asked; it is handed over all the same"`
	Resume   string `json:"resume" jsonschema:"the command that goes on with it"`
}

func (o handOverOut) text() string {
	var b strings.Builder
	if o.Job != "" {
		fmt.Fprintf(&b, "Handed over %s: job %s.\n", o.Session, o.Job)
	} else {
		fmt.Fprintf(&b, "Handed over %s: memory %s tells of it.\n", o.Session, o.Memory)
	}
	if o.Asked != "" {
		fmt.Fprintf(&b, "It is open in %s, who was asked to let it go.\n", o.Asked)
	}
	if o.NotAsked != "" {
		fmt.Fprintf(&b, "Whoever has it open could not be asked to let it go: %s\n", o.NotAsked)
	}
	fmt.Fprintf(&b, "Go on with: %s\n", o.Resume)
	return b.String()
}

func (r *room) handOver(ctx context.Context, req *sdk.CallToolRequest, in handOverIn) (out handOverOut, err error) {
	ctx = r.doing(ctx, "hand_over")
	defer func() { r.wrote(ctx, "hand_over", out.Session, err) }()
	switch note := strings.TrimSpace(in.Note); {
	case note == "":
		return out, tidemark.Invalidf("a hand-over without a note: say what is done and what is not")
	case len(note) > maxMemoryBytes:
		return out, tidemark.Invalidf("a note of %d bytes, at most %d are allowed", len(note), maxMemoryBytes)
	case in.Agent != "" && (in.To != "" || in.In != ""):
		return out, tidemark.Invalidf("agent excludes to and in")
	case in.In != "" && !slices.Contains(resume.Tools(), in.In):
		return out, tidemark.Invalidf("tool %.40q: want one of %s", in.In, strings.Join(resume.Tools(), ", "))
	}
	_, p, err := r.find(ctx, in.Session)
	if err != nil {
		return out, err
	}
	s, err := r.o.Open(ctx)
	if err != nil {
		return out, err
	}
	out = handOverOut{Session: p.Name(), Resume: "tidemark chat --resume " + p.Name()}
	if in.In != "" {
		out.Resume = "tidemark resume " + p.Name() + " --in " + in.In
	}
	text := handedOver(p, in, clientOf(req), out.Resume)
	if in.Agent != "" {
		out.Job, err = r.toAgent(ctx, in.Agent, text)
	} else {
		var m store.Memory
		m, _, err = s.Remember(ctx, store.Memory{Text: text, Project: p.Project, Session: p.ID})
		out.Memory = m.ID
	}
	if err != nil || in.KeepOpen {
		return out, err
	}
	// The recipient has been told by now. An error from here on would make
	// the client hand it over again.
	lease, err := s.Lease(ctx, p.ID)
	if err == nil && lease.Held && !lease.Dead && !lease.Expired {
		if err = s.RequestHandover(ctx, p.ID, r.o.Holder(ctx)); err == nil {
			out.Asked = render.CleanLine(lease.Holder.String())
		}
	}
	if err != nil {
		out.NotAsked = r.tell(ctx, err).Error()
	}
	return out, nil
}

// toAgent sends a message to an agent of the fleet, and returns the resulting
// job.
func (r *room) toAgent(ctx context.Context, agent, text string) (string, error) {
	agents, err := r.o.Fleet(ctx)
	if err != nil {
		return "", err
	}
	job, err := agents.SendMessage(ctx, r.o.Holder(ctx), agent, text)
	return job.ID, err
}

// handedOver is the message to the recipient: what, by whom, why, and how to
// continue.
func handedOver(p store.Point, in handOverIn, from, resume string) string {
	ref := p.Name()
	if p.Seq > 0 {
		ref = fmt.Sprintf("%s@%d", ref, p.Seq)
	}
	title := ""
	if p.Title != "" {
		title = fmt.Sprintf(" (%s)", render.CleanLine(p.Title))
	}
	to := cmp.Or(in.To, in.Agent, "whoever comes next")
	return fmt.Sprintf("Session %s%s was handed over to %s by %s.\n\n%s\n\nRead it with: tidemark show %s -n 20\nGo on with: %s",
		ref, title, render.CleanLine(strings.ToValidUTF8(to, "\uFFFD")), from, strings.TrimSpace(strings.ToValidUTF8(in.Note, "\uFFFD")), ref, resume)
}

// clientOf is the client's name for itself.
func clientOf(req *sdk.CallToolRequest) string {
	if who := req.ClientInfo(); who != nil && who.Name != "" {
		return text.Clip(render.CleanLine(who.Name), 100)
	}
	return "a client of its MCP server"
}
