package chat

import (
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Permission is how much the agent may do without a question. It is chosen by
// the person while the conversation is open, and never kept: no session, no
// model and no repository can bring one along.
type Permission string

const (
	// PermissionAsk asks about everything that was not approved.
	PermissionAsk Permission = "ask"
	// PermissionEdits changes files of the project without a question, except
	// those that other programs run by themselves.
	PermissionEdits Permission = "edits"
	// PermissionPlan only looks.
	PermissionPlan Permission = "plan"
	// PermissionAuto is PermissionEdits, and runs programs in the sandbox
	// without a question. What a call needs beyond the sandbox is still asked.
	PermissionAuto Permission = "auto"
)

// Permissions lists them in the order in which a key goes through them.
func Permissions() []Permission {
	return []Permission{PermissionAsk, PermissionEdits, PermissionPlan, PermissionAuto}
}

// ParsePermission returns the permission of a name, PermissionAsk for "". Any
// other is ErrInvalid.
func ParsePermission(name string) (Permission, error) {
	if name == "" {
		return PermissionAsk, nil
	}
	if p := Permission(name); slices.Contains(Permissions(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Permissions() {
		names = append(names, string(p))
	}
	return "", tidemark.Invalidf("permission mode %q: want one of %s", name, strings.Join(names, ", "))
}

// Permission is how much the agent may do without a question now.
func (c *Chat) Permission() Permission {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.permission
}

// SetPermission changes it, also in the middle of a turn: the next call is judged
// by it. PermissionAuto without a sandbox is ErrInvalid.
func (c *Chat) SetPermission(p Permission) error {
	if _, err := ParsePermission(string(p)); err != nil {
		return err
	}
	if p == PermissionAuto && !c.o.Fenced {
		return tidemark.Invalidf("permission mode auto needs the sandbox, and this conversation has none")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.permission = p
	return nil
}

// permits reports whether a call needs no question now. What a person has to
// decide about each time is never passed to it.
func (c *Chat) permits(a ApprovalRequest) bool {
	p := c.Permission()
	switch a.Effect {
	case tool.Writes:
		return (p == PermissionEdits || p == PermissionAuto) && coveredBySession(a)
	case tool.Runs:
		return p == PermissionAuto && c.o.Fenced && a.fenced
	}
	return false
}

// planOnly is what a call is told that would do more than look.
const planOnly = "not run: the user wants a plan first. Only look at things now, and end with the plan; it is carried out when the user approves it."

// onlyPlans reports whether a tool has to wait until the plan is approved.
func (c *Chat) onlyPlans(t tool.Tool) bool {
	return c.Permission() == PermissionPlan && t.Effect != tool.Reads
}
