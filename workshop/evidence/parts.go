package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// part is one thing that is tried.
type part struct {
	name, section string
	goal, what    string
	short, full   int64 // how often it is tried; short 0: it takes too long for the short form
	wanted        int64 // how often the goal wants it tried; 0: the goal names no count
	command       func(n int64) invocation
	read          reader // nil: it consists of tests, and tally says how to read them
	tally         tally
}

func (p part) rows(n int64, out []byte) (rows []row, notRun string, err error) {
	if p.read == nil {
		return p.tally.read(p, n, out)
	}
	return p.read(p, n, out)
}

// everyPart lists the parts. It has to run in the folder of go.mod.
func everyPart() ([]part, error) {
	fuzz, err := fuzzParts(".")
	if err != nil {
		return nil, err
	}
	return slices.Concat(crashParts(), scheduleParts(), isolationParts(), hostileParts(), fuzz, loadParts()), nil
}

// crash is a trial of workshop/crash.
func crash(trial, backend string, flags ...string) func(int64) invocation {
	return func(n int64) invocation {
		args := append([]string{"go", "run", "./workshop/crash", trial, "-backend", backend}, flags...)
		return invocation{args: append(args, "-n", fmt.Sprint(n)), more: []string{"-json"}}
	}
}

// tests are tests of a room, with a variable that says how often; "": they
// have their own counts.
func tests(run, variable string, rooms ...string) func(int64) invocation {
	return func(n int64) invocation {
		c := invocation{args: append([]string{"go", "test", "-count=1", "-timeout=0", "-run", run}, rooms...), more: []string{"-json"}}
		if variable != "" {
			c.env = fmt.Sprintf("%s=%d", variable, n)
		}
		return c
	}
}

// none fills the columns lost, doubled, unreadable and by hand for tests
// that fail when there is any.
func none(store, acknowledged, besides string) []string {
	return []string{store, acknowledged, "0", "0", "0", "0", besides}
}

