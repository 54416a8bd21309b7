package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/extension"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
	"github.com/tidemark-sessions/tidemark/render"
)

// DefaultInstructions are the instructions of an agent that was given no
// others.
const DefaultInstructions = `You are a coding agent in a person's terminal. You work in their project with the tools you have, until what they asked for is done or you need them.

How you work
- Look first. Read the files that matter and find out how the project already does such things before you change anything. Find with grep and glob instead of guessing names; calls that do not depend on each other may go into one answer.
- Change little: what was asked for, in the style of the code around it, with the names, libraries and tests that the project has. Add no dependency, file, feature or comment that nobody asked for, and leave alone what you did not come for.
- Change files with edit, and make new ones with write: the person sees what changes. Do not change files through the shell where edit would do. Read a file before you edit it; it may have changed since you last read it, because the person works here too.
- Verify. After a change, run what the project has for it: the build, the narrowest tests that cover the change, then the linter. Its instructions, README, Makefile or package file say how. When something fails, read the message and remove the cause; never weaken a test or hide an error to make it pass.
- When the work has more than three steps, keep them with the task tool and mark each as it is done.
- Leave version control to the person: do not commit, push, stash or rewrite history unless they ask, and never discard changes that are not yours.
- Programs run in a sandbox unless you are told otherwise. When a result says that the sandbox refused something, ask for exactly that with the argument sandbox, or do without. Never try to get around it.

When you ask
- Ask when two readings of the request lead to different work, when something would be lost, published or paid for, or when a decision is the person's to make. Otherwise decide, and say what you assumed.
- A call that the person denied is answered: do not do the same by other means.
- A question is answered without changing anything.

How you answer
- Briefly and plainly, for a terminal: what changed, as path:line where that helps, how you verified it, and what is left or uncertain. No preamble, no praise, no summary of what can be seen above.
- Say only what you saw. Tests pass when you ran them and they did; if you could not verify something, say so.`

// maxLearned is how many of the things learned in a project a new session is
// told.
const maxLearned = 20

// systemPrompt is the system prompt of a new session: the user's
// instructions, where the agent works, and what was learned in the project.
// What the project itself says is added by package chat, which notices when it
// changes.
func (s *Setup) systemPrompt(ctx context.Context, o Options, f Fence) (string, error) {
	text := DefaultInstructions
	if o.Instructions != nil {
		var err error
		if text, err = o.Instructions(); err != nil {
			return "", err
		}
	}
	text += "\n\n" + environment(o, f)
	n := 0
	for m, err := range o.Store.Memories(ctx, o.Project) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil || m.Project == "" {
			break // what cannot be read is left out
		}
		if n == 0 {
			text += "\n\nLearned in earlier sessions of this project:"
		}
		if n++; n > maxLearned {
			break
		}
		text += "\n- " + render.CleanLine(m.Text)
	}
	return text, nil
}

// environment says where the agent works, in the words that models know from other
// agents. The working directory is what the tools for files count from.
func environment(o Options, f Fence) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\n- "+format, args...) }
	b.WriteString("Where you work")
	tree := "not a git work tree"
	if _, err := os.Lstat(filepath.Join(o.Project, ".git")); err == nil {
		tree = "a git work tree"
	}
	line("Working directory: %s", quoteIfOdd(o.Project))
	line("It is the project, %s.", tree)
	if o.Folder != "" && o.Folder != o.Project {
		line("The shell starts in %s.", quoteIfOdd(o.Folder))
	}
	line("The system is %s on %s.", runtime.GOOS, runtime.GOARCH)
	switch {
	case f.Sandbox != nil:
		line("The sandbox is on: programs see the project and the system's programs, and reach no network.")
	case f.Unfenced != "":
		line("There is no sandbox here, so the person is asked about each program.")
	default:
		line("The sandbox is off: programs may do all that the person may. Be careful.")
	}
	line("Today is %s.", time.Now().Format("2006-01-02"))
	return b.String()
}

// quoteIfOdd quotes a path that would not be read as one: a folder may have any name.
func quoteIfOdd(path string) string {
	if quoted := strconv.Quote(path); strings.ContainsRune(path, ' ') || quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// projectInstructions reads what the project and the person tell agents. A
// folder that is no project, such as a home folder, has nothing to tell.
func (s *Setup) projectInstructions(o Options, f Fence) instructions.Set {
	read := instructions.Options{Own: s.OwnInstructions, Hidden: f.Hidden}
	if s.IsProject(o.Project) {
		read.Root, read.Folder = o.Project, o.Folder
	}
	return instructions.Read(read)
}

// Extensions says where files that extend the agent are. Only the person's own
// count in a folder that is no project.
func (s *Setup) Extensions(folder string) extension.Options {
	o := extension.Options{Own: s.OwnFolder, Claude: s.ClaudeFolder}
	if s.IsProject(folder) {
		o.Project = folder
	}
	return o
}
