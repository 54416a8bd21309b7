#!/usr/bin/env bash
# What make quick runs: every test that needs neither PostgreSQL nor a browser
# nor another program, but those that quick.txt names because they take long,
# with a fifth of the random trials, which is what -short means to rapid. make
# test runs them all. What did not change since is not run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${GO:=go}"

list() { awk -F' +[|] ' -v kind="$1" 'sub("^" kind " +", "", $1) { print $1 }' scripts/quick.txt; }

# Tests keep what they make in memory where there is room, because a disk takes
# its time for each of the thousands of syncs. Some run programs that they made.
memory=/dev/shm
if try=$(mktemp "$memory/tidemark.XXXXXX" 2>/dev/null); then
	printf '#!/bin/sh\n' >"$try" && chmod 700 "$try"
	if "$try" && [ "$(df -Pk "$memory" | awk 'END { print $4 }')" -gt 2000000 ]; then
		export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} TMPDIR=$memory
	fi
	rm -f "$try"
fi

# Most tests of the longest rooms wait for programs, so more than one a core
# may be under way.
rooms=$(bash scripts/rooms.sh | grep -vE "/($(list room | paste -sd'|' -))\$")
{
	"$GO" test -short -vet=off -json -parallel 8 -skip "^($(list test | paste -sd'|' -))\$" $rooms || true
} | bin/tally -quick
