# Sourced by what runs tests: has them keep what they make in memory, where that
# many KB are free there, because a disk takes its time for each of their many
# thousands of syncs. A kill leaves the same either way, and power cuts have
# their own file systems. Some tests run programs that they made.
#
#   . scripts/memory.sh 2000000
memory=/dev/shm
if tried=$(mktemp "$memory/tidemark.XXXXXX" 2>/dev/null); then
	printf '#!/bin/sh\n' >"$tried" && chmod 700 "$tried"
	if "$tried" && [ "$(df -Pk "$memory" | awk 'END { print $4 }')" -gt "$1" ]; then
		export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} TMPDIR=$memory
	fi
	rm -f "$tried"
fi
