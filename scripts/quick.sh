#!/usr/bin/env bash
# What make quick runs: every test that needs neither PostgreSQL nor a browser
# nor another program, but those that quick.txt names because they take long,
# with a fifth of the random trials, which is what -short means to rapid. make
# test runs them all. What did not change since is not run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${GO:=go}"

list() { awk -F' +[|] ' -v kind="$1" 'sub("^" kind " +", "", $1) { print $1 }' scripts/quick.txt; }

. scripts/memory.sh 2000000

# Most tests of the longest rooms wait for programs, so more than one room a core
# and many tests of a room may be under way. Without what only a debugger reads,
# test programs are linked in half the time; and programs that live for seconds
# need not collect their garbage as often as those that live for days.
rooms=$(bash scripts/rooms.sh | grep -vE "/($(list room | paste -sd'|' -))\$")
{
	GOGC=400 "$GO" test -short -vet=off -ldflags=-w -json -p $(($(getconf _NPROCESSORS_ONLN) + 1)) -parallel 8 -skip "$(list test | sed -E 's|[^/]+|^&$|g' | paste -sd'|' -)" $rooms || true
} | bin/tally -quick
