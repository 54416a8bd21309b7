package repl

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/project"
)

// surroundings are parts of the status line that are looked up between turns.
type surroundings struct{ workers, branch string }

// status updates the line below the prompt.
func (r *repl) status(ctx context.Context) {
	if !r.interactive {
		return
	}
	r.around = surroundings{branch: project.Branch(r.Options.Project)}
	if all, err := r.Chat.Workers(ctx); err == nil && len(all) > 0 {
		names := []string{"workers:"}
		for _, w := range all {
			mark := "○"
			if w.Running {
				mark = "●"
			}
			names = append(names, mark+" "+w.Name)
		}
		r.around.workers = strings.Join(names, " ")
	}
	r.drawStatus()
}

// drawStatus draws the line with what is known. What decides about safety comes
// first, because the last parts are left off on a narrow screen.
func (r *repl) drawStatus() {
	if !r.interactive {
		return
	}
	sandbox := ""
	if r.fence.Sandbox == nil {
		sandbox = "sandbox off"
	}
	_, name := r.Chat.ModelName()
	where := filepath.Base(r.Options.Project)
	if r.around.branch != "" {
		where += " on " + r.around.branch
	}
	r.console.Status(permissionText(r.Chat.Permission()), sandbox, r.around.workers, r.meter.contextText(r.Chat.Window()), r.meter.cacheText(), r.meter.costText(), name, where)
}

// permissionText is a permission in the status line.
func permissionText(p chat.Permission) string {
	switch p {
	case chat.PermissionEdits:
		return "accepts edits"
	case chat.PermissionPlan:
		return "plans only"
	case chat.PermissionAuto:
		return "auto in the sandbox"
	}
	return "asks"
}

// nextPermission goes to the next permission that is possible here.
func (r *repl) nextPermission(context.Context) {
	all := chat.Permissions()
	at := slices.Index(all, r.Chat.Permission())
	for i := range all {
		if r.setPermission(all[(at+1+i)%len(all)]) == nil {
			return
		}
	}
}

// setPermission changes what needs no question, and shows it.
func (r *repl) setPermission(p chat.Permission) error {
	if err := r.Chat.SetPermission(p); err != nil {
		return err
	}
	r.o.Permission = p // also of the session that /resume goes on with
	r.drawStatus()
	return nil
}
