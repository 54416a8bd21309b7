package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agentsfleet"
	"github.com/tidemark-sessions/tidemark/convert/agentzero"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/atif"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/cline"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/continuecli"
	"github.com/tidemark-sessions/tidemark/convert/copilot"
	"github.com/tidemark-sessions/tidemark/convert/fleetrlm"
	"github.com/tidemark-sessions/tidemark/convert/gemini"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/convert/messages"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
	"github.com/tidemark-sessions/tidemark/convert/pi"
	"github.com/tidemark-sessions/tidemark/convert/qwen"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/open"
)

// tools are the tools whose sessions come in and go out. The order is that of
// detection: what is more particular comes first.
func tools() []convert.Tool {
	return []convert.Tool{
		claudecode.Tool(), codex.Tool(), opencode.Tool(), gemini.Tool(), qwen.Tool(), copilot.Tool(), pi.Tool(), continuecli.Tool(), cline.Tool(),
		agentsfleet.Tool(), agentzero.Tool(), agsh.Tool(), fleetrlm.Tool(), herdctl.Tool(),
		messages.Anthropic(), messages.OpenAI(), atif.Tool(), atif.OTel(),
	}
}

// known names the tools that can do something, in lines that fit a help page.
func known(can func(convert.Tool) bool) string {
	var b strings.Builder
	width := 20
	for _, t := range tools() {
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

func toolNamed(name string) (convert.Tool, error) {
	var names []string
	for _, t := range tools() {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return convert.Tool{}, tidemark.Invalidf("tool %q: want one of %s", name, strings.Join(names, ", "))
}

// detect returns the tool that a place is of.
func detect(ctx context.Context, p convert.Source) (convert.Tool, bool) {
	for _, t := range tools() {
		if t.Detect != nil && t.Detect(ctx, p) {
			return t, true
		}
	}
	return convert.Tool{}, false
}

// foreign brings what another tool left at a path. An empty name means that
// the tool is to be found out.
func (i *importer) foreign(path, name string) error {
	p, done, err := openPlace(path)
	if err != nil {
		return err
	}
	defer done()
	ctx := i.cmd.Context()
	var tool convert.Tool
	if name != "" {
		tool, err = toolNamed(name)
	} else if found, ok := detect(ctx, p); ok {
		tool = found
	} else {
		err = withHint(tidemark.Invalidf("no tool is known to write this"), "name the tool with --from; see which are known: tidemark import --help")
	}
	if err != nil {
		return err
	}
	if !canImport(tool) {
		return tidemark.Unsupportedf("%s: sessions only go out in this format", tool.Name)
	}
	return i.bringAll(tool, p, path)
}

// projectOf is the project of sessions that lie in it, "" where that is not
// known.
func (i *importer) projectOf(tool convert.Tool, path string) string {
	if path, err := filepath.Abs(path); err == nil && tool.Local != "" && !i.upload {
		for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
			if filepath.Base(at) == tool.Local {
				return projectAt(filepath.Dir(at))
			}
		}
		if project.Exists(filepath.Join(path, tool.Local)) {
			return projectAt(path)
		}
	}
	return ""
}

func canExport(t convert.Tool) bool { return t.Export != nil || t.ExportFleet != nil }

func canImport(t convert.Tool) bool { return t.Import != nil || t.Fleet != nil }

func (i *importer) bringAll(tool convert.Tool, p convert.Source, path string) error {
	if _, err := i.openFor(i.dryRun); err != nil {
		return err
	}
	var b tidemark.Backend
	if i.opened != nil {
		b = i.opened.Backend
	}
	o, err := open.Rules(b, i.opening(writes))
	if err != nil {
		return err
	}
	br := newBringer(i, tool, *o)
	br.folder = i.projectOf(tool, path)
	if tool.Import != nil {
		err = br.all(i.cmd.Context(), p, path)
	}
	if err == nil && tool.Fleet != nil {
		err = br.fleet(i.cmd.Context(), p, path)
	}
	i.skipped += len(br.skipped)
	return err
}

// everywhere brings what every known tool left in the home folder.
func (i *importer) everywhere() error {
	home, err := os.UserHomeDir()
	if err != nil {
		return tidemark.Invalidf("no home folder: %w", err)
	}
	found := false
	for _, t := range tools() {
		for _, at := range t.Homes {
			path := filepath.Join(home, filepath.FromSlash(at))
			if !i.isOf(t, path) {
				continue
			}
			found = true
			i.say("%s: %s", t.Title, path)
			if err := i.foreign(path, t.Name); err != nil {
				if !isPathError(err) {
					return fmt.Errorf("%s: %w", path, err)
				}
				i.skipped++
				i.complain(err)
			}
		}
	}
	if !found {
		i.say("No known tool has left sessions in %s.", home)
	}
	return nil
}

// isOf reports whether what lies at a path is of a tool: a folder of that name
// may be anybody's. What cannot be looked at is taken for it, so that it is not
// passed over in silence.
func (i *importer) isOf(t convert.Tool, path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	p, done, err := openPlace(path)
	if err != nil {
		return true
	}
	defer done()
	return t.Detect == nil || t.Detect(i.cmd.Context(), p)
}

// isPathError reports whether an error is that of what is imported, and not of
// the store or of the whole command.
func isPathError(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, tidemark.ErrStorage) {
		return false
	}
	for _, kind := range []error{tidemark.ErrInvalid, tidemark.ErrNotFound, tidemark.ErrUnsupported, tidemark.ErrConflict, tidemark.ErrHeld, fs.ErrPermission} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
