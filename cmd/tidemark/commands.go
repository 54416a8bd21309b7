package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// command is one that people call by name: the group that help shows it in, its
// name with its aliases, and what builds it.
type command struct {
	group string
	names []string
	build func(*app) *cobra.Command
}

// commands are all of them.
var commands = []command{
	{"talk", []string{"tour"}, tourCommand},
	{"talk", []string{"chat"}, chatCommand},
	{"talk", []string{"resume"}, resumeCommand},
	{"talk", []string{"acp"}, acpCommand},
	{"talk", []string{"models"}, modelsCommand},
	{"talk", []string{"memory"}, memoryCommand},
	{"talk", []string{"grants"}, grantsCommand},
	{"talk", []string{"sandbox"}, sandboxCommand},
	{"fleet", []string{"fleet"}, fleetCommand},
	{"fleet", []string{"agents"}, agentsCommand},
	{"fleet", []string{"agent"}, agentCommand},
	{"fleet", []string{"run"}, runCommand},
	{"fleet", []string{"jobs"}, jobsCommand},
	{"fleet", []string{"job"}, jobCommand},
	{"fleet", []string{"logs"}, logsCommand},
	{"fleet", []string{"cancel"}, cancelCommand},
	{"fleet", []string{"reviews"}, reviewsCommand},
	{"fleet", []string{"approve"}, approveCommand},
	{"fleet", []string{"deny"}, denyCommand},
	{"fleet", []string{"send"}, sendCommand},
	{"fleet", []string{"retry"}, retryCommand},
	{"fleet", []string{"fork-job"}, forkJobCommand},
	{"fleet", []string{"schedules"}, schedulesCommand},
	{"fleet", []string{"schedule"}, scheduleCommand},
	{"read", []string{"ls", "history"}, lsCommand},
	{"read", []string{"show"}, showCommand},
	{"read", []string{"tail"}, tailCommand},
	{"read", []string{"tree"}, treeCommand},
	{"read", []string{"lock"}, lockCommand},
	{"read", []string{"verify"}, verifyCommand},
	{"read", []string{"stats"}, statsCommand},
	{"read", []string{"search"}, searchCommand},
	{"read", []string{"scan"}, scanCommand},
	{"read", []string{"doctor"}, doctorCommand},
	{"read", []string{"folder"}, folderCommand},
	{"change", []string{"branch"}, branchCommand},
	{"change", []string{"rewind"}, rewindCommand},
	{"change", []string{"label"}, labelCommand},
	{"change", []string{"fork"}, forkCommand},
	{"change", []string{"rename"}, renameCommand},
	{"change", []string{"tag"}, tagCommand},
	{"change", []string{"rm"}, rmCommand},
	{"change", []string{"restore"}, restoreCommand},
	{"change", []string{"purge"}, purgeCommand},
	{"change", []string{"pin"}, pinCommand},
	{"change", []string{"unpin"}, unpinCommand},
	{"change", []string{"hold"}, holdCommand},
	{"change", []string{"unhold"}, unholdCommand},
	{"change", []string{"gc"}, gcCommand},
	{"serve", []string{"serve"}, serveCommand},
	{"serve", []string{"mcp"}, mcpCommand},
	{"serve", []string{"open"}, openCommand},
	{"serve", []string{"database"}, databaseCommand},
	{"serve", []string{"token"}, tokenCommand},
	{"serve", []string{"tenant"}, tenantCommand},
	{"serve", []string{"user"}, userCommand},
	{"serve", []string{"audit"}, auditCommand},
	{"serve", []string{"share"}, shareCommand},
	{"move", []string{"restore-drill"}, restoreDrillCommand},
	{"move", []string{"export"}, exportCommand},
	{"move", []string{"import"}, importCommand},
	{"move", []string{"watch"}, watchCommand},
	{"move", []string{"repair"}, repairCommand},
	{"move", []string{"migrate"}, migrateCommand},
	{"move", []string{"cold"}, coldCommand},
	{"move", []string{"key"}, keyCommand},
	{"move", []string{"remote"}, remoteCommand},
	{"move", []string{"sync"}, func(a *app) *cobra.Command {
		return syncCommand(a, "sync", "Bring the sessions of a remote here, and what is new here there", true, true)
	}},
	{"move", []string{"push"}, func(a *app) *cobra.Command {
		return syncCommand(a, "push", "Bring what is new here to a remote", true, false)
	}},
	{"move", []string{"pull"}, func(a *app) *cobra.Command {
		return syncCommand(a, "pull", "Bring the sessions of other machines here", false, true)
	}},
	{"plumbing", []string{"append"}, appendCommand},
	{"plumbing", []string{"cat"}, catCommand},
	{"plumbing", []string{"record"}, recordCommand},
	{"plumbing", []string{"reveal"}, revealCommand},
	{"", []string{"config"}, configCommand},
	{"", []string{"version"}, versionCommand},
	{"", []string{"man"}, manCommand},
}

// namedFirst returns the command that the arguments name, where no other one is
// needed to carry them out; "": any may be. A command that is completed is named
// once its name is complete, which the argument behind it tells.
func namedFirst(args []string) string {
	if len(args) > 2 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "resume" || args[0] == "man" { // one goes on in chat, one writes about all
		return ""
	}
	for _, c := range commands {
		if slices.Contains(c.names, args[0]) {
			return args[0]
		}
	}
	return ""
}
