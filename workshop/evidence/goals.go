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
	{"P1", "durable append by one writer: `files` ≤ 1.3× write + fdatasync, `sqlite` ≤ 2.5×; encryption adds ≤ 5 %"},
	{"P2", "64 writers: `sqlite` ≥ 8× as fast as a transaction each, even; `files` no slower than a bare sync each"},
	{"P3", "last 50 entries: ≤ 50 µs in `files`, ≤ 100 µs in `sqlite`, flat to 10M, ≥ 3× as fast as node from the end; encrypted ≤ 2×"},
	{"P4", "50 in the middle of 1M: ≤ 3× the tail"},
	{"P5", "branch, label, checkpoint, fork: ≤ 2× an append in `sqlite`, a new file's price in `files`; ≥ 1,000× as fast as copying 100k entries"},
	{"P6", "newest 50 of 100,000 sessions ≤ 0.5 ms in `sqlite`, of 10,000 ≤ 50 ms in `files`; `tidemark ls` ≤ 2× `tidemark version`"},
	{"P7", "open for resume: 1M entries ≤ 1.3× of 100; 1 GB in ≤ 40 MB of memory"},
	{"P8", "search in 1 GB: p95 ≤ 10 ms, ≥ 50× as fast as ripgrep; encrypted ≤ 2×; index ≤ 30 % of the text"},
	{"P9", "import ≥ 30 MB/s with its index and ≥ 80 MB/s before, export ≥ 200 MB/s, in ≤ 200 MB of memory"},
	{"P10", "`tidemark version` ≤ 10 ms, `tidemark ls` ≤ 20 ms, ≥ 10× as fast as node starts; binary ≤ 50 MB"},
	{"P11", "5,000 jobs listed ≤ 50 ms, last 50 of 100k lines ≤ 20 ms, idle tick of 10,000 schedules ≤ 10 ms of CPU, ≥ 200 starts a second, idle ≤ 50 MB"},
	{"P12", "PostgreSQL: append ≤ 2× a bare INSERT, 64 writers ≥ 3× as fast as an INSERT each; row-level security ≤ 15 %; two nodes ≥ 80 % each of one"},
	{"P13", "HTTP: append and tail ≤ 2× of the call in process and a round trip; 1,000 followers told within 250 ms (p99)"},
	{"P14", "a streamed answer costs ≤ 1 ms of CPU per 1,000 deltas beyond the model's own client"},
}

// goalTable says of each goal whether it is met by all rows that it judges. A
// part that did not run, or has no row, is not met. Which goals a part of the
// benchmarks judges is known only after it ran.
func goalTable(all []shown) string {
	met, judged, tried := make(map[string]int), make(map[string]int), make(map[string]bool)
	measured := true
	for _, one := range all {
		if len(one.Rows) == 0 {
			judged[one.goal]++
			measured = measured && one.section != "bench"
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
		case strings.HasPrefix(g.id, "P") && !measured:
			state = "yes, as far as it was measured"
		default:
			state = "yes"
		}
		b.WriteString(line(g.id, g.asks, state))
	}
	return b.String()
}
