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

// judge applies the permissions of the file to a call. It returns whether it is
// allowed, or else why it is denied; "" if the permissions do not mention it.
func judge(a file.Agent, q runner.Question) (allowed bool, denial string) {
	doubtful := false
	for _, p := range a.Permissions.Deny {
		switch {
		case p.Tool != "*" && !strings.EqualFold(p.Tool, q.Tool):
		case p.Scope == "" || touches(a, q, p.Scope):
			return false, fmt.Sprintf("the fleet file denies %s", p)
		case !scopeKnown(a, q):
			doubtful = true
		}
	}
	for _, p := range a.Permissions.Allow {
		switch {
		case p.Tool != "*" && p.Tool != q.Tool:
		case p.Scope == "":
			// If a scope of the tool is denied, and the call may be in that scope,
			// it is not allowed just because the tool as a whole is.
			if !doubtful {
				return true, ""
			}
		case covers(a, q, p.Scope):
			return true, ""
		}
	}
	return false, ""
}

// scopeKnown reports whether it is known in which scope of a tool a call is. The
// built-in agent has it in the title. For a command it is known if that has only
// vetted forms, or is one program with its arguments. The titles of other programs
// are meant for people: those programs check scopes themselves.
func scopeKnown(a file.Agent, q runner.Question) bool {
	switch {
	case a.Runner != fleet.RunnerBuiltin || q.Title == "":
		return false
	case q.Tool == "bash":
		_, all := programsOf(q)
		return all
	}
	return file.IsFileTool(q.Tool) || !strings.Contains(q.Title, " ")
}

// programsOf returns the programs that a command names, and whether it is known to
// run no others.
func programsOf(q runner.Question) (programs []string, all bool) {
	programs, all = tool.Programs(commandOf(q))
	return programs, all || len(tool.Forms(q.Title)) > 0
}

// commandOf is the complete command of a call of bash.
func commandOf(q runner.Question) string {
	var in struct{ Command string }
	if json.Unmarshal(q.Input, &in) != nil {
		return ""
	}
	return in.Command
}

// covers reports whether a call is in an allowed scope: exactly that program or
// host, or that folder and everything in it.
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

// coversCommand reports whether a command is in an allowed scope of bash. A program
// as the scope allows all its vetted forms, and "git status" only that one. Any other
// scope is one exact command, run in the folder in which the agent's shell starts.
func coversCommand(title, scope string) bool {
	forms := tool.Forms(title)
	if len(forms) == 0 {
		return title == tool.ExactScope(scope)
	}
	return !slices.ContainsFunc(forms, func(form string) bool { return form != scope && !strings.HasPrefix(form, scope+" ") })
}

// touches reports whether a call is in a denied scope. That is wider than covers: a
// program is denied in any folder, and a host with all its ports and subdomains.
func touches(a file.Agent, q runner.Question, scope string) bool {
	switch {
	case covers(a, q, scope):
		return true
	case a.Runner == fleet.RunnerBuiltin && q.Tool == "bash":
		programs, _ := programsOf(q)
		return slices.Contains(programs, scope) || slices.Contains(tool.Forms(q.Title), scope) || commandOf(q) == scope
	case !scopeKnown(a, q) || file.IsFileTool(q.Tool):
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

// unlistedReason tells an agent why a call is denied that its file does not allow,
// where nobody can be asked.
func unlistedReason(a file.Agent, q runner.Question) string {
	p := file.Permission{Tool: oneLine(q.Tool)}
	if scopeKnown(a, q) {
		p.Scope = oneLine(q.Title)
	}
	if q.Tool == "bash" && scopeKnown(a, q) {
		p.Scope = oneLine(commandOf(q)) // what the file would have to say
	}
	return fmt.Sprintf("this agent runs by itself, so nobody can be asked, and the permissions of its fleet file do not allow %s", p)
}
