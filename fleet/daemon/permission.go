package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/tool"
)

// judge says what the permissions of the file say of a call: that it is
// allowed, why it is denied, or neither.
func judge(a file.Agent, q runner.Question) (allowed bool, denial string) {
	doubtful := false
	for _, p := range a.Permissions.Deny {
		switch {
		case p.Tool != "*" && !strings.EqualFold(p.Tool, q.Tool):
		case p.Scope == "" || touches(a, q, p.Scope):
			return false, fmt.Sprintf("the fleet file denies %s", p)
		case !scoped(a, q):
			doubtful = true
		}
	}
	for _, p := range a.Permissions.Allow {
		switch {
		case p.Tool != "*" && p.Tool != q.Tool:
		case p.Scope == "":
			// Where a part of a tool is denied, the whole tool being allowed
			// says nothing of a call that may be that part.
			if !doubtful {
				return true, ""
			}
		case covers(a, q, p.Scope):
			return true, ""
		}
	}
	return false, ""
}

// scoped reports whether it is known which part of a tool a call uses. The
// built-in agent says it in the title; of a command it is known when it is of
// vetted forms, or one program with its arguments. Titles of other programs are
// for people: those programs judge parts of tools themselves.
func scoped(a file.Agent, q runner.Question) bool {
	switch {
	case a.Runner != fleet.RunnerBuiltin || q.Title == "":
		return false
	case q.Tool == "bash":
		_, all := programsOf(q)
		return all
	}
	return file.IsFileTool(q.Tool) || !strings.Contains(q.Title, " ")
}

// programsOf are the programs that a command names, and whether it runs no
// others.
func programsOf(q runner.Question) (programs []string, all bool) {
	programs, all = tool.Programs(commandOf(q))
	return programs, all || len(tool.Forms(q.Title)) > 0
}

// commandOf is the command of a call of bash, whole.
func commandOf(q runner.Question) string {
	var in struct{ Command string }
	if json.Unmarshal(q.Input, &in) != nil {
		return ""
	}
	return in.Command
}

// covers reports whether a call is inside of a scope that is allowed: the very
// program or host, or the folder with all that is in it.
func covers(a file.Agent, q runner.Question, scope string) bool {
	switch {
	case a.Runner != fleet.RunnerBuiltin || q.Title == "":
		return false
	case file.IsFileTool(q.Tool):
		return q.Title == scope || a.Within(q.Title, scope)
	case q.Tool == "bash":
		return coversCommand(q.Title, scope)
	}
	return q.Title == scope
}

// coversCommand reports whether what is allowed of bash has a command in it: a
// program stands for its vetted forms, and "git status" for that one; anything
// else is a very command, run where the agent's shell begins.
func coversCommand(title, scope string) bool {
	forms := tool.Forms(title)
	if len(forms) == 0 {
		return title == tool.ExactScope(scope)
	}
	return !slices.ContainsFunc(forms, func(form string) bool { return form != scope && !strings.HasPrefix(form, scope+" ") })
}

// touches reports whether a call is inside of a scope that is denied. It is
// wider than covers: a program is denied wherever it lies, and a host with its
// ports and with the hosts below it.
func touches(a file.Agent, q runner.Question, scope string) bool {
	switch {
	case covers(a, q, scope):
		return true
	case a.Runner == fleet.RunnerBuiltin && q.Tool == "bash":
		programs, _ := programsOf(q)
		return slices.Contains(programs, scope) || slices.Contains(tool.Forms(q.Title), scope) || commandOf(q) == scope
	case !scoped(a, q) || file.IsFileTool(q.Tool):
		return false
	case q.Tool == "fetch":
		host, scope := hostOnly(q.Title), strings.ToLower(scope)
		return host == scope || strings.HasSuffix(host, "."+scope)
	}
	return q.Title[strings.LastIndexByte(q.Title, '/')+1:] == scope
}

func hostOnly(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.ToLower(strings.TrimSuffix(address, "."))
}

// unlisted is what an agent is told that nobody can be asked for.
func unlisted(a file.Agent, q runner.Question) string {
	p := file.Permission{Tool: shown(q.Tool)}
	if scoped(a, q) {
		p.Scope = shown(q.Title)
	}
	if q.Tool == "bash" && scoped(a, q) {
		p.Scope = shown(commandOf(q)) // what the file would have to say
	}
	return fmt.Sprintf("this agent runs by itself, so nobody can be asked, and the permissions of its fleet file do not allow %s", p)
}
