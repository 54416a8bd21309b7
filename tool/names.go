package tool

import "strings"

// otherNames are the names that files which people wrote for Claude Code have
// for the tools here.
var otherNames = map[string][]string{
	"bash": {"Bash"}, "read": {"Read", "NotebookRead"}, "write": {"Write"}, "edit": {"Edit", "MultiEdit", "NotebookEdit"},
	"glob": {"Glob"}, "grep": {"Grep"}, "ls": {"LS"}, "fetch": {"WebFetch"}, "task": {"TodoWrite"}, "spawn_worker": {"Task", "Agent"}, "skill": {"Skill"},
}

// Names returns the names of a tool in people's files, its own last. The first
// is what programs of theirs expect to be told.
func Names(name string) []string { return append(append([]string(nil), otherNames[name]...), name) }

// Known returns the name here of a tool that a file names: Bash is bash. What
// stands in brackets behind it, as in Bash(git:*), is left out. A name that is
// not known is returned as it is.
func Known(named string) string {
	named, _, _ = strings.Cut(strings.TrimSpace(named), "(")
	for name, others := range otherNames {
		for _, o := range others {
			if o == named {
				return name
			}
		}
	}
	return named
}