func crashParts() (parts []part) {
	for _, b := range []string{"sqlite", "files"} {
		parts = append(parts,
			part{name: "kill-" + b, what: "SIGKILL at a random instant, " + b, goal: "R1", short: 150, full: 10_000, wanted: 10_000, command: crash("kill", b), read: ofCrash},
			part{name: "chat-" + b, what: "SIGKILL of a chat, " + b, goal: "R1", short: 30, full: 1_000, command: crash("chat", b), read: ofCrash},
			part{name: "edits-" + b, what: "SIGKILL while files change, " + b, goal: "R1", short: 30, full: 1_000, command: crash("edits", b), read: ofCrash},
			part{name: "power-" + b, what: "power cut, ext4, " + b, goal: "R2", short: 40, full: 10_000, wanted: 10_000, command: crash("power", b), read: ofCrash},
			part{name: "power-xfs-" + b, what: "power cut, XFS, " + b, goal: "R2", short: 20, full: 2_000, wanted: 2_000, command: crash("power", b, "-fs", "xfs"), read: ofCrash},
			part{name: "full-" + b, what: "full disk, " + b, goal: "R4", short: 1, full: 20, command: crash("full", b), read: ofCrash},
			part{name: "lease-" + b, what: "many writers, " + b, goal: "R5", short: 1_500, full: 100_000, wanted: 100_000, command: crash("lease", b, "-procs", "64", "-sessions", "4"), read: ofCrash},
		)
	}
	for _, c := range []struct {
		name, test, what string
		wanted           int64
		count            int // which number of the line
	}{
		{"pg-death", "TestAcknowledgedLinesSurviveTheServersDeath", "SIGKILL of the whole database server, fsync on", 10_000, 1},
		{"pg-terminate", "TestAcknowledgedLinesSurviveTerminatedConnections", "connections terminated, two at a time", 0, 1},
		{"pg-cut", "TestAcknowledgedLinesSurviveCutConnections", "connections cut at random bytes, COMMIT included: outcomes that were unknown at first", 0, 2},
	} {
		parts = append(parts, part{name: c.name, goal: "R1", what: c.what, short: 20, full: 2_000, wanted: c.wanted,
			command: tests("^"+c.test+"$", "TIDEMARK_CRASH_BATCHES", "./backend/postgres"),
			tally: tally{says: "%d batches acknowledged, %d troubles, %d outcomes unknown at first", counts: []int{c.count},
				figures: none("postgres", "{0} batches", "{2} outcomes unknown at first")}})
	}
	parts = append(parts,
		part{name: "states", goal: "R3", what: "a crash after every call to the file system, and again inside the recovery: different states", short: 20_000, full: 1_000_000, wanted: 1_000_000,
			command: tests("^TestEveryCrashLeavesWholeBatches$", "TIDEMARK_CRASH_STATES", "./backend/files"),
			tally:   tally{says: "%d different states visited", counts: []int{0}, figures: none("files", "", "")}},
		part{name: "arrivals", goal: "R1", what: "SIGKILL of two processes of eight writers each, while lines arrive and are moved", short: 24, full: 10_000, wanted: 10_000,
			command: tests("^TestProcessesWhoseLinesArriveAreKilled$", "TIDEMARK_ARRIVAL_KILLS", "./backend/sqlite"),
			tally:   tally{says: "%d kills, %d entries", counts: []int{0}, figures: none("sqlite", "{1} entries", "")}},
		part{name: "watch", goal: "R1", what: "SIGKILL of a watcher while agents write", short: 8, full: 300, wanted: 200,
			command: tests("^TestAKilledWatcherLosesAndDoublesNothing$", "TIDEMARK_WATCH_KILLS", "./transfer/watch"),
			tally:   tally{says: "%d kills, %d entries", counts: []int{0}, figures: none("sqlite", "{1} entries", "as if imported at once")}},
		part{name: "watch-agents", goal: "R1", what: "SIGKILL of a watcher while real agents from npm work", full: 50, wanted: 200, read: ofCrash,
			command: func(n int64) invocation {
				return invocation{args: []string{"go", "run", "./workshop/clients", "-only", "^kills", "-again", "-kills", fmt.Sprint(n)}, more: []string{"-json"}}
			}},
		part{name: "faults", goal: "R4", what: "EIO, ENOSPC, EINTR and short writes at every call, once and for good", short: 1, full: 1,
			command: tests("^TestEveryFaultIsNoFalsePromise$", "", "./backend/files"),
			tally:   tally{says: "%d calls failed", counts: []int{0}, figures: none("files", "", "no false acknowledgement, no panic")}},
	)
	for _, c := range []struct{ room, test string }{
		{"backend/sqlite", "TestBackend"}, {"backend/files", "TestBackend"}, {"backend/cold", "TestBackend"}, {"backend/postgres", "TestBackend"},
		{"seal", "TestBackendOverMemory"}, {"search/index", "TestRandomHistoriesFindWhatLookingAtEveryLineFinds"},
	} {
		parts = append(parts, part{name: "histories-" + strings.ReplaceAll(c.room, "/", "-"), what: "random histories beside a model", short: 30, full: 10_000,
			command: func(n int64) invocation {
				i := tests("^"+c.test+"$", "", "./"+c.room)(n)
				i.args = append(i.args, fmt.Sprintf("-rapid.checks=%d", n))
				return i
			},
			tally: tally{figures: none(c.room, "", "each step answered as the model does")}})
	}
	parts = append(parts, part{name: "sync", goal: "R18", what: "random histories on three machines, by every kind of remote, with kills, cuts and lies", short: 5, full: 300,
		command: tests("^TestHistoriesConvergeByEveryKindOfPlace$", "TIDEMARK_PLACE_TRIALS", "./transfer/sync"),
		tally:   tally{says: "%d histories by %s: %v", counts: []int{0}, figures: none("sqlite", "", "all converge, nothing plain at the remote")}})
	return in("crash", parts)
}

func scheduleParts() []part {
	return in("schedule", []part{
		{name: "years", goal: "R7", what: "years of schedules in many zones in simulated time, up to three daemons: daemons that died", short: 3, full: 100, wanted: 10_000,
			command: tests("^TestYearsOfSchedulesWithDaemonsThatAreKilled$", "TIDEMARK_YEARS", "./fleet/daemon"),
			tally:   tally{says: "%d instants, %d runs, %d daemons, %d died", counts: []int{3}, figures: none("memory", "{0} instants", "{1} runs, {2} daemons")}},
		{name: "fleet-sqlite", what: "SIGKILL of a fleet, sqlite", goal: "R7", short: 8, full: 300, command: crash("fleet", "sqlite"), read: ofCrash},
		{name: "fleet-files", what: "SIGKILL of a fleet, files", goal: "R7", short: 8, full: 150, command: crash("fleet", "files"), read: ofCrash},
		{name: "nodes", goal: "R7", what: "three nodes on one database, killed at random", short: 100, full: 10_000,
			command: tests("^TestNodesKilledAtRandomLoseNothingAndRunNothingTwice$", "TIDEMARK_NODE_JOBS", "./dispatch"),
			tally:   tally{says: "%d jobs, %d kills, %.1f s: %.0f jobs a second; %v", counts: []int{1}, figures: none("postgres", "{0} jobs", "nothing ran twice")}},
	})
}

