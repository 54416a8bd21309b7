#!/usr/bin/env bash
# Fuzzes every target of the module, one after the other, and prints a line for
# each. It fails at the end when a target failed; the input that made it fail
# is then in testdata/fuzz beside the target, to be kept with the fix, and
# go test tries it ever after. What fuzzing learns besides stays in Go's cache,
# and is tried first the next time: known inputs, then new ones.
#
#   scripts/fuzz.sh                    # 2 seconds each, as make test does
#   scripts/fuzz.sh 30s ./convert/...  # longer, and only some
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
each=${1:-2s}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- ./...

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
cache=$("$go" env GOCACHE)/fuzz
targets=0 failed=0

# ran_out tells a target that was cut off in the middle of a call at its end,
# which Go reports as an error, from one that found something.
ran_out() {
	grep -q 'context deadline exceeded' "$1" && ! grep -qE 'Failing input written|panic:|fuzzing process (hung|terminated)' "$1"
}

while IFS=$'\t' read -r package dir; do
	# A package without a target need not be built.
	grep -qE '^func Fuzz' "$dir"/*_test.go 2>/dev/null || continue
	# Instrumented and linked once for all its targets.
	if ! "$go" test -c -fuzz . -o "$built/test" "$package" >"$built/out" 2>&1; then
		cat "$built/out"
		failed=$((failed + 1))
		continue
	fi
	for target in $(cd "$dir" && "$built/test" -test.list '^Fuzz'); do
		targets=$((targets + 1))
		if (cd "$dir" && "$built/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$each" \
			-test.fuzzminimizetime 1s -test.fuzzcachedir "$cache/$package") </dev/null >"$built/out" 2>&1 || ran_out "$built/out"; then
			known=$(sed -n 's|.*baseline coverage: [0-9]*/\([0-9]*\) .*|\1|p' "$built/out" | tail -1)
			tried=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$built/out" | tail -1)
			printf 'ok    %5s known %8s calls  %s  %s\n' "${known:-0}" "${tried:-0}" "$package" "$target"
		else
			failed=$((failed + 1))
			cat "$built/out"
			printf 'FAIL                              %s  %s\n' "$package" "$target"
		fi
	done
done < <("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{end}}' "$@")

echo "fuzzed $targets targets for $each each, $failed failed"
[ "$failed" -eq 0 ] && [ "$targets" -gt 0 ]
