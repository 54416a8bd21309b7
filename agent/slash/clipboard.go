package slash

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/tool"
)

// clipboard is a program that prints the image in the person's clipboard.
type clipboard struct {
	program string
	args    []string
	needs   string // a variable without which it has nothing to ask
	decode  func([]byte) []byte
}

// clipboards returns the programs of a system, the likeliest first.
func clipboards(system string) []clipboard {
	switch system {
	case "darwin":
		return []clipboard{
			{program: "pngpaste", args: []string{"-"}},
			{program: "osascript", args: []string{"-e", "the clipboard as «class PNGf»"}, decode: appleData},
		}
	case "windows":
		return nil
	}
	return []clipboard{
		{program: "wl-paste", args: []string{"--no-newline", "--type", "image/png"}, needs: "WAYLAND_DISPLAY"},
		{program: "xclip", args: []string{"-selection", "clipboard", "-target", "image/png", "-out"}, needs: "DISPLAY"},
	}
}

var appleLiteral = expression.WhenNeeded(`«data PNGf([0-9A-F]*)»`)

// appleData reads what AppleScript prints for data: «data PNGf89504E47…».
func appleData(printed []byte) []byte {
	found := appleLiteral().FindSubmatch(printed)
	if found == nil {
		return nil
	}
	data, err := hex.DecodeString(string(found[1]))
	if err != nil {
		return nil
	}
	return data
}

// PasteImage returns what stands in the line for the image in the clipboard of
// the person's desktop, or says why there is none.
func (c *Conversation) PasteImage() (signs []string, notice string) { return c.pasteImage(readWait) }

func (c *Conversation) pasteImage(wait time.Duration) (signs []string, notice string) {
	has := func(name string) bool {
		return name == "" || slices.ContainsFunc(c.Setup.Environ, func(v string) bool { return strings.HasPrefix(v, name+"=") && v != name+"=" })
	}
	blocks, notice := readWithin(wait, "the clipboard did not answer in time", func() ([]tidemark.Block, string) {
		var missing []string
		for _, one := range clipboards(runtime.GOOS) {
			if !has(one.needs) {
				continue
			}
			path := (*tool.Sandbox)(nil).LookUp(c.Setup.Environ, one.program)
			if path == "" {
				missing = append(missing, one.program)
				continue
			}
			data, err := one.read(path, c.Setup.Environ, wait)
			if err != nil || len(data) == 0 {
				return nil, "there is no image in the clipboard; text is pasted with your terminal's own key"
			}
			return asImages("clipboard.png", data)
		}
		if len(missing) > 0 {
			return nil, "to paste an image, install " + strings.Join(missing, " or ") + ", or drag its file into the terminal"
		}
		return nil, "no clipboard can be reached from here: drag the file of an image into the terminal, or name it with @"
	})
	for _, b := range blocks {
		signs = append(signs, c.pasted.add(b))
	}
	return signs, notice
}

// read runs the program. It ends when it takes too long: whoever owns the
// clipboard may not answer.
func (p clipboard) read(path string, environ []string, wait time.Duration) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	cmd := exec.CommandContext(ctx, path, p.args...)
	cmd.Env = environ
	most := int64(tool.MaxImage)
	if p.decode != nil {
		most = 3 * most
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	printed, err := io.ReadAll(io.LimitReader(out, most+1))
	if int64(len(printed)) > most {
		stop() // nobody wants the rest
		cmd.Wait()
	} else if err = errors.Join(err, cmd.Wait()); err != nil {
		return nil, err
	}
	if p.decode != nil {
		return p.decode(printed), nil
	}
	return printed, nil
}
