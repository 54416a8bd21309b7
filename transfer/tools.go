package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agentsfleet"
	"github.com/tidemark-sessions/tidemark/convert/agentzero"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/atif"
	"github.com/tidemark-sessions/tidemark/convert/chatgpt"
	"github.com/tidemark-sessions/tidemark/convert/claudeai"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/cline"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/continuecli"
	"github.com/tidemark-sessions/tidemark/convert/copilot"
	"github.com/tidemark-sessions/tidemark/convert/copilotchat"
	"github.com/tidemark-sessions/tidemark/convert/cursor"
	"github.com/tidemark-sessions/tidemark/convert/droid"
	"github.com/tidemark-sessions/tidemark/convert/fleetrlm"
	"github.com/tidemark-sessions/tidemark/convert/gemini"
	"github.com/tidemark-sessions/tidemark/convert/goose"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/convert/kimi"
	"github.com/tidemark-sessions/tidemark/convert/messages"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
	"github.com/tidemark-sessions/tidemark/convert/pi"
	"github.com/tidemark-sessions/tidemark/convert/qwen"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
)

// Tools are the tools whose sessions can be imported or exported, in the
// order of detection: the more specific comes first.
func Tools() []convert.Tool {
	return []convert.Tool{
		claudecode.Tool(), codex.Tool(), opencode.Kilo(), opencode.Tool(), gemini.Tool(), qwen.Tool(), copilot.Tool(), pi.Tool(), continuecli.Tool(), cline.Tool(),
		kimi.Tool(), droid.Tool(), goose.Tool(), copilotchat.Tool(), cursor.Tool(),
		agentsfleet.Tool(), agentzero.Tool(), agsh.Tool(), fleetrlm.Tool(), herdctl.Tool(),
		chatgpt.Tool(), claudeai.Tool(), messages.Anthropic(), messages.OpenAI(), atif.Tool(), atif.OTel(),
	}
}

// ToolNamed returns the tool with a name. ErrInvalid: there is none.
func ToolNamed(name string) (convert.Tool, error) {
	var names []string
	for _, t := range Tools() {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return convert.Tool{}, tidemark.Invalidf("tool %q: want one of %s", name, strings.Join(names, ", "))
}

// ToolNames lists the tools for which can is true, in lines that fit a help page.
func ToolNames(can func(convert.Tool) bool) string {
	var b strings.Builder
	width := 20
	for _, t := range Tools() {
		if !can(t) {
			continue
		}
		if width > 20 {
			b.WriteString(", ")
		}
		if width += len(t.Name) + 2; width > 78 {
			b.WriteString("\n")
			width = 21
		}
		b.WriteString(t.Name)
	}
	return b.String()
}

// detect returns the tool that wrote a source.
func detect(ctx context.Context, p convert.Source) (convert.Tool, bool) {
	for _, t := range Tools() {
		if t.Detect != nil && t.Detect(ctx, p) {
			return t, true
		}
	}
	return convert.Tool{}, false
}

// foreign imports the files of another tool at a path. Without a name the
// tool is detected.
func (i *Importer) foreign(ctx context.Context, path, name string) error {
	p, done, err := i.openSource(path)
	if err != nil {
		return err
	}
	defer done()
	var tool convert.Tool
	if name != "" {
		tool, err = ToolNamed(name)
	} else if found, ok := detect(ctx, p); ok {
		tool = found
	} else {
		err = hint.With(tidemark.Invalidf("no tool is known to write this"), "name the tool with --from; see which are known: tidemark import --help")
	}
	if err != nil {
		return err
	}
	if !CanImport(tool) {
		return tidemark.Unsupportedf("%s: sessions only go out in this format", tool.Name)
	}
	return i.fromTool(ctx, tool, p, path)
}

// projectOf is the project of the sessions at a path, "" if unknown.
func (i *Importer) projectOf(tool convert.Tool, path string) string {
	if path, err := filepath.Abs(path); err == nil && tool.Local != "" && !i.Upload {
		for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
			if filepath.Base(at) == tool.Local {
				return project.At(filepath.Dir(at), i.home())
			}
		}
		if project.Exists(filepath.Join(path, tool.Local)) {
			return project.At(path, i.home())
		}
	}
	return ""
}

// rootOf names the folder that a source is in, and the machine; "" for what came
// from elsewhere.
func (i *Importer) rootOf(p convert.Source, path string) string {
	path, err := filepath.Abs(path)
	if err != nil || i.Upload {
		return ""
	}
	if p.Path != "." {
		path = filepath.Dir(path)
	}
	return machineOf(i.Holder) + ":" + filepath.ToSlash(path)
}

