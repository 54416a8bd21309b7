package slash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// Choice is one answer to a question: a lower-case letter and what it means.
type Choice struct {
	Key  rune
	Text string
}

// back is what a person asked to be taken back.
type back struct {
	turns               int    // how many turns
	node                string // or to which node
	conversation, files bool   // neither: the person is asked
	force               bool
}

// parseBack reads the arguments of /rewind and /undo: a number of turns or a node,
// what goes back, and --force.
func parseBack(command, arg string) (back, error) {
	b := back{turns: 1}
	for word := range strings.FieldsSeq(arg) {
		n, err := strconv.Atoi(word)
		switch {
		case err == nil && n >= 1:
			b.turns = n
		case word == "conversation":
			b.conversation = true
		case word == "files":
			b.files = true
		case word == "both":
			b.conversation, b.files = true, true
		case word == "--force":
			b.force = true
		case strings.HasPrefix(word, "@"), len(word) > 1 && word[0] == 'n' && strings.Trim(word[1:], "0123456789") == "":
			b.node = strings.TrimPrefix(word, "@")
		default:
			return b, hint.With(tidemark.Invalidf("%s %q: want a number of turns or a node", command, word), "for example: %s 2 files; what goes back is conversation, files or both", command)
		}
	}
	return b, nil
}

func (c *Conversation) rewind(ctx context.Context, arg string) error {
	b, err := parseBack("/rewind", arg)
	if err != nil {
		return err
	}
	return c.goBack(ctx, b, back{conversation: true})
}

func (c *Conversation) undo(ctx context.Context, arg string) error {
	b, err := parseBack("/undo", arg)
	if err != nil {
		return err
	}
	return c.goBack(ctx, b, back{conversation: true, files: true})
}

// goBack takes the conversation, the files or both back. What goes back where
// nobody said so and nobody can be asked is in unasked.
func (c *Conversation) goBack(ctx context.Context, b, unasked back) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	to, name, err := c.target(ctx, v, b)
	if err != nil {
		return hint.With(err, "see the nodes with /tree")
	}
	plan, err := c.Chat.LookBack(ctx, to.Files)
	if err != nil {
		return err
	}
	defer plan.Close()
	if !b.conversation && !b.files {
		if b, err = c.chooseBack(ctx, b, unasked, plan); err != nil {
			return err
		}
		if !b.conversation && !b.files {
			c.note("Nothing was taken back.")
			return nil
		}
	}
	if b.conversation && to.Conversation == 0 && !b.files {
		return hint.With(tidemark.NotFoundf("there is nothing before this turn"), "begin a new session with /new; /undo files takes the files back")
	}
	if b.files {
		if done, err := c.putBack(ctx, plan, b.force); err != nil || !done {
			return err
		}
	}
	switch {
	case !b.conversation:
		return nil
	case to.Conversation == 0:
		c.note("The conversation stays: there is nothing before its first turn. /new begins another one.")
		return nil
	}
	return c.branchTo(ctx, to.Conversation, name)
}

// target is where to go back to, and how that is called.
func (c *Conversation) target(ctx context.Context, v *store.View, b back) (rewind.Target, string, error) {
	if b.node == "" {
		to, err := rewind.Turns(ctx, v, b.turns)
		name := "before the last turn"
		if b.turns > 1 {
			name = fmt.Sprintf("before the last %d turns", b.turns)
		}
		return to, name, err
	}
	p, err := c.Store.Resolve(ctx, string(v.ID)+"@"+b.node, "")
	if err != nil {
		return rewind.Target{}, "", err
	}
	to, err := rewind.Node(ctx, v, p.Seq)
	return to, b.node, err
}

// chooseBack lets the person choose, where the choice makes a difference.
func (c *Conversation) chooseBack(ctx context.Context, b, unasked back, plan *rewind.Plan) (back, error) {
	b.conversation, b.files = unasked.conversation, unasked.files
	if len(plan.Files) == 0 && len(plan.Left) == 0 || c.Front == nil {
		return b, nil
	}
	key, err := c.Front.Choose(ctx, fmt.Sprintf("Files changed: %d. What goes back?", len(plan.Files)+len(plan.Left)),
		Choice{'b', "both"}, Choice{'c', "conversation"}, Choice{'f', "files"}, Choice{'n', "nothing"})
	switch {
	case errors.Is(err, tidemark.ErrUnsupported):
		return b, nil
	case err != nil:
		return b, err
	}
	b.conversation, b.files = key == 'b' || key == 'c', key == 'b' || key == 'f'
	return b, nil
}

