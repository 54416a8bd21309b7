package acp

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
)

// arguments are those of the tools for which an editor can show more than the
// name.
type arguments struct {
	Path      string `json:"path"`
	Command   string `json:"command"`
	Code      string `json:"code"`
	URL       string `json:"url"`
	Pattern   string `json:"pattern"`
	Name      string `json:"name"`
	Key       string `json:"key"`
	Action    string `json:"action"`
	Text      string `json:"text"`
	Offset    int    `json:"offset"`
	Content   string `json:"content"`
	OldString string `json:"old_string"`
	NewString string `json:"new_string"`
}

// call is the use of a tool, as an editor shows it.
type call struct {
	worker, id, tool, folder string
	input                    json.RawMessage
	args                     arguments
}

func newCall(folder, worker, id, tool string, input json.RawMessage) call {
	c := call{worker: worker, id: id, tool: tool, folder: folder, input: input}
	// What does not decode is still shown in the raw input.
	_ = json.Unmarshal(input, &c.args)
	return c
}

// callID is the id of a call, unique among those of the session and its
// workers.
func callID(worker, id string) sdk.ToolCallId {
	if worker != "" {
		id = worker + "/" + id
	}
	return sdk.ToolCallId(id)
}

func (c call) kind() sdk.ToolKind {
	switch c.tool {
	case "bash", "python":
		return sdk.ToolKindExecute
	case "read", "ls":
		return sdk.ToolKindRead
	case "glob", "grep":
		return sdk.ToolKindSearch
	case "write", "edit":
		return sdk.ToolKindEdit
	case "fetch":
		return sdk.ToolKindFetch
	case "remember", "task", "wake":
		return sdk.ToolKindThink
	}
	return sdk.ToolKindOther
}

// maxTitle bounds the title of a call; the input is complete.
const maxTitle = 120

// about is what the call is about, unabridged.
func (c call) about() string {
	a := c.args
	return strings.TrimSpace(cmp.Or(a.Command, a.Path, a.URL, a.Pattern, a.Name, a.Key, a.Code, a.Action))
}

func (c call) title() string {
	about, _, _ := strings.Cut(c.about(), "\n")
	if c.tool == "task" && c.args.Text != "" {
		about += " " + c.args.Text
	}
	title := c.tool
	if about != "" {
		title += ": " + about
	}
	if c.worker != "" {
		title = "[" + c.worker + "] " + title
	}
	return oneLine(title)
}

func oneLine(text string) string { return render.Truncate(render.CleanLine(text), maxTitle) }

// path is the file or folder that the call is about, "" when there is none on
// disk.
func (c call) path() string {
	p := c.args.Path
	switch {
	case p == "" || strings.HasPrefix(p, "session:") || strings.HasPrefix(p, "~"):
		return ""
	case filepath.IsAbs(p):
		return filepath.Clean(p)
	}
	return filepath.Join(c.folder, p)
}

func (c call) locations() []sdk.ToolCallLocation {
	path := c.path()
	if path == "" {
		return nil
	}
	at := sdk.ToolCallLocation{Path: path}
	if c.args.Offset > 0 {
		at.Line = &c.args.Offset
	}
	return []sdk.ToolCallLocation{at}
}

// maxOld bounds a file that is read to show what a write replaces.
const maxOld = 1 << 20

// diff is the change that the call makes to a file, if any. What a write
// replaces is known only before it is done.
func (c call) diff(before bool) []sdk.ToolCallContent {
	path := c.path()
	switch {
	case path == "":
		return nil
	case c.tool == "edit" && c.args.OldString != "":
		return []sdk.ToolCallContent{sdk.ToolDiffContent(path, c.args.NewString, c.args.OldString)}
	case c.tool != "write":
		return nil
	}
	if i, err := os.Stat(path); before && err == nil && i.Mode().IsRegular() && i.Size() <= maxOld {
		if old, err := os.ReadFile(path); err == nil {
			return []sdk.ToolCallContent{sdk.ToolDiffContent(path, c.args.Content, strings.ToValidUTF8(string(old), "\uFFFD"))}
		}
	}
	return []sdk.ToolCallContent{sdk.ToolDiffContent(path, c.args.Content)}
}

// rawInput is the input as it came; input that is not JSON is not sent.
func (c call) rawInput() any {
	if len(c.input) == 0 || !json.Valid(c.input) {
		return nil
	}
	return c.input
}

// begun is the update that shows the call for the first time.
func (c call) begun(before bool) sdk.SessionUpdate {
	return sdk.SessionUpdate{ToolCall: &sdk.SessionUpdateToolCall{
		ToolCallId: callID(c.worker, c.id), Title: c.title(), Kind: c.kind(), Status: sdk.ToolCallStatusPending,
		Locations: c.locations(), Content: c.diff(before), RawInput: c.rawInput(),
	}}
}

// asked is the call in a permission request, with the same text that is
// shown everywhere else: nobody should allow what they were not shown.
func (c call) asked(text string) sdk.ToolCallUpdate {
	content := append(c.diff(true), sdk.ToolContent(sdk.TextBlock(fenced(text))))
	return sdk.ToolCallUpdate{
		ToolCallId: callID(c.worker, c.id), Title: sdk.Ptr(c.title()), Kind: sdk.Ptr(c.kind()), Status: sdk.Ptr(sdk.ToolCallStatusPending),
		Locations: c.locations(), Content: content, RawInput: c.rawInput(),
	}
}

// ended is the update with the outcome of a call. Where a file was
// changed, the change remains what is shown.
func ended(worker string, result tidemark.Block, change []sdk.ToolCallContent) sdk.SessionUpdate {
	u := &sdk.SessionToolCallUpdate{ToolCallId: callID(worker, result.ToolUseID), Status: sdk.Ptr(sdk.ToolCallStatusCompleted)}
	if result.IsError {
		u.Status = sdk.Ptr(sdk.ToolCallStatusFailed)
		change = nil
	}
	u.Content = change
	for _, b := range append([]tidemark.Block{tidemark.Text(result.Text)}, result.Blocks...) {
		if c, ok := contentOf(b); ok {
			u.Content = append(u.Content, sdk.ToolContent(c))
		}
	}
	return sdk.SessionUpdate{ToolCallUpdate: u}
}