// CanExport reports whether anything can be exported in the format of a tool.
func CanExport(t convert.Tool) bool { return t.Export != nil || t.ExportFleet != nil }

// CanImport reports whether anything can be imported from a tool.
func CanImport(t convert.Tool) bool { return t.Import != nil || t.Fleet != nil }

// home is the importing user's home folder, "" if unknown.
func (i *Importer) home() string {
	return cmp.Or(i.getenv("HOME"), i.getenv("USERPROFILE"))
}

// fromTool imports a source of a tool.
func (i *Importer) fromTool(ctx context.Context, tool convert.Tool, p convert.Source, path string) error {
	if _, err := i.open(ctx); err != nil {
		return err
	}
	t := newToolImport(i, tool)
	t.folder, t.root = i.projectOf(tool, path), i.rootOf(p, path)
	var err error
	if tool.Import != nil {
		err = t.onlyChanged(ctx, p, path)
	}
	if err == nil && tool.Fleet != nil {
		err = t.fleet(ctx, p, path)
	}
	return err
}

// onlyChanged imports the sessions of a source, and reads only what changed since it
// was last imported.
func (t *toolImport) onlyChanged(ctx context.Context, p convert.Source, path string) error {
	l, err := t.openLedger(ctx, t.tool, p, path)
	if err != nil {
		return err
	}
	if l == nil {
		return t.all(ctx, p, path)
	}
	sessions, same, err := l.unchanged(ctx)
	if same {
		t.Expected = len(t.Results) + t.Unchanged + sessions
		t.same(sessions)
	}
	if err != nil || same {
		return err
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	t.Expected = len(t.Results) + t.Unchanged + len(l.units)
	t.ledger, p.Known, p.Left, p.Growth = l, l.state, l.left, l.growth(ctx)
	left, before := t.Skipped+t.Ignored+t.Waiting, len(t.Results)+t.Unchanged
	if err := t.all(ctx, p, path); err != nil || t.DryRun {
		return err
	}
	if t.Family != nil && t.tool.Kin != nil {
		t.Family.fill(t.tool, l.all())
	}
	if err := l.settleGone(ctx, t.Holder, t.Skipped+t.Ignored+t.Waiting == left); err != nil {
		return err
	}
	if t.Skipped+t.Ignored+t.Waiting > left {
		return l.keep(ctx) // what is not here yet is tried again the next time
	}
	return l.finish(ctx, len(t.Results)+t.Unchanged-before)
}

// homesOf returns where a tool may keep its sessions: in a home folder, and where
// the environment says. They need not exist.
func homesOf(t convert.Tool, home string, getenv func(string) string) (paths []string) {
	for _, at := range t.Homes {
		paths = append(paths, filepath.Join(home, filepath.FromSlash(at)))
	}
	for _, m := range t.Moved {
		path := filepath.Join(getenv(m.Variable), filepath.FromSlash(m.Below))
		if filepath.IsAbs(path) && !slices.ContainsFunc(paths, func(p string) bool { return sameFolder(p, path) }) {
			paths = append(paths, path)
		}
	}
	return paths
}

// sameFolder reports whether two paths lead to the same place.
func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return a == b || errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// Homes imports the files of every known tool in a home folder, and reports
// whether there were any.
func (i *Importer) Homes(ctx context.Context, home string) (found bool, err error) {
	i.homes = true
	defer func() { i.homes = false }()
	for _, p := range i.Places(home) {
		if !i.Found(ctx, p) {
			continue
		}
		found = true
		if i.Source != nil {
			i.Source(p.Tool, p.Path)
		}
		if err := i.foreign(ctx, p.Path, p.Tool.Name); err != nil {
			if !ConcernsInput(err) {
				return found, fmt.Errorf("%s: %w", p.Path, err)
			}
			i.refuse(err)
		}
	}
	return found, nil
}

// isOf reports whether a path belongs to a tool: a folder of that name may be
// anything. A path that cannot be read counts as the tool's, so that it is not
// skipped silently.
func (i *Importer) isOf(ctx context.Context, t convert.Tool, path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	p, done, err := i.openSource(path)
	if err != nil {
		return true
	}
	defer done()
	return t.Detect == nil || t.Detect(ctx, p)
}

// ConcernsInput reports whether an error concerns what is imported, and not the store
// or the whole command: other input goes on.
func ConcernsInput(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, tidemark.ErrStorage) {
		return false
	}
	for _, kind := range []error{tidemark.ErrInvalid, tidemark.ErrNotFound, tidemark.ErrUnsupported, tidemark.ErrConflict, tidemark.ErrHeld} {
		if errors.Is(err, kind) {
			return true
		}
	}
	var file *fs.PathError
	return errors.As(err, &file)
}