// putBack shows what would change and, unless the person declines, does it.
func (c *Conversation) putBack(ctx context.Context, plan *rewind.Plan, force bool) (done bool, err error) {
	for _, line := range PlanLines(ctx, plan) {
		c.print("%s", line)
	}
	if len(plan.Files) == 0 {
		c.note("No file has to be changed.")
		return true, nil
	}
	if changed := plan.Changed(); len(changed) > 0 && !force {
		yes, err := c.confirm(ctx, fmt.Sprintf("%d file(s) were changed by somebody else since. Overwrite them?", len(changed)))
		if errors.Is(err, tidemark.ErrUnsupported) {
			return false, hint.With(tidemark.Conflictf("somebody else changed %s; nothing was taken back", cleanList(changed)), "overwrite with --force; what is there now is kept, too")
		}
		if err != nil || !yes {
			return false, c.unchanged(err)
		}
		force = true
	} else if yes, err := c.confirm(ctx, fmt.Sprintf("Change %d file(s)?", len(plan.Files))); !errors.Is(err, tidemark.ErrUnsupported) && (err != nil || !yes) {
		return false, c.unchanged(err)
	}
	if err := c.Chat.PutBack(ctx, plan, force); err != nil {
		return false, err
	}
	c.note("%d file(s) are as they were. What they were until now is kept: /tree shows the node, /rewind NODE files brings it back.", len(plan.Files))
	for _, l := range plan.Unkept {
		c.note("What %s was until now is not kept: %s.", l.Path, l.Why)
	}
	return true, nil
}

// unchanged says that a person who declined got what they wanted.
func (c *Conversation) unchanged(err error) error {
	if err == nil {
		c.note("Nothing was changed.")
	}
	return err
}

// confirm asks yes or no; ErrUnsupported where nobody can be asked.
func (c *Conversation) confirm(ctx context.Context, question string) (bool, error) {
	if c.Front == nil {
		return false, tidemark.Errorf(tidemark.ErrUnsupported, "nobody can be asked")
	}
	key, err := c.Front.Choose(ctx, question, Choice{'y', "yes"}, Choice{'n', "no"})
	return key == 'y', err
}

func cleanList(paths []string) string {
	if n := len(paths); n > maxShown {
		paths = append(paths[:maxShown:maxShown], fmt.Sprintf("%d more", n-maxShown))
	}
	return render.CleanLine(strings.Join(paths, ", "))
}

// maxShown is how many files and commands are listed.
const maxShown = 40

// PlanLines is what a rewind of files would do, for people: a line for each file,
// for what cannot be put back, and for the commands whose effects stay.
func PlanLines(ctx context.Context, p *rewind.Plan) (lines []string) {
	for i, f := range p.Files {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("  … and %d more files", len(p.Files)-maxShown))
			break
		}
		line := fmt.Sprintf("  %-8s %s%s", action(f), render.CleanLine(f.Path), difference(ctx, p, f))
		if f.Changed {
			line += "  ! changed by somebody else since"
		}
		lines = append(lines, line)
	}
	for i, l := range p.Left {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("  … and %d more", len(p.Left)-maxShown))
			break
		}
		lines = append(lines, fmt.Sprintf("  stays    %s: %s", render.CleanLine(l.Path), render.CleanLine(l.Why)))
	}
	if len(p.Commands) == 0 {
		return lines
	}
	lines = append(lines, fmt.Sprintf("  What %d command(s) did cannot be taken back:", len(p.Commands)))
	for i, k := range p.Commands {
		if i == maxShown {
			return append(lines, fmt.Sprintf("    … and %d more", len(p.Commands)-maxShown))
		}
		lines = append(lines, "    "+CommandText(k))
	}
	return lines
}

// action says what becomes of a file.
func action(f rewind.File) string {
	switch {
	case f.To.Kind == tidemark.VersionAbsent:
		return "remove"
	case f.Now.Kind == tidemark.VersionAbsent:
		return "restore"
	}
	return "change"
}

// difference counts the lines that come and go.
func difference(ctx context.Context, p *rewind.Plan, f rewind.File) string {
	const most = 1 << 20
	if f.Now.Size > most || f.To.Size > most {
		return fmt.Sprintf(" (%d bytes, now %d)", f.To.Size, f.Now.Size)
	}
	now, to, err := p.Contents(ctx, f)
	if err != nil {
		return " (" + render.CleanLine(err.Error()) + ")"
	}
	added, removed := render.Changed(render.Diff(render.Change{Old: string(now), New: string(to)}))
	return fmt.Sprintf(" (+%d −%d)", added, removed)
}

// CommandText names a command in one line.
func CommandText(k rewind.Command) string {
	what := string(k.Input)
	var input struct {
		Command string `json:"command"`
		Code    string `json:"code"`
	}
	if json.Unmarshal(k.Input, &input) == nil && input.Command+input.Code != "" {
		what = input.Command + input.Code
	}
	who := k.Tool
	if k.Worker != "" {
		who = k.Worker + ": " + who
	}
	return render.FirstLine(render.CleanLine(who+": "+what), 120)
}