func isolationParts() []part {
	sql, http := "./backend/postgres", "./server"
	return in("isolation", []part{
		{name: "sql-written", goal: "R8", what: "written SQL attacks as the server's role, by 15 askers", short: 1, full: 1,
			command: tests("^TestNoStatementTellsOrChangesAForeignRow$", "TIDEMARK_SQL_STATEMENTS", sql), // set to anything, each asker tries all
			tally: tally{says: "%d statements, %d not refused, %d with rows", counts: []int{0},
				figures: []string{"0 foreign rows, 0 answers that tell of one; {1} not refused, {2} with rows of one's own"}}},
		{name: "sql", goal: "R8", what: "generated SQL statements", short: 2_800, full: 1_000_000, wanted: 10_000_000,
			command: tests("^TestNoGeneratedStatementTellsOrChangesAForeignRow$", "TIDEMARK_SQL_STATEMENTS", sql),
			tally: tally{says: "%d statements, %d not refused, %d with rows", counts: []int{0},
				figures: []string{"0 foreign rows, 0 answers that tell of one; {1} not refused, {2} with rows of one's own"}}},
		{name: "sql-protections", goal: "R8", what: "policies, FORCE, WITH CHECK and grants taken away one at a time: found by these attacks", short: 1, full: 2,
			command: everyProtection("^TestEveryProtectionIsMissedWhenItIsGone$", "TIDEMARK_SQL_STATEMENTS", sql),
			tally:   tally{says: "%d are found by the look for leaks", counts: []int{0}, figures: []string{"each that opens something; the others are refused by the self-test"}}},
		{name: "http", goal: "R8", what: "HTTP requests over every route, kind of id and role, on memory and PostgreSQL", short: 2_000, full: 500_000, wanted: 1_000_000,
			command: tests("^(TestNobodySeesWhatIsAnothersInMemory|TestNobodySeesWhatIsAnothersInPostgreSQL)$", "TIDEMARK_HTTP_REQUESTS", http),
			tally: tally{says: "%d requests to %d routes; %d routes were never answered well: %v", counts: []int{0},
				figures: []string{"0 foreign rows; foreign ids are answered as absent ones"}}},
		{name: "http-pages", goal: "R8", what: "requests for every page, on PostgreSQL", short: 400, full: 20_000,
			command: tests("^TestNobodySeesWhatIsAnothersOnPages$", "TIDEMARK_HTTP_REQUESTS", http),
			tally: tally{says: "%d requests to %d routes; %d routes were never answered well: %v", counts: []int{0},
				figures: []string{"0 foreign rows; foreign ids are answered as absent ones"}}},
		{name: "http-faults", goal: "R8", what: "faults planted in the server", short: 1, full: 1,
			command: tests("^TestTheMatrixFindsFaultsOfAServer$", "", http),
			tally:   tally{tests: true, figures: []string{"each found by the same requests, and nothing where nothing was planted"}}},
		{name: "http-protections", goal: "R8", what: "protections of the database taken away one at a time: seen over HTTP", short: 1, full: 2,
			command: everyProtection("^TestTheMatrixFindsWhatADatabaseLacks$", "TIDEMARK_HTTP_REQUESTS", http),
			tally:   tally{says: "%d are seen over HTTP:", counts: []int{0}, figures: []string{"the others, too, keep the server from starting"}}},
		{name: "tokens", goal: "R9", what: "hostile tokens", short: 1, full: 1, wanted: 250,
			command: tests("^TestHostileTokensAreRefused$", "", "./server/auth"),
			tally:   tally{says: "%d hostile tokens refused", counts: []int{0}, figures: []string{"all refused, each with the same answer"}}},
		{name: "rotations", goal: "R9", what: "key rotations under load", short: 20, full: 1_000, wanted: 1_000,
			command: tests("^TestKeysChangeUnderLoadAndNoGoodTokenIsRefused$", "TIDEMARK_ROTATIONS", "./server/auth"),
			tally:   tally{figures: []string{"no valid token refused, no made-up key taken"}}},
	})
}

