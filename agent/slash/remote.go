package slash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Remote is a conversation with a person who is not at a terminal, such as in a
// browser: what they type means the same as there.
type Remote struct {
	*agent.Remote
	talk *Conversation
	said error // why what a command said was not answered
}

// onPages are the commands that need a terminal, and what does the same on a page.
// Workers, loops and wake-ups are among them because a conversation on a page ends
// soon after its last turn.
var onPages = map[string]string{
	"/history":     "earlier entries are above; the rail leads to any of them",
	"/export":      "the rail of the page has the formats to save",
	"/resume":      "choose the session in the list",
	"/new":         "press n on the page of all sessions",
	"/clear":       "press n on the page of all sessions",
	"/fork":        "the menu of the session has it: m",
	"/doc":         "name a file of the project with @, or add an image",
	"/unfold":      "a click unfolds a call",
	"/exit":        "what was said is kept; the page can be closed at any time",
	"/view":        "the rail of the page lists the workers",
	"/spawn":       "go on there: tidemark chat -c",
	"/send":        "go on there: tidemark chat -c",
	"/stop":        "go on there: tidemark chat -c",
	"/start":       "go on there: tidemark chat -c",
	"/loop":        "go on there: tidemark chat -c",
	"/loop-target": "go on there: tidemark chat -c",
	"/loops":       "go on there: tidemark chat -c",
	"/cancel":      "go on there: tidemark chat -c",
	"/wake":        "go on there: tidemark chat -c",
}

// ModelOf is the model of a conversation that was assembled with these options.
func ModelOf(c *chat.Chat, o agent.Options) (m agent.Model) {
	m.Provider, m.Name = c.ModelName()
	m.BaseURL = o.Choice.AddressFor(m.Provider)
	return m
}

// OpenRemote opens a conversation as agent.Setup.OpenRemote does.
func OpenRemote(ctx context.Context, setup *agent.Setup, o agent.Options, emit func(any) error) (*Remote, error) {
	v, err := setup.OpenRemote(ctx, o, emit)
	if err != nil {
		return nil, agent.Served(err)
	}
	r := &Remote{Remote: v}
	r.talk = &Conversation{Chat: v.Chat(), Store: o.Store, Setup: setup, Options: o, Model: ModelOf(v.Chat(), o), Encrypted: o.Store.Records().Sealed(), People: true,
		Out: told{v}, Front: remoteFront{r}, Elsewhere: onPages}
	return r, nil
}

// PageCommands are the commands on the page of a session whose conversation is not
// open: its servers and their prompts are not known yet.
func PageCommands(setup *agent.Setup, project string) []Command {
	return (&Conversation{Setup: setup, Options: agent.Options{Project: project}, Elsewhere: onPages}).Commands()
}

// Commands are those that the person has here.
func (r *Remote) Commands() []Command { return r.talk.Commands() }

// Complete offers how a line goes on, see Conversation.Complete. Files are offered
// by @ only: a page has no folder of its own.
func (r *Remote) Complete(ctx context.Context, line string) (from int, found []string) {
	if last := line[strings.LastIndexAny(line, " \n")+1:]; !Is(line) && !strings.HasPrefix(last, "@") {
		return 0, nil
	}
	return r.talk.Complete(ctx, line, len(line))
}

// Enter does what a person typed: a command, one of the shell, a memory, or a message
// that is sent with images. It emits what happens until that is done. The error of a
// command has its hint.
func (r *Remote) Enter(ctx context.Context, line string, images []tidemark.Block, emit func(any) error) error {
	return r.Turn(emit, func() error {
		command, runs := Shell(line)
		text, remembers := Memory(line)
		if !Is(line) && !runs && !remembers {
			return r.Say(ctx, r.talk.Planned(slices.Concat(images, r.talk.Message(line)))...)
		}
		if len(images) > 0 {
			return tidemark.Invalidf("images go with a message, not with a command or a memory")
		}
		if runs {
			return r.talk.Chat.RunCommand(ctx, command)
		}
		if remembers {
			return r.talk.Remember(ctx, text)
		}
		r.said = nil
		err := cmp.Or(r.talk.Run(ctx, line), r.said)
		if way := hint.Of(err); way != "" {
			return fmt.Errorf("%w; %s", err, way)
		}
		return err
	})
}

// told is what a command prints.
type told struct{ v *agent.Remote }

func (t told) Write(b []byte) (int, error) {
	t.v.Tell(agent.Event{Type: "system", Subtype: "command", Text: string(b)})
	return len(b), nil
}

// remoteFront has no screen of its own: what would need one is in onPages.
type remoteFront struct{ r *Remote }

func (f remoteFront) Turn(ctx context.Context, work func(context.Context) error) { work(ctx) }

func (f remoteFront) Say(ctx context.Context, blocks ...tidemark.Block) {
	f.r.said = f.r.Say(ctx, f.r.talk.Planned(blocks)...)
}

func (f remoteFront) SetPermission(p chat.Permission) error { return f.r.talk.Chat.SetPermission(p) }

// Offer lists what the line can go on with.
func (f remoteFront) Offer(line string) bool {
	_, found := f.r.talk.Complete(context.Background(), line, len(line))
	for _, name := range found {
		f.r.talk.print("  %s", render.CleanLine(name))
	}
	return false
}

// Choose asks nobody: whoever types a command on a page says in it what they want.
func (f remoteFront) Choose(context.Context, string, ...Choice) (rune, error) {
	return 0, tidemark.Unsupportedf("nobody can be asked")
}

func (f remoteFront) Resume(context.Context, string) error         { return f.not("/resume") }
func (f remoteFront) Export(context.Context, string, string) error { return f.not("/export") }
func (f remoteFront) New(context.Context) error                    { return f.not("/new") }
func (f remoteFront) History(context.Context)                      {}
func (f remoteFront) View(context.Context, string)                 {}
func (f remoteFront) Unfold()                                      {}
func (f remoteFront) Leave()                                       {}

func (f remoteFront) not(name string) error {
	return hint.With(tidemark.Unsupportedf("%s works in a terminal", name), "%s", onPages[name])
}

// Image is an image as it is kept and sent. ErrInvalid is for what models do not
// take: another type, or one that is too large.
func Image(name string, data []byte) (tidemark.Block, error) {
	b, err := imageBlock(name, data)
	if err != nil {
		return b, tidemark.Invalidf("%s: %s", shownName(name), err)
	}
	return b, nil
}

// MaxImage is how many bytes an image can have, and MaxImages how many go with one
// message.
const (
	MaxImage  = tool.MaxImage
	MaxImages = maxPasted
)

// ImageLimit is MaxImage in words.
func ImageLimit() string { return sizeText(MaxImage) }
