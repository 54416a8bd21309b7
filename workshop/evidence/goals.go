package main

import (
	"fmt"
	"strings"
)

// goals are what the page is measured by, in the order in which it lists
// them.
var goals = []struct{ id, asks string }{
	{"R1", "10,000 SIGKILLs at random instants per durable store: nothing acknowledged is lost, doubled or unreadable, nothing is to repair by hand"},
	{"R2", "10,000 power cuts on ext4 and 2,000 on XFS, through `files` and `sqlite`: the same"},
	{"R3", "a crash after every call to the file system, with torn and unsynced data, and again during recovery: 1,000,000 states"},
	{"R4", "EIO, ENOSPC, EINTR and short writes at every call: no false acknowledgement, no panic; reading and deleting work at 0 bytes free"},
	{"R5", "100,000 contended attaches by 64 processes, with SIGKILL, SIGSTOP and pids used again: never two writers, takeover within a second"},
	{"R6", "every byte of a store of 1 MiB changed, plain and encrypted: noticed or harmless, no wrong content shown"},
	{"R7", "ten simulated years of schedules in 50 zones, 10,000 daemons killed, two daemons: no double run, no occurrence unaccounted for"},
	{"R8", "10,000,000 SQL statements and 1,000,000 HTTP requests across tenants: no foreign row, no answer that tells of one; red when a protection is dropped"},
	{"R9", "250 hostile tokens refused; 1,000 key rotations without refusing a valid one"},
	{"R10", "10,000 hostile transcripts through pages, exported HTML and the terminal: no script runs, no request, no escape byte"},
	{"R11", "200 hostile imports: contained, in 200 MB, refused within 2 seconds"},
	{"R12", "20 fuzz targets, 10,000,000 executions each: no open crasher"},
	{"R13", "no file or folder wider than 0600 or 0700, under umask 000"},
	{"R14", "authority that comes in from outside: 200 hostile imports, syncs and calls over every route into every kind of store: no program runs, no approval, loop or wake is taken up"},
	{"R15", "60 ways out of the sandbox: no key or secret is read, nothing is written outside, nobody is connected to"},
	{"R16", "10,000 writes over 100 kills of servers and database: each has its line in the audit log, and a line that is removed is missed"},
	{"R17", "samples of every tool, read as they grow: the same as if imported at once"},
	{"R18", "random histories on three machines over every kind of remote, with kills, cuts and lies: all converge, nothing acknowledged is lost, nothing plain is at the remote"},
}

// goalTable says of each goal whether it is met by all rows that it judges. A
// part that did not run, or has no row, is not met.
func goalTable(all []shown) string {
	met, judged, tried := make(map[string]int), make(map[string]int), make(map[string]bool)
	for _, one := range all {
		if len(one.Rows) == 0 {
			judged[one.goal]++
		}
		for _, r := range one.Rows {
			tried[r.Goal] = true
			if r.Met != "" {
				judged[r.Goal]++
			}
			if r.Met == "yes" && len(one.Failed) == 0 {
				met[r.Goal]++
			}
		}
	}
	var b strings.Builder
	b.WriteString(line("goal", "asks for", "met") + line("---", "---", "---"))
	for _, g := range goals {
		state := fmt.Sprintf("no: in %d of %d rows", met[g.id], judged[g.id])
		switch {
		case judged[g.id] == 0 && tried[g.id]:
			state = "not judged at this size"
		case judged[g.id] == 0:
			state = "not tried"
		case met[g.id] < judged[g.id]:
		default:
			state = "yes"
		}
		b.WriteString(line(g.id, g.asks, state))
	}
	return b.String()
}