// everyProtection are tests that remove some of the protections, or all of
// them where a variable is set, which it is from 2 on.
func everyProtection(run, variable, room string) func(int64) invocation {
	return func(n int64) invocation {
		if n < 2 {
			return tests(run, "", room)(n)
		}
		return tests(run, variable, room)(n)
	}
}

func hostileParts() []part {
	return in("hostile", []part{
		{name: "transcripts", goal: "R10", what: "hostile transcripts as HTML, as Markdown and on a terminal", short: 1_000, full: 10_000, wanted: 10_000,
			command: tests("^TestNoHostileTranscriptGetsThrough$", "TIDEMARK_HOSTILE", "./render"),
			tally:   tally{figures: []string{"0 tags, handlers, links or escape bytes that the transcript brought"}}},
		{name: "browser", goal: "R10", what: "hostile transcripts as exported HTML, opened in Chromium", short: 500, full: 10_000, wanted: 10_000,
			command: tests("^TestABrowserRunsAndLoadsNothing$", "TIDEMARK_HOSTILE", "./render"),
			tally:   tally{figures: []string{"0 scripts run, 0 requests; every other page without its policy"}}},
		{name: "pages", goal: "R10", what: "hostile entries on the server's pages, in Chromium", short: 200, full: 10_000, wanted: 10_000,
			command: tests("^TestHostileTranscriptsRunAndLoadNothing$", "TIDEMARK_HOSTILE", "./server"),
			tally:   tally{says: "%d hostile entries in %d sessions", counts: []int{0}, figures: []string{"{1} sessions; 0 scripts run, 0 requests elsewhere, the policy never had to step in"}}},
		{name: "imports", goal: "R11", what: "hostile, damaged and oversized imports and archives", short: 1, full: 1, wanted: 200,
			command: tests("^Fuzz|Hostile|Bomb|Countless|Bad|Damaged|TooLong|Links|Refused|CutOff", "", "./convert/...", "./archive"),
			tally:   tally{tests: true, figures: []string{"each refused, or its bad part left out and named"}}},
		{name: "bytes-sealed", goal: "R6", what: "bytes of an encrypted store changed, one after the other, files and sqlite", short: 1, full: 2, wanted: 1 << 20,
			command: everyByte,
			tally:   tally{says: "%d changes noticed, %d harmless", counts: []int{0, 1}, figures: []string{"{0} noticed, {1} harmless, 0 showed wrong content"}}},
		{name: "flips-sqlite", goal: "R6", what: "bits of a plain sqlite store flipped", short: 1, full: 1,
			command: tests("^TestFlippedBytesAreNeverGivenAsGood$", "", "./backend/sqlite"),
			tally: tally{says: "%d flips: in the mean %.1f of %d things lost; %d losses found by a check alone", counts: []int{0},
				figures: []string{"0 showed wrong content; {2} losses that only a check tells"}}},
		{name: "authority", goal: "R14", what: "what came in from outside and would run something: imports, syncs, calls and answers over every route", short: 1, full: 1, wanted: 200,
			command: tests("^TestAuthorityDoesNotTravel$", "", "./cmd/tidemark"),
			tally:   tally{says: "%d cases", counts: []int{0}, figures: []string{"0 programs run, 0 approvals, loops or wakes taken up"}}},
		{name: "authority-fleet", goal: "R14", what: "requests and lines to a fleet that is up, by somebody who may write", short: 1, full: 1, wanted: 200,
			command: tests("^TestNoRouteRunsAnythingInAFleetThatIsUp$", "", "./cmd/tidemark"),
			tally:   tally{says: "%d requests and lines in all", counts: []int{0}, figures: []string{"0 programs run, 0 jobs begun"}}},
		{name: "sandbox", goal: "R15", what: "ways out of the sandbox", short: 1, full: 1, wanted: 60,
			command: tests("^(TestNoEscapeSucceeds|TestEscapesThatLandlockHoldsAlone)$", "", "./internal/sandbox"),
			tally:   tally{tests: true, figures: []string{"0 succeeded; without the sandbox they do"}}},
		{name: "growing", goal: "R17", what: "samples of every tool, read at random bytes as they grow", short: 1, full: 1,
			command: tests("^(TestASessionThatIsImportedAsItGrowsEndsAsIfImportedAtOnce|TestPartsOfAHomeThatGrowsEndAsIfImportedAtOnce)$", "", "./transfer"),
			tally:   tally{tests: true, figures: []string{"each ends as if it was imported at once"}}},
		{name: "modes", goal: "R13", what: "stores under umask 000, and what a fleet puts out: tests", short: 1, full: 1,
			command: tests("^(TestNothingIsOpenToOthersWhateverTheUmask|TestFilesAreNarrowWhateverTheUmask|TestFault17NobodyElseReadsWhatJobsPutOut)$", "", "./backend/files", "./backend/sqlite", "./fleet/daemon"),
			tally:   tally{tests: true, figures: []string{"0 files wider than 0600, 0 folders wider than 0700"}}},
	})
}

