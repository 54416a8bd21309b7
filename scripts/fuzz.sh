#!/usr/bin/env bash
# Fuzzes every target of the module and prints a line for each. It fails at the
# end when a target failed; the input that made it fail is then in testdata/fuzz
# beside the target, to be kept with the fix, and go test tries it ever after.
# What fuzzing learns besides stays in Go's cache, and is tried first the next
# time: known inputs, then new ones.
#
#   scripts/fuzz.sh                    # 2 seconds each
#   scripts/fuzz.sh 30s ./convert/...  # longer, and only some
#   FUZZJOBS=2 scripts/fuzz.sh 1s      # two packages side by side
#
# One target after the other has all cores, and is led by what its inputs reach.
# Side by side each has one core and no lead: for that, everything that it links
# would have to be compiled again, which takes minutes where nothing is cached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
jobs=${FUZZJOBS:-1}
each=${1:-2s}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- ./...

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
cache=$("$go" env GOCACHE)/fuzz
lead='-fuzz .' workers=
[ "$jobs" -eq 1 ] || lead= workers='-test.parallel 1'

# ran_out tells a target that was cut off in the middle of a call at its end,
# which Go reports as an error, from one that found something.
ran_out() {
	grep -q 'context deadline exceeded' "$1" && ! grep -qE 'Failing input written|panic:|fuzzing process (hung|terminated)' "$1"
}

# fuzz PACKAGE DIR MINE fuzzes the targets of a package, and keeps in the folder
# MINE what it needs, a line in targets for each, and one in failed for each that
# failed.
fuzz() {
	local package=$1 dir=$2 mine=$3 target known tried
	mkdir "$mine"
	# Linked once for all its targets, without what only a debugger reads.
	if ! "$go" test -c -vet=off -ldflags=-w $lead -o "$mine/test" "$package" >"$mine/out" 2>&1; then
		cat "$mine/out"
		echo "$package" >>"$mine/failed"
		return
	fi
	for target in $(cd "$dir" && "$mine/test" -test.list '^Fuzz'); do
		echo "$target" >>"$mine/targets"
		if (cd "$dir" && "$mine/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$each" $workers \
			-test.fuzzminimizetime 1s -test.fuzzcachedir "$cache/$package") </dev/null >"$mine/out" 2>&1 || ran_out "$mine/out"; then
			known=$(sed -n 's|.*baseline coverage: [0-9]*/\([0-9]*\) .*|\1|p' "$mine/out" | tail -1)
			tried=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$mine/out" | tail -1)
			printf 'ok    %5s known %8s calls  %s  %s\n' "${known:-0}" "${tried:-0}" "$package" "$target"
		else
			echo "$target" >>"$mine/failed"
			cat "$mine/out"
			printf 'FAIL                              %s  %s\n' "$package" "$target"
		fi
	done
	rm -f "$mine/test"
}

n=0
while IFS=$'\t' read -r package dir; do
	# A package without a target need not be built.
	grep -qE '^func Fuzz' "$dir"/*_test.go 2>/dev/null || continue
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.1; done
	n=$((n + 1))
	fuzz "$package" "$dir" "$built/$n" &
done < <("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{end}}' "$@")
wait

count() { { cat "$built"/*/"$1" 2>/dev/null || true; } | wc -l; }
targets=$(count targets) failed=$(count failed)
echo "fuzzed $targets targets for $each each, $failed failed"
[ "$failed" -eq 0 ] && [ "$targets" -gt 0 ]
