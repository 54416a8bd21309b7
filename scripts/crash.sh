#!/usr/bin/env bash
# What `make crash` runs: the trials of workshop/crash and the in-memory
# crashing file system, in one table. It takes minutes, needs root for what
# mounts something, says what it skipped, and exits with 1 when a promise was
# broken.
#
#   KILLS=10000 CUTS=10000 XFSCUTS=2000 ATTACHES=100000 scripts/crash.sh    the full counts
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

KILLS=${KILLS:-2000}
CUTS=${CUTS:-500}
XFSCUTS=${XFSCUTS:-100}
FILLS=${FILLS:-10}
ATTACHES=${ATTACHES:-10000}
PROCS=${PROCS:-64}
STATES=${TIDEMARK_CRASH_STATES:-1000000}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${GO:-go} build -o "$work/tidemark" ./cmd/tidemark
${GO:-go} build -o "$work/crash" ./workshop/crash

failed=0
head=""
crash() { # crash TRIAL FLAG…: the head of the table goes before the first row
	local code=0
	"$work/crash" "$@" -bin "$work/tidemark" $head >"$work/said" || code=$?
	if grep -q '^skipped: ' "$work/said"; then
		echo "crash $*: $(cat "$work/said")" >&2
	else
		cat "$work/said"
		head=-no-head
	fi
	[ "$code" -eq 0 ] || failed=1
}

for backend in sqlite files; do
	crash kill -backend "$backend" -n "$KILLS"
	crash kill -backend "$backend" -plain -n "$((KILLS / 5 + 1))"
	crash power -backend "$backend" -fs ext4 -n "$CUTS"
	crash power -backend "$backend" -fs xfs -n "$XFSCUTS"
	crash full -backend "$backend" -n "$FILLS"
	crash lease -backend "$backend" -n "$ATTACHES" -procs "$PROCS"
	crash chat -backend "$backend" -n "$((KILLS / 2))"
	crash edits -backend "$backend" -n "$((KILLS / 2))"
done

# Every file-system call of every operation of the files backend, with torn
# and unsynced data, and again inside recovery.
began=$SECONDS
code=0
TIDEMARK_CRASH_STATES=$STATES ${GO:-go} test -count=1 -timeout=2h -v -run '^TestEveryCrash' ./backend/files >"$work/states" 2>&1 || code=$?
if [ "$code" -ne 0 ]; then
	cat "$work/states" >&2
	failed=1
fi
printf '\n%s states of the crashing file system, %s s: %s\n' "$STATES" "$((SECONDS - began))" "$([ "$code" -eq 0 ] && echo 'all whole' || echo 'FAILED')"
grep -hE '^ +crash_test\.go:[0-9]+: ' "$work/states" | sed -E 's/^ +crash_test\.go:[0-9]+: /  /' | tail -20 || true

exit "$failed"