// everyByte changes some bytes, and from 2 on all of them.
func everyByte(n int64) invocation {
	c := tests("^TestEveryByteOnDiskIsNoticedOrHarmless$", "", "./seal")(n)
	if n >= 2 {
		c.env = "TIDEMARK_EVERY_BYTE=1"
	}
	return c
}

func loadParts() []part {
	load := func(name, what string, short, full int64, entries string, more ...string) part {
		return part{name: name, what: what, short: short, full: full, read: ofLoad, command: func(n int64) invocation {
			return invocation{more: []string{"-json"}, args: append([]string{"go", "run", "./workshop/load", "-followers", fmt.Sprint(5 * n), "-writers", fmt.Sprint(n), "-entries", entries}, more...)}
		}}
	}
	audit := func(name, what string, flags ...string) part {
		return part{name: name, what: what, goal: "R16", short: 10, full: 200, wanted: 10_000, read: ofLoad, command: func(n int64) invocation {
			return invocation{more: []string{"-json"}, args: append([]string{"go", "run", "./workshop/load", "-followers", "10", "-writers", "60", "-entries", fmt.Sprint(n), "-drains", "5", "-kills", fmt.Sprint(max(n*11/20, 5))}, flags...)}
		}}
	}
	return in("load", []part{
		audit("audit-sqlite", "every write has its line in the audit log", "-sqlite"),
		audit("audit-postgres", "every write has its line in the audit log", "-cuts", "10", "-crashes", "10"),
		load("load", "writers and followers over HTTP", 20, 200, "40", "-drains", "3", "-kills", "3", "-cuts", "6"),
		load("failover", "the database fails over under them", 20, 60, "60", "-drains", "2", "-kills", "2", "-cuts", "2", "-failover"),
		load("moves", "the tenant moves between databases under them", 20, 60, "60", "-drains", "2", "-kills", "2", "-cuts", "2", "-moves", "6"),
		load("chills", "older lines move to storage that is killed", 20, 60, "60", "-drains", "2", "-kills", "2", "-cuts", "2", "-chills", "6")})
}

// slowToBuild takes minutes to compile for fuzzing, with everything that it
// links.
const slowToBuild = "cmd/tidemark"

// fuzzParts are the rooms below a folder that have fuzz targets. The count is
// seconds for each target.
func fuzzParts(root string) (parts []part, err error) {
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return nil, fmt.Errorf("start it where go.mod is: %w", err)
	}
	rooms := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root:
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir // another module
			}
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("\nfunc Fuzz")) {
				rooms[filepath.ToSlash(filepath.Dir(path))] = true
			}
			return err
		}
		return nil
	})
	for room := range rooms {
		name, short := strings.ReplaceAll(room, "/", "-"), int64(2)
		if room == "." {
			name = "root"
		}
		if room == slowToBuild {
			short = 0
		}
		parts = append(parts, part{name: "fuzz-" + name, goal: "R12", what: room, short: short, full: 60, wanted: 10_000_000, read: ofFuzz,
			command: func(n int64) invocation {
				return invocation{args: []string{"scripts/fuzz.sh", fmt.Sprintf("%ds", n), "./" + room}}
			}})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return in("fuzz", parts), err
}

func in(section string, parts []part) []part {
	for i := range parts {
		parts[i].section = section
	}
	return parts
}
